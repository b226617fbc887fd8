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

DiffCoverage site_coverage(const Side& reference, const Side& subject, const Alignment& alignment,
                           const std::vector<DiffSite>& sites) {
  DiffCoverage coverage;
  for (const auto& site : sites) {
    const auto row = row_of(site.reference.row);
    if (reference.kind[row] != OpKind::kOperation) continue;
    ++coverage.matched;
    ++coverage.by_basis[static_cast<std::size_t>(site.basis)];
    ++coverage.by_evidence[static_cast<std::size_t>(site.evidence)];
    if (site.evidence != Evidence::kShape) ++coverage.compared;
  }
  coverage.total = coverage.matched;
  const auto add_unmatched = [&](const Side& side, const std::vector<std::int32_t>& partner, bool counts) {
    for (std::size_t row = 0; counts && row < side.size(); ++row) {
      if (side.kind[row] != OpKind::kOperation || partner[row] >= 0) continue;
      if (!side.trace || !is_neutral(*side.trace, row)) ++coverage.total;
    }
  };
  const bool with_dump = reference.dump || subject.dump;
  add_unmatched(reference, alignment.subject_of, !with_dump || reference.dump);
  add_unmatched(subject, alignment.reference_of, !with_dump || subject.dump);
  if (with_dump) coverage.unit = "entries";
  return coverage;
}

/// Calls of both sides by place, and of these the ones whose returned values were compared with each other.
DiffCoverage module_coverage(const Side& reference, const Side& subject, const Alignment& alignment,
                             const std::vector<DiffSite>& sites) {
  DiffCoverage coverage;
  coverage.unit = "module outputs";
  std::map<std::int64_t, const DiffSite*> by_row;
  for (const auto& site : sites) by_row.emplace(site.reference.row, &site);
  std::map<std::uint64_t, std::int32_t> theirs;
  for (std::size_t call = 1; call < subject.call_place.size(); ++call) {
    theirs.emplace(subject.call_place[call], subject.trace->module_calls.output_op[call]);
  }
  std::map<std::uint64_t, std::int32_t> ours;
  for (std::size_t call = 1; call < reference.call_place.size(); ++call) {
    ours.emplace(reference.call_place[call], reference.trace->module_calls.output_op[call]);
  }
  for (const auto& [place, op] : ours) {
    if (op < 0) continue;
    const auto found = theirs.find(place);
    if (found != theirs.end() && found->second < 0) continue;
    ++coverage.total;
    if (found == theirs.end() || alignment.subject_of[row_of(op)] != found->second) continue;
    const auto site = by_row.find(op);
    if (site == by_row.end()) continue;
    ++coverage.matched;
    ++coverage.by_basis[static_cast<std::size_t>(site->second->basis)];
    ++coverage.by_evidence[static_cast<std::size_t>(site->second->evidence)];
    if (site->second->evidence != Evidence::kShape) ++coverage.compared;
  }
  for (const auto& [place, op] : theirs) coverage.total += op >= 0 && !ours.contains(place);
  return coverage;
}

}  // namespace

DiffSide describe(const Side& side, const std::string& name) {
  auto result = side.trace ? describe_trace(side) : describe_dump(side);
  result.name = name;
  result.num_sites = std::ranges::count(side.kind, OpKind::kOperation);
  for (std::size_t row = 0; row < side.size(); ++row) {
    if (side.kind[row] != OpKind::kOperation) continue;
    result.num_payloads += side.trace ? payload_of(side, row) >= 0 && side.trace->payload_source
                                      : value_of(side, row).evidence != Evidence::kShape;
  }
  return result;
}

DiffCoverage coverage_of(const Side& reference, const Side& subject, const Alignment& alignment,
                         const std::vector<DiffSite>& sites) {
  auto coverage = site_coverage(reference, subject, alignment, sites);
  if (!reference.trace || !subject.trace || coverage.share() >= 0.95) return coverage;
  auto modules = module_coverage(reference, subject, alignment, sites);
  return modules.share() > coverage.share() ? modules : coverage;
}

}  // namespace tl
