#include "diff_screen.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "core/text.h"
#include "diff/cause.h"
#include "diff/report_parts.h"
#include "diff/tolerance.h"
#include "table.h"
#include "text_format.h"

namespace tl::cli {
namespace {

std::size_t row_of(std::int64_t value) { return static_cast<std::size_t>(value); }

std::string error_text(double error) { return format_number(error, 2); }

/// Two digits, never less than the value: a bound that it keeps.
std::string bound_text(double value) {
  if (value <= 0) return "0";
  const auto unit = std::pow(10, std::floor(std::log10(value)) - 1);
  return error_text(std::ceil(value / unit) * unit);
}

/// The last two parts of a path: enough to find a file, short enough for a line.
std::string place_of(const SiteRef& ref) {
  if (ref.file.empty()) return {};
  auto begin = ref.file.rfind('/');
  if (begin != std::string::npos && begin > 0) begin = ref.file.rfind('/', begin - 1);
  const auto tail = begin == std::string::npos ? ref.file : ref.file.substr(begin + 1);
  return tail + (ref.line > 0 ? ":" + std::to_string(ref.line) : "");
}

std::string name_of(const DiffSite& site) {
  if (!site.interval.empty()) return site.interval;
  const auto& ref = site.subject.module.empty() ? site.reference : site.subject;
  return ref.module.empty() ? ref.label : ref.module;
}

std::string percent(double share) {
  const auto rounded = std::floor(share * 100);
  return format_number(rounded, 3) + " %";
}

std::int64_t count_refs(const DiffReport& report, ChangeKind kind) {
  std::int64_t count = 0;
  for (const auto& change : report.changes) {
    if (change.kind == kind)
      count += static_cast<std::int64_t>(std::max(change.reference.size(), change.subject.size()));
  }
  return count;
}

void print_sides(Output& out, const DiffReport& report) {
  const auto width = std::max(display_width(report.reference.name), display_width(report.subject.name));
  out.line("reference  " + pad_right(report.reference.name, width) + "   " + report.reference.details);
  out.line("subject    " + pad_right(report.subject.name, width) + "   " + report.subject.details);
  const auto& coverage = report.coverage;
  const auto count = report.is_static ? coverage.matched : coverage.compared;
  std::string line = (report.is_static ? "matched    " : "compared   ") + std::to_string(count) + " of " +
                     std::to_string(coverage.total) + " " + coverage.unit + (report.is_static ? "" : " by value");
  if (!report.is_static) line += " (" + percent(coverage.share()) + ")";
  std::string rest;
  const auto add = [&](ChangeKind kind, std::string_view words) {
    if (const auto refs = count_refs(report, kind)) {
      rest += (rest.empty() ? "; " : ", ") + std::to_string(refs) + " " + std::string(words);
    }
  };
  add(ChangeKind::kFused, "fused");
  add(ChangeKind::kSplit, "split");
  add(ChangeKind::kRewritten, "rewritten");
  add(ChangeKind::kQuantise, "quantise or dequantise");
  add(ChangeKind::kReordered, "reordered");
  add(ChangeKind::kRemoved, "only in reference");
  add(ChangeKind::kInserted, "only in subject");
  add(ChangeKind::kExchanged, "exchanged");
  if (coverage.inside_fused > 0) {
    rest += (rest.empty() ? "; " : ", ") + std::to_string(coverage.inside_fused) + " inside fused ones not counted";
  }
  if (coverage.total > 0 || !report.is_static) out.line(line + rest);
  if (!report.is_static && coverage.by_evidence[static_cast<std::size_t>(Evidence::kFull)] < coverage.compared) {
    std::string tiers;
    for (const auto tier : {Evidence::kFull, Evidence::kSampled, Evidence::kStatistics}) {
      const auto sites = coverage.by_evidence[static_cast<std::size_t>(tier)];
      if (sites > 0) tiers += (tiers.empty() ? "" : " · ") + std::string(to_string(tier)) + " " + std::to_string(sites);
    }
    out.line("evidence   " + tiers);
  }
}

std::string bases_text(const DiffCoverage& coverage) {
  std::vector<std::string> names;
  for (std::size_t basis = 0; basis < kNumMatchBases; ++basis) {
    if (coverage.by_basis[basis] > 0) names.emplace_back(to_string(static_cast<MatchBasis>(basis)));
  }
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  }
  return text.empty() ? "" : "matched by " + text;
}

/// Of one precondition, unless -v asks for all.
constexpr std::size_t kMostDetails = 8;

std::string condition_text(const Precondition& condition) {
  if (condition.total > 0) {
    return condition.name + " " + std::to_string(condition.same) + "/" + std::to_string(condition.total);
  }
  if (condition.agreement == Agreement::kDifferent) {
    return condition.name + " " + condition.reference + " in reference, " + condition.subject + " in subject";
  }
  return condition.name == "mode" ? condition.reference : condition.name + " " + condition.reference;
}

void print_preconditions(Output& out, const DiffReport& report, bool every_detail) {
  const auto line_of = [&](Agreement agreement) {
    std::string text;
    for (const auto& condition : report.preconditions) {
      if (condition.agreement != agreement) continue;
      text +=
          (text.empty() ? "" : " · ") + (agreement == Agreement::kUnknown ? condition.name : condition_text(condition));
    }
    return text;
  };
  auto same = line_of(Agreement::kSame);
  const auto bases = bases_text(report.coverage);
  if (!bases.empty()) same += (same.empty() ? "" : " · ") + bases;
  if (!same.empty()) out.line("same       " + same);
  if (const auto differs = line_of(Agreement::kDifferent); !differs.empty()) out.line("differs    " + differs);
  for (const auto& condition : report.preconditions) {
    const auto most = every_detail ? condition.details.size() : kMostDetails;
    for (const auto& detail : report::detail_lines(condition, most)) out.line("           " + detail);
  }
  std::string unknown;
  for (const auto& condition : report.preconditions) {
    const bool told = condition.name == "weights" || condition.name == "inputs";
    if (condition.agreement == Agreement::kUnknown && told) unknown += (unknown.empty() ? "" : " · ") + condition.name;
  }
  if (!unknown.empty()) out.line("not known  " + unknown);
  for (const auto& note : report.notes) out.line("note       " + note);
}

/// The label without its pass.
std::string layer_of(const DiffSite& site) { return site.subject.label.substr(0, site.subject.label.find(':')); }

std::string argument_line(const ArgumentDifference& difference) {
  return difference.name + " = " + difference.reference + " in reference, " + difference.subject + " in subject";
}

void print_arguments(Output& out, const DiffSite& site, std::string_view indent) {
  for (std::size_t i = 0; i < site.arguments.size(); ++i) {
    out.line(std::string(indent) + (i == 0 ? "arguments   " : "            ") + argument_line(site.arguments[i]) +
             "     <-- differs");
  }
}

std::string judgement_text(const DiffSite& site) {
  const bool masked = site.metrics && site.scale < std::max(site.metrics->reference_l2, site.metrics->subject_l2);
  const auto error = "error " + error_text(site.error) + (masked ? " beside the constant of a mask" : "");
  if (site.explains) return error + (site.selected ? ", which was let pass" : ", left out by --only");
  if (!site.failed_rule.empty()) return error + ", failed " + site.failed_rule;
  return error + " against a tolerance of " + error_text(site.tolerance);
}

void print_values(Output& out, const DiffSite& site) {
  std::string text = "  output      " + format_type(site.subject.dtype, site.subject.sizes);
  if (site.metrics) {
    const auto& metrics = *site.metrics;
    const auto of_all = " of " + counted(metrics.numel, "element");
    if (metrics.nonfinite_disagreements > 0) {
      text += "   NaN or Inf disagree at " + std::to_string(metrics.nonfinite_disagreements) + of_all;
    } else if (unit_roundoff(site.reference.dtype) == 0 && unit_roundoff(site.subject.dtype) == 0) {
      text += "   unequal at " + std::to_string(metrics.differing) + of_all;
    } else {
      text += "   rel L2 " + error_text(metrics.rel_l2);
      if (std::isfinite(metrics.sqnr_db)) text += "   SQNR " + format_number(metrics.sqnr_db, 3) + " dB";
    }
  } else if (site.statistics) {
    text += "   statistics differ by " + error_text(site.error);
  }
  const bool other_type = site.reference.dtype != site.subject.dtype || site.reference.sizes != site.subject.sizes;
  if (other_type) text += "   in reference " + format_type(site.reference.dtype, site.reference.sizes);
  out.line(text);
  out.line("  judged      " + judgement_text(site) + ", rounding explains " + error_text(site.noise_floor));
  if (!site.worst_reference.empty()) {
    const bool other_shape = site.reference.sizes != site.subject.sizes;
    out.line("  worst       [" + format_sizes(site.worst_at) + "]" + (other_shape ? " of the reference" : "") + "   " +
             site.worst_reference + " in reference, " + site.worst_subject + " in subject");
  }
}

/// What stands in the title of a source: of an interval the first operation in between whose line is known.
const SiteRef& where_of(const DiffSite& site) {
  for (const auto& ref : site.between) {
    if (!ref.file.empty()) return ref;
  }
  return site.subject.file.empty() ? site.reference : site.subject;
}

void print_source(Output& out, const DiffReport& report, const DiffSite& site, const std::string& title) {
  const auto place = place_of(where_of(site));
  out.line(title + "  " + name_of(site) + "   " + site.subject.label + (place.empty() ? "" : "   " + place));
  print_arguments(out, site, "  ");
  bool argument_cause = false;
  for (const auto& difference : site.arguments)
    argument_cause = argument_cause || site.cause.starts_with(difference.name + " =");
  if (!site.cause.empty() && !argument_cause) out.line("  cause       " + site.cause);
  if (report.is_static) return;
  print_values(out, site);
  if (site.inputs.empty()) {
    out.line("  its inputs  none that were compared");
  } else if (site.input_error <= site.input_floor) {
    out.line("  its inputs  agree (error " + error_text(site.input_error) + ", rounding explains " +
             error_text(site.input_floor) + ")");
  } else {
    out.line("  its inputs  differ (error " + error_text(site.input_error) + "), amplified " +
             format_number(site.amplification, 3) + " times");
  }
  if (site.unmatched_inputs > 0) {
    out.line("              through " + counted(site.unmatched_inputs, "op") + " without a counterpart");
  }
}

/// Where nothing is a source: the first site out of tolerance.
void print_first(Output& out, const DiffReport& report) {
  if (!report.sources.empty()) {
    out.line();
    return print_source(out, report, report.sites[row_of(report.sources[0])], "FIRST SOURCE");
  }
  if (report.first_out_of_tolerance >= 0) {
    out.line();
    const auto& site = report.sites[row_of(report.first_out_of_tolerance)];
    print_source(out, report, site, "FIRST DIFFERENCE (" + std::string(to_string(site.site_class)) + ")");
  }
}

/// How often an argument differs where the values pass.
struct ArgumentCount {
  std::string name;
  std::string first;  ///< the first site
  std::int64_t sites = 0;
};

void add_without_effect(std::vector<ArgumentCount>& counts, const DiffSite& site) {
  for (const auto& difference : site.arguments) {
    auto known = std::ranges::find(counts, difference.name, &ArgumentCount::name);
    if (known == counts.end()) known = counts.insert(known, {difference.name, name_of(site), 0});
    ++known->sites;
  }
}

/// Arguments that differ where it matters: all of them where values were not looked at, else those of sites out of
/// tolerance that are no source. How many others there are is said in a line.
void print_arguments_elsewhere(Output& out, const DiffReport& report, bool every) {
  constexpr std::size_t kMost = 12;
  constexpr std::size_t kMostNames = 4;
  std::size_t listed = 0;
  std::int64_t more = 0;
  std::vector<ArgumentCount> without_effect;
  std::set<std::string> seen;
  for (const auto& site : report.sites) {
    const bool told = site.site_class == SiteClass::kSource && !report.is_static;
    if (site.arguments.empty() || told || !site.selected) continue;
    if (site.site_class == SiteClass::kAgrees && !every) {
      add_without_effect(without_effect, site);
    } else if (!seen.insert(layer_of(site) + argument_line(site.arguments[0])).second) {
      continue;  // another pass of the same Layer
    } else if (listed == kMost) {
      ++more;
    } else {
      if (listed++ == 0) out.line();
      const auto place = place_of(site.subject);
      out.line("ARGUMENTS  " + name_of(site) + "   " + site.subject.label + (place.empty() ? "" : "   " + place));
      print_arguments(out, site, "  ");
    }
  }
  if (more > 0) out.line("           and " + counted(more, "site") + " more");
  if (without_effect.empty()) return;
  std::ranges::stable_sort(without_effect, {}, [](const ArgumentCount& count) { return count.name == "dtype"; });
  std::string text;
  for (std::size_t i = 0; i < std::min(kMostNames, without_effect.size()); ++i) {
    const auto& count = without_effect[i];
    text += (i ? ", " : "") + count.name + " at " + (count.sites == 1 ? count.first : counted(count.sites, "site"));
  }
  if (without_effect.size() > kMostNames) text += " and others";
  out.line();
  out.line("arguments  differ where the values pass: " + text);
}

std::string refs_text(const std::vector<SiteRef>& refs) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(refs.size(), 4); ++i) text += (i ? ", " : "") + refs[i].label;
  return refs.size() > 4 ? text + " …" : text;
}

void print_changes(Output& out, const DiffReport& report) {
  constexpr std::size_t kMost = 8;
  if (report.changes.empty()) return;
  out.line();
  for (std::size_t i = 0; i < std::min(kMost, report.changes.size()); ++i) {
    const auto& change = report.changes[i];
    const auto module = change.subject.empty() ? change.reference.at(0).module : change.subject[0].module;
    std::string text = pad_right(to_string(change.kind), 10) + " ";
    if (!change.reference.empty()) text += refs_text(change.reference);
    if (!change.reference.empty() && !change.subject.empty()) text += "  ->  ";
    if (!change.subject.empty()) text += refs_text(change.subject);
    const bool plain = module.empty() || text.ends_with(" " + module);
    out.line(text + (plain ? "" : "   in " + module));
  }
  if (report.changes.size() > kMost) {
    out.line("           and " + counted(static_cast<std::int64_t>(report.changes.size() - kMost), "change") + " more");
  }
}

void print_counts(Output& out, const DiffReport& report) {
  if (report.num_out_of_tolerance == 0) return;
  std::string others = "none";
  if (report.sources.size() > 1) {
    others.clear();
    for (std::size_t i = 1; i < std::min<std::size_t>(report.sources.size(), 4); ++i) {
      others += (i > 1 ? ", " : "") + name_of(report.sites[row_of(report.sources[i])]);
    }
    if (report.sources.size() > 4) others += " and " + std::to_string(report.sources.size() - 4) + " more";
  }
  out.line();
  std::string line = "other sources   " + (report.sources.empty() ? "no source was found" : others);
  line += "     inherited   " + counted(report.num_inherited, "op");
  if (report.num_drift > 0) line += "     drift   " + counted(report.num_drift, "op");
  if (report.num_undetermined > 0) line += "     undetermined   " + counted(report.num_undetermined, "op");
  out.line(line);
  const auto needed = needed_tolerances(report);
  if (std::isinf(needed.error)) {
    out.line("would pass      under no tolerance: NaN, infinities or shapes disagree");
  } else {
    out.line("would pass      by --gate 'error <= " + bound_text(needed.error) + "', or by --atol " +
             bound_text(needed.atol));
  }
}

void print_growth(Output& out, const DiffReport& report) {
  for (const auto& series : report.growth) {
    double least = 0;
    double most = 0;
    for (const auto error : series.errors) {
      if (error > 0) least = least == 0 ? error : std::min(least, error);
      most = std::max(most, error);
    }
    if (most == 0) continue;
    const auto last = series.first + static_cast<std::int64_t>(series.errors.size()) - 1;
    const auto title = series.name + " " + std::to_string(series.first) + ".." + std::to_string(last);
    out.line(pad_right(title, 15) + " " + sparkline(series.errors) +
             (series.jump >= 0 ? "   jump at " + std::to_string(series.jump) : "   no jump"));
    out.line(std::string(16, ' ') + error_text(least) + " .. " + error_text(most) + " rel L2");
  }
}

void print_table(Output& out, const DiffReport& report, const DiffScreenOptions& options) {
  if (options.max_diffs <= 0) return;
  const auto rows = listed_sites(report, options.sort, static_cast<std::size_t>(options.max_diffs));
  if (rows.empty()) return;
  out.line();
  std::vector<Table::ColumnSpec> columns = {
      {"site", 32, false}, {"op", 28, false}, {"error", 0, true}, {"tolerance", 0, true}, {"is", 0, false}};
  const bool several = report.samples.size() > 1;
  if (several) columns.insert(columns.begin() + 2, {{"mean", 0, true}, {"worst", 0, true}, {"worst in", 24, false}});
  Table table(columns);
  for (const auto row : rows) {
    const auto& site = report.sites[row];
    std::vector<std::string> cells = {name_of(site), site.subject.label};
    if (several) {
      cells.push_back(error_text(site.mean_error));
      cells.push_back(error_text(site.worst_error));
      cells.push_back(report.samples[row_of(site.worst_sample)]);
    }
    cells.push_back(error_text(site.error));
    cells.push_back(error_text(site.tolerance));
    cells.emplace_back(to_string(site.site_class));
    table.add(std::move(cells));
  }
  table.print(out, "");
}

}  // namespace

std::string sparkline(const std::vector<double>& errors) {
  static constexpr std::array<std::string_view, 8> kBars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  double least = 0;
  double most = 0;
  for (const auto error : errors) {
    if (!(error > 0) || std::isinf(error)) continue;
    least = least == 0 ? error : std::min(least, error);
    most = std::max(most, error);
  }
  const auto low = least > 0 ? std::log10(std::min(least, most / 10)) : 0;
  const auto high = most > 0 ? std::log10(most) : 1;
  std::string text;
  for (const auto error : errors) {
    if (error < 0) {
      text += " ";
    } else if (error == 0) {
      text += kBars[0];
    } else {
      const auto share = std::isinf(error) ? 1 : (std::log10(error) - low) / std::max(high - low, 1e-9);
      text += kBars[static_cast<std::size_t>(std::clamp(share * 7, 0.0, 7.0))];
    }
  }
  return text;
}

std::vector<std::size_t> listed_sites(const DiffReport& report, const std::string& sort, std::size_t most) {
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < report.sites.size(); ++row) {
    const auto& site = report.sites[row];
    if (site.selected && !site.within && site.site_class != SiteClass::kNotCompared) rows.push_back(row);
  }
  const auto key = [&](std::size_t row) {
    const auto& site = report.sites[row];
    if (sort == "local")
      return std::isinf(site.error) && std::isinf(site.input_error) ? 0 : site.error - site.input_error;
    if (sort == "total") return site.error;
    if (sort == "worst") return site.worst_error;
    return 0.0;
  };
  std::ranges::stable_sort(rows, std::ranges::greater(), key);
  if (rows.size() > most) rows.resize(most);
  return rows;
}

void print_diff(Output& out, const DiffReport& report, const DiffScreenOptions& options) {
  if (!options.verdict_only) {
    print_sides(out, report);
    print_preconditions(out, report, options.every_argument);
    print_first(out, report);
    print_arguments_elsewhere(out, report, options.every_argument);
    print_changes(out, report);
    print_counts(out, report);
    print_growth(out, report);
    print_table(out, report, options);
    out.line();
  }
  const auto code = report.different ? 1 : 0;
  out.line(Style::kBold, report.verdict, "   exit " + std::to_string(code));
  if (!report.again.empty()) out.line("again      " + report.again);
}

}  // namespace tl::cli
