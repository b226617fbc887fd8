#include "diff/report_parts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "tensor/dtype.h"

namespace tl::report {
namespace {

std::string non_finite(double value) { return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"; }

std::string typed(const SiteRef& ref) {
  return ref.dtype == DType::kNone ? std::string() : std::string(short_name(ref.dtype)) + dims_text(ref.sizes);
}

/// Both texts, once where they are equal or one is empty.
std::string either(const std::string& reference, const std::string& subject) {
  if (reference == subject || subject.empty()) return reference;
  return reference.empty() ? subject : reference + " | " + subject;
}

}  // namespace

std::string short_number(double value) {
  if (!std::isfinite(value)) return non_finite(value);
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::general, 3);
  return {buffer.data(), end.ptr};
}

std::string exact_number(double value) {
  if (!std::isfinite(value)) return non_finite(value);
  std::array<char, 32> buffer;
  return {buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr};
}

std::string counted(std::int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string facts_of(const DiffSide& side) {
  if (side.details.starts_with(side.kind)) return side.details;
  return side.kind + (side.details.empty() ? "" : " · " + side.details);
}

std::string name_of(const DiffSite& site) {
  if (!site.interval.empty()) return site.interval;
  const SiteRef& ref = site.subject.module.empty() ? site.reference : site.subject;
  if (!ref.module.empty()) return ref.module;
  return site.subject.label.empty() ? site.reference.label : site.subject.label;
}

std::string label_of(const DiffSite& site) { return either(site.reference.label, site.subject.label); }

std::string value_of(const DiffSite& site) { return either(typed(site.reference), typed(site.subject)); }

const SiteRef& located(const DiffSite& site) {
  for (const auto& ref : site.between) {
    if (!ref.file.empty()) return ref;
  }
  return site.subject.file.empty() ? site.reference : site.subject;
}

std::string place_of(const DiffSite& site) {
  const SiteRef& ref = located(site);
  return ref.file.empty() || ref.line <= 0 ? ref.file : ref.file + ":" + std::to_string(ref.line);
}

std::string worst_of(const DiffSite& site) {
  if (site.worst_reference.empty() && site.worst_subject.empty()) return {};
  return dims_text(site.worst_at) + "  " + site.worst_reference + " in reference, " + site.worst_subject +
         " in subject";
}

std::string argument_text(const ArgumentDifference& difference) {
  return difference.name + " = " + difference.reference + " in reference, " + difference.subject + " in subject";
}

std::vector<std::string> other_arguments(const DiffSite& site) {
  std::vector<std::string> texts;
  for (const auto& each : site.arguments) {
    std::string text = argument_text(each);
    if (site.cause.find(text) == std::string::npos) texts.push_back(std::move(text));
  }
  return texts;
}

std::string dims_text(std::span<const std::int64_t> values) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(values[i]);
  return text + "]";
}

std::string type_text(DType dtype, std::span<const std::int64_t> sizes) {
  return std::string(short_name(dtype)) + dims_text(sizes);
}

std::string error_line(const DiffSite& site) {
  if (site.metrics) {
    std::string text =
        "rel L2 " + short_number(site.metrics->rel_l2) + ", max |d| " + short_number(site.metrics->max_abs);
    if (std::isfinite(site.metrics->sqnr_db)) text += ", SQNR " + short_number(site.metrics->sqnr_db) + " dB";
    const std::int64_t holes = site.metrics->nonfinite_disagreements;
    if (holes > 0) text += ", NaN or infinities disagree in " + counted(holes, "element");
    return text;
  }
  if (site.statistics && site.statistics->any) {
    if (!site.statistics->same_counts) return "counts of elements, NaN or infinities differ";
    return "rel L2 at least " + short_number(site.statistics->rel_l2_at_least) + ", by statistics";
  }
  return site.site_class == SiteClass::kNotCompared ? "not compared" : "error " + short_number(site.error);
}

std::vector<std::string> detail_lines(const Precondition& condition, std::size_t most) {
  auto lines = condition.details;
  if (lines.size() > most) lines.resize(most);
  const auto more = static_cast<std::int64_t>(condition.details.size() - lines.size()) + condition.more_details;
  if (more > 0) lines.push_back("and " + std::to_string(more) + " more");
  return lines;
}

bool out_of_tolerance(const DiffSite& site) {
  return site.selected && site.site_class != SiteClass::kNotCompared && !site.within;
}

std::vector<std::size_t> failed_rows(const DiffReport& report) {
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < report.sites.size(); ++row) {
    if (out_of_tolerance(report.sites[row])) rows.push_back(row);
  }
  std::ranges::stable_partition(rows,
                                [&](std::size_t row) { return report.sites[row].site_class == SiteClass::kSource; });
  return rows;
}

std::vector<std::size_t> argument_rows(const DiffReport& report) {
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < report.sites.size(); ++row) {
    if (report.sites[row].selected && !report.sites[row].arguments.empty()) rows.push_back(row);
  }
  return rows;
}

}  // namespace tl::report
