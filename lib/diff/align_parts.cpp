#include "diff/align_parts.h"

#include <algorithm>
#include <map>

#include "core/digest.h"
#include "diff/sequence.h"

namespace tl {
namespace {

std::size_t row_of(std::int32_t value) { return static_cast<std::size_t>(value); }

std::size_t count_operations(const Side& side) {
  return static_cast<std::size_t>(std::ranges::count(side.kind, OpKind::kOperation));
}

std::uint64_t role_of(const Side& side, std::size_t row) {
  if (side.trace) {
    auto role = side.trace->strings[side.trace->ops.address[row]];
    if (side.kind[row] == OpKind::kInput && role.starts_with("input.")) role.remove_prefix(6);
    return hash_text(role);
  }
  auto role = site_ref(side, row).label;
  if (side.kind[row] == OpKind::kInput && role.starts_with("input.")) role.erase(0, 6);
  return hash_text(role);
}

std::vector<std::uint32_t> open_rows(const Side& side, const std::vector<std::int32_t>& partner, OpKind kind) {
  std::vector<std::uint32_t> rows;
  for (std::uint32_t row = 0; row < side.size(); ++row) {
    if (side.kind[row] == kind && partner[row] < 0) rows.push_back(row);
  }
  return rows;
}

/// Rows of buffers by address, in order: the state before the run, then what was written.
std::map<std::uint64_t, std::vector<std::uint32_t>> buffer_versions(const Side& side,
                                                                    const std::vector<std::int32_t>& partner) {
  std::map<std::uint64_t, std::vector<std::uint32_t>> versions;
  for (const auto row : open_rows(side, partner, OpKind::kBuffer)) versions[role_of(side, row)].push_back(row);
  return versions;
}

/// Buffers by address. Where one side writes more often than the other, only the first and the last version are the
/// same thing.
void match_buffers(Pairs& pairs) {
  const auto theirs = buffer_versions(pairs.subject, pairs.result.reference_of);
  const auto written = [](const Side& side, std::uint32_t row) {
    return side.trace && (side.trace->ops.flags[row] & kOpBufferWrite) != 0;
  };
  for (const auto& [role, rows] : buffer_versions(pairs.reference, pairs.result.subject_of)) {
    const auto found = theirs.find(role);
    if (found == theirs.end()) continue;
    const auto& others = found->second;
    const bool as_many = rows.size() == others.size();
    for (std::size_t i = 0; as_many && i < rows.size(); ++i) pairs.add(rows[i], others[i], MatchBasis::kRole);
    if (as_many) continue;
    const auto add_if_alike = [&](std::uint32_t r, std::uint32_t s) {
      if (written(pairs.reference, r) == written(pairs.subject, s)) pairs.add(r, s, MatchBasis::kRole);
    };
    add_if_alike(rows.front(), others.front());
    if (rows.size() > 1 && others.size() > 1) add_if_alike(rows.back(), others.back());
  }
}

void match_kind(Pairs& pairs, OpKind kind) {
  if (kind == OpKind::kBuffer) return match_buffers(pairs);
  std::map<std::pair<std::uint64_t, int>, std::uint32_t> by_role;  // role and how many had it before
  std::map<std::uint64_t, int> seen;
  for (const auto row : open_rows(pairs.reference, pairs.result.subject_of, kind)) {
    const auto role = role_of(pairs.reference, row);
    by_role[{role, seen[role]++}] = row;
  }
  seen.clear();
  for (const auto row : open_rows(pairs.subject, pairs.result.reference_of, kind)) {
    const auto role = role_of(pairs.subject, row);
    if (const auto found = by_role.find({role, seen[role]++}); found != by_role.end()) {
      pairs.add(found->second, row, MatchBasis::kRole);
    }
  }
  const auto left = open_rows(pairs.reference, pairs.result.subject_of, kind);
  const auto right = open_rows(pairs.subject, pairs.result.reference_of, kind);
  if (left.size() != right.size()) return;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (pairs.reference.shape[left[i]] == pairs.subject.shape[right[i]]) {
      pairs.add(left[i], right[i], MatchBasis::kRole);
    }
  }
}

/// First values that module calls return, by place; of calls with the same place the first.
std::map<std::uint64_t, std::int32_t> output_ops(const Side& side) {
  std::map<std::uint64_t, std::int32_t> outputs;
  for (std::size_t call = 1; call < side.call_place.size(); ++call) {
    outputs.emplace(side.call_place[call], side.trace->module_calls.output_op[call]);
  }
  return outputs;
}

std::vector<std::pair<std::string, std::uint32_t>> contents(const Side& side,
                                                            const std::vector<std::int32_t>& partner) {
  constexpr std::size_t kMostRows = 2000;
  std::vector<std::pair<std::string, std::uint32_t>> digests;
  const auto rows = open_rows(side, partner, OpKind::kOperation);
  if (rows.size() > kMostRows) return {};
  for (const auto row : rows) {
    const auto value = value_of(side, row);
    if (value.evidence != Evidence::kFull || value.tensor->kind() != TensorKind::kStrided) continue;
    const auto tensor = to_contiguous(value.tensor->to_host().at(0).tensor);
    if (tensor.numel() < 8) continue;
    const auto item = item_bytes(tensor.dtype);
    digests.emplace_back(
        digest_hex(tensor.storage.subspan(static_cast<std::size_t>(tensor.offset) * item, tensor.nbytes())), row);
  }
  std::ranges::sort(digests);
  return digests;
}

}  // namespace

Pairs::Pairs(const Side& left, const Side& right) : reference(left), subject(right) {
  result.subject_of.assign(left.size(), -1);
  result.reference_of.assign(right.size(), -1);
  result.basis.assign(left.size(), MatchBasis::kSiteKey);
  result.reordered.assign(left.size(), 0);
  open_reference_ = count_operations(left);
  open_subject_ = count_operations(right);
}

void Pairs::add(std::size_t reference_row, std::size_t subject_row, MatchBasis basis) {
  result.subject_of[reference_row] = static_cast<std::int32_t>(subject_row);
  if (result.reference_of[subject_row] < 0) {
    result.reference_of[subject_row] = static_cast<std::int32_t>(reference_row);
    if (subject.kind[subject_row] == OpKind::kOperation) --open_subject_;
  }
  result.basis[reference_row] = basis;
  if (reference.kind[reference_row] == OpKind::kOperation) --open_reference_;
}

void Pairs::remove(std::size_t reference_row) {
  const auto subject_row = row_of(result.subject_of[reference_row]);
  result.subject_of[reference_row] = -1;
  ++open_reference_;
  if (result.reference_of[subject_row] != static_cast<std::int32_t>(reference_row)) return;
  result.reference_of[subject_row] = -1;
  ++open_subject_;
}

bool Pairs::consistent(std::size_t reference_row, std::size_t subject_row) const {
  if (!reference.trace || !subject.trace) return true;
  const auto theirs = parents(*subject.trace, OpId{static_cast<std::uint32_t>(subject_row)});
  bool matched = false;
  for (const auto parent : parents(*reference.trace, OpId{static_cast<std::uint32_t>(reference_row)})) {
    const auto partner = result.subject_of[parent.index()];
    if (partner < 0) continue;
    matched = true;
    if (std::ranges::find(theirs, OpId{static_cast<std::uint32_t>(partner)}) != theirs.end()) return true;
  }
  const bool theirs_matched =
      std::ranges::any_of(theirs, [&](OpId parent) { return result.reference_of[parent.index()] >= 0; });
  return !matched || !theirs_matched;
}

std::vector<std::pair<std::uint32_t, std::uint32_t>> Pairs::in_order() const {
  std::vector<std::uint32_t> rows;
  std::vector<std::uint32_t> partners;
  for (std::uint32_t row = 0; row < result.subject_of.size(); ++row) {
    if (result.subject_of[row] < 0 || reference.kind[row] != OpKind::kOperation) continue;
    rows.push_back(row);
    partners.push_back(static_cast<std::uint32_t>(result.subject_of[row]));
  }
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ordered;
  for (const auto position : longest_increasing(partners)) ordered.emplace_back(rows[position], partners[position]);
  return ordered;
}

void match_roles(Pairs& pairs) {
  for (const auto kind : {OpKind::kInput, OpKind::kBuffer, OpKind::kOutput}) match_kind(pairs, kind);
}

void match_module_outputs(Pairs& pairs) {
  const auto theirs = output_ops(pairs.subject);
  for (const auto& [place, op] : output_ops(pairs.reference)) {
    const auto found = theirs.find(place);
    if (op < 0 || found == theirs.end() || found->second < 0) continue;
    const auto r = row_of(op);
    const auto s = row_of(found->second);
    if (pairs.result.subject_of[r] >= 0 || pairs.result.reference_of[s] >= 0) continue;
    if (pairs.reference.kind[r] != OpKind::kOperation || pairs.subject.kind[s] != OpKind::kOperation) continue;
    if (pairs.reference.shape[r] == pairs.subject.shape[s]) pairs.add(r, s, MatchBasis::kModule);
  }
}

void match_content(Pairs& pairs) {
  const auto ours = contents(pairs.reference, pairs.result.subject_of);
  const auto theirs = contents(pairs.subject, pairs.result.reference_of);
  const auto is_unique = [](const auto& rows, std::size_t i) {
    return (i == 0 || rows[i - 1].first != rows[i].first) &&
           (i + 1 == rows.size() || rows[i + 1].first != rows[i].first);
  };
  for (std::size_t r = 0, s = 0; r < ours.size() && s < theirs.size();) {
    if (ours[r].first < theirs[s].first) {
      ++r;
    } else if (theirs[s].first < ours[r].first) {
      ++s;
    } else {
      if (is_unique(ours, r) && is_unique(theirs, s) && pairs.consistent(ours[r].second, theirs[s].second)) {
        pairs.add(ours[r].second, theirs[s].second, MatchBasis::kContent);
      }
      ++r;
      ++s;
    }
  }
}

}  // namespace tl
