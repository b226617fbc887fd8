#include <cstdint>
#include <map>
#include <vector>

#include "diff/align_parts.h"

namespace tl {
namespace {

std::size_t row_of(std::int64_t row) { return static_cast<std::size_t>(row); }

/// The operations without a partner that `op` reads, by argument, in order within one.
std::map<std::int16_t, std::vector<std::uint32_t>> open_reads(const Side& side,
                                                              const std::vector<std::int32_t>& partner,
                                                              std::uint32_t op) {
  std::map<std::int16_t, std::vector<std::uint32_t>> reads;
  const auto [begin, end] = edge_range(*side.trace, OpId{op});
  for (auto edge = begin; edge < end; ++edge) {
    const auto parent = static_cast<std::uint32_t>(side.trace->edges.parent[edge]);
    if (side.kind[parent] == OpKind::kOperation && partner[parent] < 0) {
      reads[side.trace->edges.arg[edge]].push_back(parent);
    }
  }
  return reads;
}

bool same_value_type(const Pairs& pairs, std::uint32_t r, std::uint32_t s) {
  return pairs.reference.shape[r] == pairs.subject.shape[s] &&
         dtype_of(pairs.reference, r) == dtype_of(pairs.subject, s);
}

/// Passes on what it reads, or part of it, without computing.
bool shows_only(const Trace& trace, std::size_t row) {
  return trace.ops.kind[row] == 0 && ((trace.ops.flags[row] & kOpView) != 0 || is_neutral(trace, row));
}

/// The first row above `row`, itself included, that computes; -1 where there is none.
std::int32_t origin_of(const Trace& trace, std::int32_t row) {
  while (row >= 0 && shows_only(trace, row_of(row))) {
    const auto [begin, end] = edge_range(trace, OpId{static_cast<std::uint32_t>(row)});
    row = begin == end ? -1 : trace.edges.parent[begin];
  }
  return row;
}

/// What two views show comes from the same place as far as is known: from a pair, or one of which one side's view was
/// taken for the whole, or from two operations without partners whose values are of one type.
bool same_origin(const Pairs& pairs, std::int32_t ours, std::int32_t theirs) {
  if (ours < 0 || theirs < 0) return true;
  const auto partner = pairs.result.subject_of[row_of(ours)];
  const auto other = pairs.result.reference_of[row_of(theirs)];
  if (partner < 0 && other < 0) {
    return same_value_type(pairs, static_cast<std::uint32_t>(ours), static_cast<std::uint32_t>(theirs));
  }
  return (partner >= 0 && origin_of(*pairs.subject.trace, partner) == theirs) ||
         (other >= 0 && origin_of(*pairs.reference.trace, other) == ours);
}

}  // namespace

void match_read_values(Pairs& pairs) {
  const auto& result = pairs.result;
  for (auto r = static_cast<std::uint32_t>(pairs.reference.size()); r-- > 0;) {
    const auto s = result.subject_of[r];
    if (s < 0 || pairs.reference.type[r] != pairs.subject.type[row_of(s)]) continue;
    const auto theirs = open_reads(pairs.subject, result.reference_of, static_cast<std::uint32_t>(s));
    if (theirs.empty()) continue;
    for (const auto& [argument, ours] : open_reads(pairs.reference, result.subject_of, r)) {
      const auto found = theirs.find(argument);
      if (found == theirs.end() || found->second.size() != ours.size()) continue;
      for (std::size_t i = 0; i < ours.size(); ++i) {
        const auto read = found->second[i];
        const bool open = result.subject_of[ours[i]] < 0 && result.reference_of[read] < 0;
        if (open && same_value_type(pairs, ours[i], read) && pairs.consistent(ours[i], read)) {
          pairs.add(ours[i], read, MatchBasis::kSequence);
        }
      }
    }
  }
}

void drop_loose_views(Pairs& pairs) {
  auto& result = pairs.result;
  const auto& ours = *pairs.reference.trace;
  const auto& theirs = *pairs.subject.trace;
  for (std::size_t r = 0; r < pairs.reference.size(); ++r) {
    const auto s = result.subject_of[r];
    if (s < 0 || pairs.reference.kind[r] != OpKind::kOperation || result.basis[r] == MatchBasis::kContent) continue;
    if (!shows_only(ours, r) || !shows_only(theirs, row_of(s))) continue;
    if (!same_origin(pairs, origin_of(ours, static_cast<std::int32_t>(r)), origin_of(theirs, s))) pairs.remove(r);
  }
}

}  // namespace tl
