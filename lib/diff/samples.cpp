#include <algorithm>
#include <map>

#include "diff/diff.h"
#include "diff/verdict.h"

namespace tl {
namespace {

using Key = std::pair<std::string, std::string>;

Key key_of(const DiffSite& site) { return {site.reference.label, site.subject.label}; }

/// Takes over the row of the sample that is worse; counts what both say.
void fold(DiffSite& into, const DiffSite& from, std::int64_t sample) {
  const auto samples = into.samples;
  const auto mean = (into.mean_error * static_cast<double>(samples) + from.error) / static_cast<double>(samples + 1);
  auto worst = into.worst_error;
  auto worst_sample = into.worst_sample;
  const bool worse = from.error > worst || (into.within && !from.within);
  if (worse) {
    const auto inputs = into.inputs;  // rows of the merged report
    into = from;
    into.inputs = inputs;
    worst = std::max(worst, from.error);
    worst_sample = sample;
  }
  into.samples = samples + 1;
  into.mean_error = mean;
  into.worst_error = worst;
  into.worst_sample = worst_sample;
}

}  // namespace

DiffReport merge_samples(std::vector<DiffReport> reports, const std::vector<std::string>& names) {
  DiffReport merged = std::move(reports.at(0));
  merged.samples = names;
  std::map<Key, std::size_t> rows;
  for (std::size_t row = 0; row < merged.sites.size(); ++row) rows.emplace(key_of(merged.sites[row]), row);
  std::size_t missing = 0;
  std::vector<bool> is_source(merged.sites.size(), false);
  for (const auto row : merged.sources) is_source[static_cast<std::size_t>(row)] = true;
  std::size_t worst_verdict = 0;
  for (std::size_t sample = 1; sample < reports.size(); ++sample) {
    const auto& report = reports[sample];
    for (std::size_t row = 0; row < report.sites.size(); ++row) {
      const auto found = rows.find(key_of(report.sites[row]));
      if (found == rows.end()) {
        ++missing;
        continue;
      }
      fold(merged.sites[found->second], report.sites[row], static_cast<std::int64_t>(sample));
      if (report.sites[row].site_class == SiteClass::kSource) is_source[found->second] = true;
    }
    if (report.different && !merged.different) {
      worst_verdict = sample;
      merged.different = true;
      merged.verdict = report.verdict;
      merged.growth = report.growth;
    }
    merged.coverage.compared = std::min(merged.coverage.compared, report.coverage.compared);
  }
  if (missing > 0) {
    merged.notes.push_back(std::to_string(missing) + " rows stand in some samples only and are left out");
  }
  if (merged.different && reports.size() > 1) merged.verdict += " (first in " + names.at(worst_verdict) + ")";
  merged.sources.clear();
  merged.num_inherited = merged.num_undetermined = merged.num_drift = merged.num_out_of_tolerance = 0;
  merged.first_out_of_tolerance = -1;
  merged.needed_tolerance = 0;
  for (std::size_t row = 0; row < merged.sites.size(); ++row) {
    const auto& site = merged.sites[row];
    if (site.site_class == SiteClass::kNotCompared || !site.selected) continue;
    merged.needed_tolerance = std::max(merged.needed_tolerance, site.worst_error);
    if (is_source[row]) merged.sources.push_back(static_cast<std::int64_t>(row));
    if (site.within) continue;
    if (merged.first_out_of_tolerance < 0) merged.first_out_of_tolerance = static_cast<std::int64_t>(row);
    ++merged.num_out_of_tolerance;
    merged.num_inherited += !is_source[row] && site.site_class == SiteClass::kInherited;
    merged.num_undetermined += site.site_class == SiteClass::kUndetermined;
    merged.num_drift += site.site_class == SiteClass::kDrift;
  }
  return merged;
}

}  // namespace tl
