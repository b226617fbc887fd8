#include "diff/diff.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "core/error.h"
#include "diff/arguments.h"
#include "diff/changes.h"
#include "diff/coverage.h"
#include "diff/growth.h"
#include "diff/interval.h"
#include "diff/module_constants.h"
#include "diff/module_state.h"
#include "diff/preconditions.h"
#include "diff/report_parts.h"
#include "diff/verdict.h"

namespace tl {
namespace {

std::size_t row_of(std::int64_t value) { return static_cast<std::size_t>(value); }

/// A buffer as it was before the model wrote to it: state of the operation that reads it, not a step of the run.
bool is_state(const Side& side, std::size_t row) {
  return side.trace && side.kind[row] == OpKind::kBuffer && !(side.trace->ops.flags[row] & kOpBufferWrite);
}

std::string entries_text(std::int64_t count) { return std::to_string(count) + (count == 1 ? " entry" : " entries"); }

class Comparer {
 public:
  Comparer(const Side& reference, const Side& subject, const DiffOptions& options)
      : reference_(reference),
        subject_(subject),
        options_(options),
        graph_is_subject_(subject.trace != nullptr || reference.trace == nullptr) {}

  Compared run() {
    check_not_empty();
    alignment_ = align(reference_, subject_, {options_.rename, options_.values});
    check_shared();
    report_.reference = describe(reference_, options_.reference_name);
    report_.subject = describe(subject_, options_.subject_name);
    report_.is_static = !options_.values;
    report_.again = options_.again;
    build_sites();
    if (options_.values) {
      compare_all();
      judge();
    }
    const auto rename = effective_rename();
    report_.weights = explain_weights(reference_, subject_, alignment_, rename, options_.weights);
    const bool has_dump = reference_.dump || subject_.dump;
    const auto state = has_dump ? compare_module_state(reference_, subject_, rename) : ModuleState{};
    name_module_state(state, reference_, subject_, report_.sites);
    explain_arguments();
    leave_intervals_with_a_cause();
    report_.preconditions =
        check_preconditions(reference_, subject_, alignment_, rename, report_.weights, options_.values);
    if (has_dump) take_buffers(state.buffers);
    report_.changes = find_changes(reference_, subject_, alignment_, subject_sites());
    leave_operators_to_changes();
    report_.coverage = coverage_of(reference_, subject_, alignment_, report_.sites, report_.changes);
    if (options_.values) check_coverage();
    report_.growth = growth_of(graph(), site_of_, report_.sites);
    add_notes();
    reach_verdict(reference_, subject_, options_, report_);
    add_interval_causes();
    return {std::move(report_), std::move(alignment_)};
  }

 private:
  const Side& graph() const { return graph_is_subject_ ? subject_ : reference_; }

  void check_not_empty() const {
    for (const auto* side : {&reference_, &subject_}) {
      if (std::ranges::count(side->kind, OpKind::kOperation) > 0) continue;
      const auto& name = side == &reference_ ? options_.reference_name : options_.subject_name;
      if (side->dump) {
        throw Error(ErrorCode::kEmptyRecording, name + ": holds no tensor, so there is nothing to compare",
                    "record it again, or name the file with the tensors");
      }
      throw Error(ErrorCode::kEmptyRecording,
                  name + ": the recording holds no operation, so there is nothing to compare",
                  "record the model again and look at it with torchlens show");
    }
  }

  /// Every model returns something: that of a dump with other entries tells no model from another.
  static bool says_nothing(const Side& side, std::size_t row) {
    if (!side.dump) return false;
    const auto is_root = [](const DumpEntry& entry) { return entry.name.empty() || entry.name == "self"; };
    return is_root(side.dump->entries[row - side.dump->inputs.size()]) &&
           !std::ranges::all_of(side.dump->entries, is_root);
  }

  void check_shared() const {
    for (std::size_t r = 0; r < reference_.size(); ++r) {
      const auto s = alignment_.subject_of[r];
      if (reference_.kind[r] != OpKind::kOperation || s < 0) continue;
      if (!says_nothing(reference_, r) && !says_nothing(subject_, row_of(s))) return;
    }
    const auto count = [](const Side& side) {
      return std::to_string(std::ranges::count(side.kind, OpKind::kOperation));
    };
    throw Error(ErrorCode::kNoSharedSites,
                options_.reference_name + " and " + options_.subject_name + " share no site: none of " +
                    count(reference_) + " sites of the reference is one of " + count(subject_) + " of the subject",
                "are they the same model? where modules have other names, --map FILE tells which are which",
                "tried: module paths, equal weights, order by type and shape, equal values");
  }

  void check_coverage() const {
    const auto& coverage = report_.coverage;
    if (coverage.compared == 0) {
      const auto& empty = report_.reference.num_payloads == 0 ? report_.reference : report_.subject;
      throw Error(ErrorCode::kActivationNotSaved,
                  "no value was compared: of " + std::to_string(coverage.matched) +
                      " matched sites none has a value on "
                      "both sides" +
                      (empty.num_payloads == 0 ? "; " + empty.name + " holds no values" : ""),
                  "record with --save all, or compare arguments, weights and structure with --static");
    }
    if (coverage.share() >= options_.min_coverage) return;
    throw Error(ErrorCode::kCoverageTooLow,
                std::to_string(coverage.compared) + " of " + std::to_string(coverage.total) + " " + coverage.unit +
                    " were compared, a share of " + number_text(coverage.share()) + ", less than the " +
                    number_text(options_.min_coverage) + " of --min-coverage",
                "record with --save all, give --map FILE, or lower --min-coverage");
  }

  Renamer effective_rename() const {
    if (alignment_.renamed.empty()) return options_.rename;
    return renamer_of(alignment_.renamed, options_.rename);
  }

  void build_sites() {
    const auto& rows = graph();
    site_of_.assign(rows.size(), -1);
    const auto& partner = graph_is_subject_ ? alignment_.reference_of : alignment_.subject_of;
    auto further = alignment_.further.begin();
    for (std::size_t row = 0; row < rows.size(); ++row) {
      while (further != alignment_.further.end() && further->op < row) ++further;
      if (partner[row] < 0 || is_state(rows, row)) continue;
      const auto r = graph_is_subject_ ? row_of(partner[row]) : row;
      const auto s = graph_is_subject_ ? row : row_of(partner[row]);
      DiffSite site;
      site.reference = site_ref(reference_, r);
      site.subject = site_ref(subject_, s);
      site.basis = alignment_.basis[r];
      site.selected = options_.only.empty() || (row < options_.only.size() && options_.only[row]);
      if (reference_.trace && subject_.trace) {
        site.arguments = argument_differences(*reference_.trace, OpId{static_cast<std::uint32_t>(r)}, *subject_.trace,
                                              OpId{static_cast<std::uint32_t>(s)});
      } else {
        site.arguments = form_differences(site);
        add_constants(r, s, site);
      }
      site_of_[row] = static_cast<std::int64_t>(report_.sites.size());
      report_.sites.push_back(std::move(site));
      while (further != alignment_.further.end() && further->op == row) add_further(*further++);
    }
    say_precision_once();
  }

  /// An entry around that of the last site, with the same operation.
  void add_further(const FurtherEntry& further) {
    DiffSite site;
    site.reference = site_ref(reference_, reference_.dump ? further.entry : further.op);
    site.subject = site_ref(subject_, subject_.dump ? further.entry : further.op);
    site.basis = alignment_.basis[row_of(site.reference.row)];
    site.selected = report_.sites.back().selected;
    site.inner = static_cast<std::int64_t>(report_.sites.size()) - 1;
    const auto& trace = *graph().trace;
    auto& in_graph = graph_is_subject_ ? site.subject : site.reference;
    in_graph.func_name.clear();  // it stands for the call, and where that is the recording of modules says
    in_graph.file.clear();
    in_graph.line = 0;
    if (further.call > 0) {
      const auto module = row_of(trace.module_calls.module[row_of(further.call)]);
      in_graph.module = trace.strings[trace.modules.address[module]];
      in_graph.module_class = trace.strings[trace.modules.class_name[module]];
      site.read_from = trace.module_calls.end_op[row_of(further.call)];
    } else {
      in_graph.module.clear();
      in_graph.module_class.clear();
      site.read_from = std::ranges::find(graph().kind, OpKind::kOutput) - graph().kind.begin();
    }
    site.arguments = form_differences(site);
    report_.sites.push_back(std::move(site));
  }

  /// What the modules of a dump were built with, against what the other side says of the same.
  void add_constants(std::size_t r, std::size_t s, DiffSite& site) {
    const auto* ours = dump_module(reference_, r);
    const auto* theirs = dump_module(subject_, s);
    std::vector<ArgumentDifference> found;
    if (ours && theirs) {
      found = constant_differences(*ours, *theirs, reference_.dump->mode != "eval" || subject_.dump->mode != "eval");
    } else if (graph().trace && (ours || theirs)) {
      if (!constants_) constants_.emplace(*graph().trace);
      found = constants_->differences(ours ? *ours : *theirs, OpId{static_cast<std::uint32_t>(ours ? s : r)});
      if (theirs) {
        for (auto& difference : found) std::swap(difference.reference, difference.subject);
      }
    }
    site.arguments.insert(site.arguments.end(), found.begin(), found.end());
  }

  /// Says of parameters that differ as arguments how they do. An argument is told by the address that its text begins
  /// with.
  void explain_arguments() {
    std::unordered_map<std::string_view, const WeightDifference*> by_address;
    for (const auto& difference : report_.weights) by_address.emplace(difference.reference, &difference);
    if (by_address.empty()) return;
    for (auto& site : report_.sites) {
      for (auto& argument : site.arguments) {
        const auto found =
            by_address.find(std::string_view(argument.reference).substr(0, argument.reference.find(' ')));
        if (found == by_address.end() || found->second->relation == WeightRelation::kOther) continue;
        argument.subject += " (" + found->second->text + ")";
      }
    }
  }

  /// Of a pair with an entry of a dump: element type and sizes, where both state them.
  static std::vector<ArgumentDifference> form_differences(const DiffSite& site) {
    std::vector<ArgumentDifference> differences;
    const auto& [ours, theirs] = std::pair(site.reference, site.subject);
    if (ours.dtype != theirs.dtype && ours.dtype != DType::kNone && theirs.dtype != DType::kNone) {
      differences.push_back({"dtype", std::string(short_name(ours.dtype)), std::string(short_name(theirs.dtype))});
    }
    if (ours.sizes != theirs.sizes && !ours.sizes.empty() && !theirs.sizes.empty()) {
      differences.push_back({"shape", report::dims_text(ours.sizes), report::dims_text(theirs.sizes)});
    }
    return differences;
  }

  static bool is_mixed(const DiffSite& site) {
    return is_floating(site.reference.dtype) && is_floating(site.subject.dtype) &&
           site.reference.dtype != site.subject.dtype;
  }

  /// Where most values of a dump are of another floating type than those of the other side, that is a fact of the runs
  /// and no difference of single sites.
  void say_precision_once() {
    if (reference_.trace && subject_.trace) return;
    const auto mixed = std::ranges::count_if(report_.sites, is_mixed);
    other_precision_ = mixed * 2 > static_cast<std::ptrdiff_t>(report_.sites.size());
    if (!other_precision_) return;
    const auto first = *std::ranges::find_if(report_.sites, is_mixed);
    report_.notes.push_back("values are " + std::string(short_name(first.reference.dtype)) + " in reference, " +
                            std::string(short_name(first.subject.dtype)) +
                            " in subject: what rounding explains goes by the coarser");
    for (auto& site : report_.sites) {
      std::erase_if(site.arguments, [](const ArgumentDifference& argument) { return argument.name == "dtype"; });
    }
  }

  /// Two operators that are each part of a larger rewriting are told as that change, not as an operator exchanged.
  void leave_operators_to_changes() {
    const auto holds = [](const std::vector<SiteRef>& refs, const SiteRef& ref) {
      return std::ranges::find(refs, ref.row, &SiteRef::row) != refs.end();
    };
    for (const auto& change : report_.changes) {
      if (change.site < 0 || change.reference.size() + change.subject.size() < 3) continue;
      auto& site = report_.sites[row_of(change.site)];
      if (!holds(change.reference, site.reference) || !holds(change.subject, site.subject)) continue;
      std::erase_if(site.arguments, [](const ArgumentDifference& difference) { return difference.name == "operator"; });
    }
  }

  /// site_of by row of the subject.
  std::vector<std::int64_t> subject_sites() const {
    if (graph_is_subject_) return site_of_;
    std::vector<std::int64_t> sites(subject_.size(), -1);
    for (const auto& site : report_.sites) sites[row_of(site.subject.row)] = &site - report_.sites.data();
    return sites;
  }

  void compare_all() {
    std::unordered_map<std::uint64_t, std::size_t> seen;  // a pair of payloads: the first site that has it
    for (std::size_t i = 0; i < report_.sites.size(); ++i) {
      auto& site = report_.sites[i];
      const auto r = payload_of(reference_, row_of(site.reference.row));
      const auto s = payload_of(subject_, row_of(site.subject.row));
      if (r >= 0 && s >= 0) {
        const auto [first, fresh] =
            seen.emplace(static_cast<std::uint64_t>(r) << 32 | static_cast<std::uint64_t>(s), i);
        if (!fresh && report_.sites[first->second].reference.sizes == site.reference.sizes) {
          copy_values(report_.sites[first->second], site);
          continue;
        }
      }
      compare_values(reference_, row_of(site.reference.row), subject_, row_of(site.subject.row), value_options(site),
                     site);
    }
    add_buffer_differences();
  }

  ValueOptions value_options(const DiffSite& site) const {
    auto value = options_.value;
    if (!options_.tolerances) return value;
    if (const auto tolerance = options_.tolerances->element_tolerance(site)) {
      value.rtol = tolerance->rtol;
      value.atol = tolerance->atol;
    }
    return value;
  }

  static void copy_values(const DiffSite& from, DiffSite& to) {
    to.evidence = from.evidence;
    to.metrics = from.metrics;
    to.statistics = from.statistics;
    to.worst_reference = from.worst_reference;
    to.worst_subject = from.worst_subject;
    to.worst_at = from.worst_at;
    to.error = from.error;
    to.scale = from.scale;
  }

  /// Buffers that differ before anything ran are named as arguments of what reads them.
  void add_buffer_differences() {
    if (!reference_.trace || !subject_.trace) return;
    std::vector<double> errors(reference_.size(), 0);
    bool any = false;
    for (std::size_t r = 0; r < reference_.size(); ++r) {
      if (!is_state(reference_, r) || alignment_.subject_of[r] < 0) continue;
      DiffSite site;
      site.reference = site_ref(reference_, r);
      site.subject = site_ref(subject_, row_of(alignment_.subject_of[r]));
      compare_values(reference_, r, subject_, row_of(alignment_.subject_of[r]), options_.value, site);
      errors[r] = site.error;
      any = any || site.error > 0;
    }
    if (!any) return;
    for (auto& site : report_.sites) {
      const OpId op{static_cast<std::uint32_t>(site.reference.row)};
      const auto [begin, end] = edge_range(*reference_.trace, op);
      for (auto edge = begin; edge < end; ++edge) {
        const auto parent = row_of(reference_.trace->edges.parent[edge]);
        if (errors[parent] > 0) add_buffer_difference(op, edge, parent, errors[parent], site);
      }
    }
  }

  void add_buffer_difference(OpId op, std::size_t edge, std::size_t buffer, double error, DiffSite& site) const {
    const auto arguments = arguments_of(*reference_.trace, op);
    const auto position = reference_.trace->edges.arg[edge];
    const std::string address(reference_.trace->strings[reference_.trace->ops.address[buffer]]);
    std::string name = "buffer";
    if (position >= 0 && row_of(position) < arguments.size() && !arguments[row_of(position)].name.empty()) {
      name = arguments[row_of(position)].name;
    }
    site.arguments.push_back({name, address, address + " with other values, rel L2 " + number_text(error)});
  }

  void judge() {
    const bool coarser = other_precision_ || report_.reference.dtype != report_.subject.dtype;
    const Judge by_tolerances = [&](const DiffSite& site, std::int64_t depth) {
      auto judgement = judge_by_floor(site, depth);
      const auto said = options_.tolerances ? options_.tolerances->judge(site) : std::nullopt;
      return said ? Judgement{said->within, 0, said->failed_rule, said->ignored} : judgement;
    };
    const CentringGain centring = [&](const DiffSite& site) { return centring_gain(site); };
    if (graph().trace) {
      find_causes(graph(), site_of_, coarser, by_tolerances, report_.sites, centring);
      count_unmatched_inputs(graph(), site_of_, report_.sites);
      if (reference_.dump || subject_.dump) find_intervals(graph(), site_of_, alignment_.call_of, report_.sites);
    } else {
      find_causes_in_order(coarser, by_tolerances, report_.sites);
    }
    for (auto& site : report_.sites) {
      site.mean_error = site.error;
      site.worst_error = site.error;
    }
    part_steps();
    part_mispaired();
    const bool any_compared = std::ranges::any_of(report_.sites, is_compared);
    if (!any_compared || std::ranges::any_of(report_.sites, is_judged)) return;
    throw Error(ErrorCode::kCoverageTooLow, "no site is judged: what --only and the rules leave was not compared",
                "name sites that both sides have values of, or leave the rule `ignore` out");
  }

  static void leave_out(DiffSite& site) {
    site.site_class = SiteClass::kNotCompared;
    site.evidence = Evidence::kShape;
    site.metrics.reset();
    site.error = 0;
    site.within = true;
  }

  /// Where the value of an operation is that of an outer entry, the inner ones are steps to it that the other side does
  /// at once: a convolution with the norm folded in.
  void part_steps() {
    std::int64_t parted = 0;
    for (auto outer = report_.sites.rbegin(); outer != report_.sites.rend(); ++outer) {
      if (outer->inner < 0 || !is_compared(*outer) || !outer->within) continue;
      for (auto row = outer->inner; row >= 0; row = report_.sites[row_of(row)].inner) {
        auto& step = report_.sites[row_of(row)];
        if (!is_compared(step) || step.within) continue;
        leave_out(step);
        ++parted;
      }
    }
    if (parted == 0) return;
    const auto& whole = reference_.dump ? report_.subject : report_.reference;
    report_.notes.push_back("left out of coverage: " + entries_text(parted) + " of steps to what " + whole.name +
                            " does in one operation");
  }

  /// A pair that order alone made, which differs although nothing that reads it does, was none: the two sides only have
  /// operations of one type and shape there.
  void part_mispaired() {
    std::vector<bool> is_read(report_.sites.size(), false);
    std::vector<bool> hands_on(report_.sites.size(), false);
    for (const auto& site : report_.sites) {
      if (!is_compared(site)) continue;
      for (const auto input : site.inputs) {
        is_read[row_of(input)] = true;
        hands_on[row_of(input)] = hands_on[row_of(input)] || site.site_class != SiteClass::kAgrees;
      }
    }
    std::int64_t parted = 0;
    for (std::size_t row = 0; row < report_.sites.size(); ++row) {
      auto& site = report_.sites[row];
      if (site.basis != MatchBasis::kSequence || site.site_class != SiteClass::kSource) continue;
      if (!is_read[row] || hands_on[row]) continue;
      leave_out(site);
      ++parted;
    }
    if (parted == 0) return;
    report_.notes.push_back(
        std::to_string(parted) +
        " operations that order alone had paired differ, but nothing that reads them does: taken for "
        "different ones");
  }

  /// How much larger the subject's value is than what is left of it when its mean is taken off.
  double centring_gain(const DiffSite& site) const {
    const auto value = value_of(subject_, row_of(site.subject.row));
    if (!value.tensor || value.evidence != Evidence::kFull || value.tensor->kind() != TensorKind::kStrided) return 1;
    const auto stats = compute_stats(value.tensor->to_host().at(0).tensor);
    const auto gain = stats.sum_sq_dev > 0 ? std::sqrt(stats.sum_sq / stats.sum_sq_dev) : 1;
    return std::isfinite(gain) ? std::max(1.0, gain) : 1;
  }

  /// A dump has digests of buffers, and no values to compare.
  void take_buffers(const Precondition& buffers) {
    const auto place = std::ranges::find(report_.preconditions, "buffers", &Precondition::name);
    if (place != report_.preconditions.end() && place->agreement == Agreement::kUnknown)
      *place = buffers;
    else if (place == report_.preconditions.end())
      report_.preconditions.push_back(buffers);
  }

  /// What a module is known to hold, or to have been built with, explains its output before what is computed around it.
  void leave_intervals_with_a_cause() {
    for (auto& site : report_.sites) {
      const bool is_known = std::ranges::any_of(site.arguments, [](const ArgumentDifference& argument) {
        return argument.name != "dtype" && argument.name != "shape";
      });
      if (!is_known) continue;
      site.between.clear();
      site.interval.clear();
    }
  }

  void add_interval_causes() {
    for (const auto row : report_.sources) {
      auto& site = report_.sites[row_of(row)];
      const auto where = interval_cause(site);
      if (!where.empty()) site.cause = where + (site.cause.empty() ? "" : "; ") + site.cause;
    }
  }

  void add_notes() {
    const auto partial = [&](const DiffSide& side) {
      if (side.outcome != "complete") report_.notes.push_back(side.name + " is partial: the run " + side.outcome);
    };
    partial(report_.reference);
    partial(report_.subject);
    for (const auto* side : {&reference_, &subject_}) {
      if (!side->dump) continue;
      for (const auto& note : side->dump->notes) {
        if (std::ranges::find(report_.notes, note) == report_.notes.end()) report_.notes.push_back(note);
      }
    }
    if (report_.coverage.matched * 2 < report_.coverage.total) {
      report_.notes.push_back("less than half of the " + report_.coverage.unit +
                              " were matched: are the two the same model?");
    }
    note_evidence();
    note_unread();
    if (!alignment_.names_trusted) {
      report_.notes.push_back("equal weights stand under other names: modules were matched by weights, not by name");
    }
    if (!graph().trace) report_.notes.push_back("neither side has dataflow: causes are told by order alone");
  }

  /// Statistics can show a difference, never its absence.
  void note_evidence() {
    const auto by_statistics = report_.coverage.by_evidence[static_cast<std::size_t>(Evidence::kStatistics)];
    if (by_statistics == 0) return;
    report_.notes.push_back(std::to_string(by_statistics) + " of " + std::to_string(report_.coverage.compared) + " " +
                            report_.coverage.unit +
                            " were compared by statistics only, which is weaker evidence: equal statistics do not show "
                            "equal values");
  }

  /// Entries that coverage leaves out, since the other side has no such value.
  void note_unread() {
    const auto& partner = reference_.dump ? alignment_.subject_of : alignment_.reference_of;
    std::int64_t count = 0;
    for (std::size_t row = 0; row < alignment_.unread.size(); ++row)
      count += alignment_.unread[row] && partner[row] < 0;
    if (count == 0) return;
    const auto& without = reference_.dump ? report_.subject : report_.reference;
    report_.notes.push_back("left out of coverage: " + entries_text(count) + " of values that nothing in " +
                            without.name + " reads (several values of one call, and what was computed for them)");
  }

  const Side& reference_;
  const Side& subject_;
  const DiffOptions& options_;
  bool graph_is_subject_;
  Alignment alignment_;
  DiffReport report_;
  std::vector<std::int64_t> site_of_;
  std::optional<ModuleConstants> constants_;
  bool other_precision_ = false;  ///< most values of a dump are of another floating type
};

}  // namespace

Compared compare_recordings(const Side& reference, const Side& subject, const DiffOptions& options) {
  return Comparer(reference, subject, options).run();
}

}  // namespace tl
