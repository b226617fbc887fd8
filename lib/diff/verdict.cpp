#include "diff/verdict.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "diff/arguments.h"
#include "diff/changes.h"

namespace tl {
namespace {

std::size_t row_of(std::int64_t value) { return static_cast<std::size_t>(value); }

std::string counted(std::int64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string names_of(const std::vector<SiteRef>& refs) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(refs.size(), 4); ++i) text += (i ? ", " : "") + refs[i].label;
  if (refs.size() > 4) text += " and " + std::to_string(refs.size() - 4) + " more";
  return text;
}

std::string words_of(const DiffChange& change) {
  const auto kind = std::string(to_string(change.kind));
  switch (change.kind) {
    case ChangeKind::kInserted:
      return names_of(change.subject) + " stands before it in the subject only";
    case ChangeKind::kRemoved:
      return names_of(change.reference) + " stands before it in the reference only";
    case ChangeKind::kExchanged:
      return names_of(change.reference) + " have each other's weights in the subject";
    default:
      return kind + ": " + names_of(change.reference) + " in reference, " + names_of(change.subject) + " in subject";
  }
}

/// Arguments that differ at what a source read, or what that read, though the values there agree: an epsilon whose lack
/// only a logarithm shows.
std::string arguments_above(const DiffSite& source, const DiffReport& report) {
  constexpr std::size_t kMostSites = 32;
  std::vector<std::int64_t> above = source.inputs;
  for (std::size_t i = 0; i < above.size() && i < kMostSites; ++i) {
    const auto& site = report.sites[row_of(above[i])];
    for (const auto& difference : site.arguments) {
      if (difference.name == "dtype") continue;
      return "above it, " + (site.subject.label.empty() ? site.reference.label : site.subject.label) + " has " +
             difference.name + " = " + difference.reference + " in reference, " + difference.subject + " in subject";
    }
    for (const auto input : site.inputs) {
      if (std::ranges::find(above, input) == above.end()) above.push_back(input);
    }
  }
  return {};
}

/// Views before a source that only one side has. They hold the same elements, so no view is out of tolerance itself;
/// but what reads them meets other elements where one of them is a transposition (or a view over one) that the other
/// side lacks.
std::string moved_before(std::int64_t row, const DiffReport& report, const Side& reference, const Side& subject) {
  const auto moves = [](const Side& side, const SiteRef& ref) {
    return side.trace && moves_elements(layer_type(*side.trace, OpId{static_cast<std::uint32_t>(ref.row)}));
  };
  std::string text;
  for (const auto& change : report.changes) {
    if (change.site != row || change.kind == ChangeKind::kReordered) continue;
    const bool moved =
        std::ranges::any_of(change.reference, [&](const SiteRef& ref) { return moves(reference, ref); }) ||
        std::ranges::any_of(change.subject, [&](const SiteRef& ref) { return moves(subject, ref); });
    if (moved) text += (text.empty() ? "" : "; ") + words_of(change);
  }
  return text;
}

/// Of two entries of a dump that one operation stands for on the other side.
std::string lost_between(const DiffSite& inner, const DiffSite& outer, bool in_reference) {
  const auto name = [&](const DiffSite& site) { return in_reference ? site.reference.label : site.subject.label; };
  return std::string("the ") + (in_reference ? "reference" : "subject") + " computes something between " + name(inner) +
         " and " + name(outer) + " that the " + (in_reference ? "subject" : "reference") + " does not";
}

/// What is known to differ at a source. Arguments first, then what stands before it.
std::string cause_of(const DiffSite& site, std::int64_t row, const DiffReport& report, const Side& reference,
                     const Side& subject) {
  if (site.inner >= 0) return lost_between(report.sites[row_of(site.inner)], site, reference.dump != nullptr);
  if (site.subject.func_name == "input") return "the inputs differ";
  std::string text;
  for (const auto& change : report.changes) {
    const bool exchanged_here =
        change.kind == ChangeKind::kExchanged &&
        std::ranges::find(change.subject, site.subject.row, &SiteRef::row) != change.subject.end();
    if (!exchanged_here && (change.site != row || !is_material(change, reference, subject))) continue;
    text += (text.empty() ? "" : "; ") + words_of(change);
  }
  for (const auto& difference : site.arguments) {
    text += (text.empty() ? "" : "; ") + difference.name + " = " + difference.reference + " in reference, " +
            difference.subject + " in subject";
  }
  if (text.empty()) text = moved_before(row, report, reference, subject);
  if (text.empty()) text = arguments_above(site, report);
  if (text.empty() && subject.trace &&
      draws_random(*subject.trace, OpId{static_cast<std::uint32_t>(site.subject.row)})) {
    text = "it draws random numbers";
  }
  return text;
}

/// The outputs of one call are one operation.
bool is_same_call(const SiteRef& a, const SiteRef& b, const Side& graph) {
  if (!graph.trace || a.row < 0 || b.row < 0) return false;
  const auto& ops = graph.trace->ops;
  const auto first = [&](const SiteRef& ref) { return ref.row - ops.slot[row_of(ref.row)]; };
  return ops.num_slots[row_of(b.row)] > 1 && first(a) == first(b);
}

std::string short_cause(const DiffSite& site) {
  std::string text;
  for (const auto& difference : site.arguments) text += (text.empty() ? "" : ", ") + difference.name;
  return text;
}

/// Passes of one Layer are one place of the code: a fault in it is one, however often it runs.
bool is_same_layer(const SiteRef& a, const SiteRef& b, const Side& graph) {
  if (!graph.trace || a.row < 0 || b.row < 0) return false;
  const auto& layer = graph.trace->ops.layer;
  return layer[row_of(a.row)] >= 0 && layer[row_of(a.row)] == layer[row_of(b.row)];
}

void count_sites(DiffReport& report, const Side& reference, const Side& subject) {
  const auto& graph = subject.trace ? subject : reference;
  const auto in_graph = [&](const DiffSite& site) -> const SiteRef& {
    return subject.trace ? site.subject : site.reference;
  };
  for (std::size_t row = 0; row < report.sites.size(); ++row) {
    const auto& site = report.sites[row];
    const bool fails = is_judged(site) && !site.within;
    if (is_judged(site)) report.needed_tolerance = std::max(report.needed_tolerance, site.error);
    if (site.site_class == SiteClass::kSource && (fails || site.explains)) {
      const auto known = std::ranges::find_if(report.sources, [&](std::int64_t other) {
        const auto& source = report.sites[row_of(other)];
        return is_same_call(in_graph(source), in_graph(site), graph) ||
               (is_same_layer(in_graph(source), in_graph(site), graph) && short_cause(source) == short_cause(site));
      });
      if (known == report.sources.end()) {
        report.sources.push_back(static_cast<std::int64_t>(row));
      } else if (!is_same_call(in_graph(report.sites[row_of(*known)]), in_graph(site), graph)) {
        ++report.sites[row_of(*known)].more_passes;
      }
    }
    if (!fails) continue;
    ++report.num_out_of_tolerance;
    if (report.first_out_of_tolerance < 0) report.first_out_of_tolerance = static_cast<std::int64_t>(row);
    report.num_inherited += site.site_class == SiteClass::kInherited;
    report.num_undetermined += site.site_class == SiteClass::kUndetermined;
    report.num_drift += site.site_class == SiteClass::kDrift;
  }
}

std::int64_t count_arguments(const DiffReport& report) {
  return std::ranges::count_if(report.sites,
                               [](const DiffSite& site) { return site.selected && !site.arguments.empty(); });
}

bool differs(const DiffReport& report, std::string_view name) {
  const auto found = std::ranges::find(report.preconditions, name, &Precondition::name);
  return found != report.preconditions.end() && found->agreement == Agreement::kDifferent;
}

std::int64_t count_material(const DiffReport& report, const Side& reference, const Side& subject) {
  return std::ranges::count_if(report.changes,
                               [&](const DiffChange& change) { return is_material(change, reference, subject); });
}

bool output_differs(const DiffReport& report) {
  return std::ranges::any_of(report.sites, [](const DiffSite& site) {
    const bool is_output = site.subject.func_name == "output" || site.reference.func_name == "output";
    return is_output && is_judged(site) && !site.within;
  });
}

bool fails(const DiffReport& report, FailOn what, const Side& reference, const Side& subject) {
  switch (what) {
    case FailOn::kSites:
      return report.num_out_of_tolerance > 0;
    case FailOn::kOutputs:
      return output_differs(report);
    case FailOn::kArguments:
      return count_arguments(report) > 0;
    case FailOn::kWeights:
      return differs(report, "weights") || differs(report, "buffers");
    case FailOn::kInputs:
      return differs(report, "inputs");
    case FailOn::kStructure:
      return count_material(report, reference, subject) > 0;
  }
  return false;
}

std::string static_verdict(const DiffReport& report, const Side& reference, const Side& subject) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (const auto count = count_arguments(report)) add(counted(count, "site") + " with other arguments");
  if (differs(report, "weights")) add("weights differ");
  if (differs(report, "mode")) add("modes differ");
  if (const auto count = count_material(report, reference, subject)) add(counted(count, "change") + " of structure");
  return text;
}

std::string sources_text(const DiffReport& report) {
  std::string text = counted(static_cast<std::int64_t>(report.sources.size()), "source") + ": ";
  for (std::size_t i = 0; i < std::min<std::size_t>(report.sources.size(), 3); ++i) {
    const auto& site = report.sites[row_of(report.sources[i])];
    const auto cause = short_cause(site);
    text += (i ? ", " : "") + site_name(site) + (cause.empty() ? "" : " (" + cause + ")");
    if (site.more_passes > 0) text += " in " + std::to_string(site.more_passes + 1) + " passes";
    if (site.evidence == Evidence::kStatistics) text += " by statistics";
  }
  if (report.sources.size() > 3) text += " and " + std::to_string(report.sources.size() - 3) + " more";
  return text;
}

std::string verdict_text(const DiffReport& report, const Side& reference, const Side& subject) {
  const auto& coverage = report.coverage;
  if (report.is_static) {
    const auto differences = static_verdict(report, reference, subject);
    return report.different
               ? "DIFFERENT  " + differences
               : "SAME       " + std::to_string(coverage.matched) + " of " + std::to_string(coverage.total) + " " +
                     coverage.unit + " matched; values not looked at";
  }
  if (!report.sources.empty() && report.num_out_of_tolerance > 0) {
    return (report.different ? "DIFFERENT  " : "ACCEPTED   ") + sources_text(report);
  }
  if (report.num_out_of_tolerance > 0) {
    const auto what = report.num_undetermined > 0 ? "the source could not be determined" : "drift, without a source";
    return (report.different ? "DIFFERENT  " : "ACCEPTED   ") + counted(report.num_out_of_tolerance, "site") +
           " out of tolerance: " + what;
  }
  if (report.different) return "DIFFERENT  " + static_verdict(report, reference, subject);
  if (coverage.compared == 0) return "UNKNOWN    no value was compared";
  const auto compared = std::ranges::count_if(report.sites, is_compared);
  const auto judged = std::ranges::count_if(report.sites, is_judged);
  if (judged < compared) {
    return "SAME       " + counted(judged, "site") + " judged, all within tolerance; " +
           std::to_string(compared - judged) + " left out by --only or `ignore`";
  }
  const auto weak = coverage.by_evidence[static_cast<std::size_t>(Evidence::kStatistics)];
  return "SAME       " + std::to_string(coverage.compared) + " of " + std::to_string(coverage.total) + " " +
         coverage.unit + " compared, all within tolerance" +
         (weak == 0 ? "" : ", " + std::to_string(weak) + " by statistics only");
}

}  // namespace

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 32> buffer;
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::general, 3).ptr;
  return {buffer.data(), end};
}

std::string site_name(const DiffSite& site) {
  if (!site.interval.empty()) return site.interval;
  const auto& ref = site.subject.module.empty() ? site.reference : site.subject;
  return ref.module.empty() ? ref.label : ref.module;
}

void reach_verdict(const Side& reference, const Side& subject, const DiffOptions& options, DiffReport& report) {
  count_sites(report, reference, subject);
  for (const auto row : report.sources) {
    report.sites[row_of(row)].cause = cause_of(report.sites[row_of(row)], row, report, reference, subject);
  }
  report.floor_rule = "c * u * sqrt(depth), u the unit roundoff, c 16 for f32 and f64, 1 for narrower types";
  report.tolerance_rule = "rel L2 <= 10 floors; integers and bools equal";
  if (options.tolerances && !options.tolerances->empty()) report.tolerance_rule = options.tolerances->description();
  auto fail_on = options.fail_on;
  if (report.is_static) fail_on = {FailOn::kArguments, FailOn::kWeights, FailOn::kStructure};
  report.different = std::ranges::any_of(fail_on, [&](FailOn what) { return fails(report, what, reference, subject); });
  if (report.is_static) report.different = report.different || differs(report, "mode");
  report.verdict = verdict_text(report, reference, subject);
}

}  // namespace tl
