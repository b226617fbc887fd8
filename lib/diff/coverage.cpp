#include "diff/coverage.h"

#include <algorithm>
#include <map>

namespace tl {
namespace {

std::size_t row_of(std::int64_t value) { return static_cast<std::size_t>(value); }

void append(std::string& text, const std::string& part) {
  if (!part.empty()) text += (text.empty() ? "" : " · ") + part;
}

DiffSide describe_trace(const Side& side) {
  const auto& run = side.trace->run;
  DiffSide result;
  result.kind = run.model_kind;
  append(result.details, run.model_kind);
  append(result.details, run.engine);
  append(result.details, run.mode);
  append(result.details, run.dtype);
  append(result.details, run.device);
  result.model_class = run.model_class;
  result.mode = run.mode;
  result.dtype = run.dtype;
  result.outcome = run.outcome.status;
  result.seed = run.seed;
  result.has_dataflow = true;
  return result;
}

DiffSide describe_dump(const Side& side) {
  const auto& dump = *side.dump;
  DiffSide result;
  result.kind = dump.kind;
  append(result.details, dump.kind);
  append(result.details, dump.producer);
  append(result.details, dump.engine);
  append(result.details, dump.mode);
  append(result.details, dump.device);
  result.model_class = dump.model_class;
  result.mode = dump.mode;
  std::map<DType, std::size_t> types;
  for (const auto& param : dump.params) ++types[param.dtype];
  const auto most = std::ranges::max_element(types, {}, [](const auto& entry) { return entry.second; });
  if (most != types.end()) result.dtype = short_name(most->first);
  append(result.details, result.dtype);
  result.outcome = dump.outcome;
  result.seed = dump.seed;
  return result;
}

/// Steps of what the other side does in one operation, by row: of `many`, those that only others of them read.
class FusedSteps {
 public:
  explicit FusedSteps(const Side& side) : side_(side), inside_(side.size()) {}

  void add(const std::vector<SiteRef>& many) {
    if (readers_.begin.empty()) readers_ = make_child_index(*side_.trace);
    group_.resize(side_.size(), false);
    for (const auto& ref : many) group_[row_of(ref.row)] = true;
    for (const auto& ref : many) {
      const auto begin = row_of(readers_.begin[row_of(ref.row)]);
      const auto end = row_of(readers_.begin[row_of(ref.row) + 1]);
      bool only_here = begin != end;
      for (auto at = begin; at < end; ++at) only_here = only_here && group_[row_of(readers_.child[at])];
      if (only_here) inside_[row_of(ref.row)] = true;
    }
    for (const auto& ref : many) group_[row_of(ref.row)] = false;
  }

  bool holds(std::size_t row) const { return inside_[row]; }

 private:
  const Side& side_;
  std::vector<bool> inside_;
  std::vector<bool> group_;
  ChildIndex readers_;
};

/// The operation that stands for several of the other side is paired with the last of these, and was compared.
bool is_compared_whole(const DiffChange& change, const std::vector<DiffSite>& sites) {
  if (change.site < 0 || (change.kind != ChangeKind::kFused && change.kind != ChangeKind::kSplit)) return false;
  const auto& site = sites[row_of(change.site)];
  if (site.evidence == Evidence::kShape) return false;
  return change.kind == ChangeKind::kFused ? change.subject[0].row == site.subject.row
                                           : change.reference[0].row == site.reference.row;
}

/// An entry that was taken for a step of the operation that the entry around it was compared with.
bool is_step(const std::vector<DiffSite>& sites, std::size_t site) {
  const auto outer = site + 1;
  if (sites[site].evidence != Evidence::kShape || outer == sites.size()) return false;
  return sites[outer].inner == static_cast<std::int64_t>(site) &&
         (sites[outer].evidence != Evidence::kShape || is_step(sites, outer));
}

DiffCoverage site_coverage(const Side& reference, const Side& subject, const Alignment& alignment,
                           const std::vector<DiffSite>& sites, const std::vector<DiffChange>& changes) {
  DiffCoverage coverage;
  FusedSteps in_reference(reference);
  FusedSteps in_subject(subject);
  for (const auto& change : changes) {
    if (!reference.trace || !subject.trace || !is_compared_whole(change, sites)) continue;
    if (change.kind == ChangeKind::kFused) {
      in_reference.add(change.reference);
    } else {
      in_subject.add(change.subject);
    }
  }
  for (std::size_t i = 0; i < sites.size(); ++i) {
    const auto& site = sites[i];
    const auto row = row_of(site.reference.row);
    if (reference.kind[row] != OpKind::kOperation) continue;
    if (is_step(sites, i)) {
      ++coverage.inside_fused;
      continue;
    }
    ++coverage.matched;
    ++coverage.by_basis[static_cast<std::size_t>(site.basis)];
    ++coverage.by_evidence[static_cast<std::size_t>(site.evidence)];
    if (site.evidence != Evidence::kShape) ++coverage.compared;
  }
  coverage.total = coverage.matched;
  const auto add_unmatched = [&](const Side& side, const std::vector<std::int32_t>& partner, const FusedSteps& steps,
                                 bool counts) {
    if (!counts) return;
    for (std::size_t row = 0; row < side.size(); ++row) {
      if (side.kind[row] != OpKind::kOperation || partner[row] >= 0) continue;
      if (!side.matters[row] || (side.trace && is_neutral(*side.trace, row))) continue;
      if (side.dump && row < alignment.unread.size() && alignment.unread[row]) continue;
      ++(steps.holds(row) ? coverage.inside_fused : coverage.total);
    }
  };
  const bool with_dump = reference.dump || subject.dump;
  add_unmatched(reference, alignment.subject_of, in_reference, !with_dump || reference.dump);
  add_unmatched(subject, alignment.reference_of, in_subject, !with_dump || subject.dump);
  if (with_dump) coverage.unit = "entries";
  return coverage;
}

/// The first call of each place, by place.
std::map<std::uint64_t, std::size_t> calls_by_place(const Side& side) {
  std::map<std::uint64_t, std::size_t> calls;
  for (std::size_t call = 1; call < side.call_place.size(); ++call) calls.emplace(side.call_place[call], call);
  return calls;
}

/// A call in which one operation computes and all others pass on what they read.
bool does_one_thing(const Trace& trace, std::size_t call) {
  std::size_t computing = 0;
  for (auto op = row_of(trace.module_calls.first_op[call]); op < row_of(trace.module_calls.end_op[call]); ++op) {
    computing += trace.ops.kind[op] == 0 && !is_neutral(trace, op);
  }
  return computing == 1;
}

/// The other side does the innermost call around this one that it has in one operation.
bool is_inside_fused(const Side& side, std::size_t call, const Side& other,
                     const std::map<std::uint64_t, std::size_t>& others) {
  for (auto above = side.trace->module_calls.parent_call[call]; above > 0;
       above = side.trace->module_calls.parent_call[row_of(above)]) {
    const auto found = others.find(side.call_place[row_of(above)]);
    if (found != others.end()) return does_one_thing(*other.trace, found->second);
  }
  return false;
}

/// Counts the calls that only `side` has and whose values matter.
void add_single_calls(const Side& side, const std::map<std::uint64_t, std::size_t>& calls, const Side& other,
                      const std::map<std::uint64_t, std::size_t>& others, DiffCoverage& coverage) {
  for (const auto& [place, call] : calls) {
    const auto op = side.trace->module_calls.output_op[call];
    if (op < 0 || others.contains(place) || !side.matters[row_of(op)]) continue;
    ++(is_inside_fused(side, call, other, others) ? coverage.inside_fused : coverage.total);
  }
}

/// Calls of both sides by place, and of these the ones whose returned values were compared with each other.
DiffCoverage module_coverage(const Side& reference, const Side& subject, const Alignment& alignment,
                             const std::vector<DiffSite>& sites) {
  DiffCoverage coverage;
  coverage.unit = "module outputs";
  std::map<std::int64_t, const DiffSite*> by_row;
  for (const auto& site : sites) by_row.emplace(site.reference.row, &site);
  const auto ours = calls_by_place(reference);
  const auto theirs = calls_by_place(subject);
  for (const auto& [place, call] : ours) {
    const auto op = reference.trace->module_calls.output_op[call];
    const auto found = theirs.find(place);
    if (op < 0 || found == theirs.end()) continue;
    const auto other = subject.trace->module_calls.output_op[found->second];
    if (other < 0) continue;
    ++coverage.total;
    const auto site = by_row.find(op);
    if (alignment.subject_of[row_of(op)] != other || site == by_row.end()) continue;
    ++coverage.matched;
    ++coverage.by_basis[static_cast<std::size_t>(site->second->basis)];
    ++coverage.by_evidence[static_cast<std::size_t>(site->second->evidence)];
    if (site->second->evidence != Evidence::kShape) ++coverage.compared;
  }
  add_single_calls(reference, ours, subject, theirs, coverage);
  add_single_calls(subject, theirs, reference, ours, coverage);
  return coverage;
}

}  // namespace

DiffSide describe(const Side& side, const std::string& name) {
  auto result = side.trace ? describe_trace(side) : describe_dump(side);
  result.name = name;
  result.num_sites = std::ranges::count(side.kind, OpKind::kOperation);
  for (std::size_t row = 0; row < side.size(); ++row) {
    if (side.kind[row] != OpKind::kOperation) continue;
    result.num_payloads += side.trace ? (payload_of(side, row) >= 0 && side.trace->payload_source) ||
                                            side.trace->statistics.find(row).has_value()
                                      : value_of(side, row).evidence != Evidence::kShape;
  }
  return result;
}

DiffCoverage coverage_of(const Side& reference, const Side& subject, const Alignment& alignment,
                         const std::vector<DiffSite>& sites, const std::vector<DiffChange>& changes) {
  auto coverage = site_coverage(reference, subject, alignment, sites, changes);
  if (!reference.trace || !subject.trace || coverage.share() >= 0.95) return coverage;
  auto modules = module_coverage(reference, subject, alignment, sites);
  return modules.share() > coverage.share() ? modules : coverage;
}

}  // namespace tl
