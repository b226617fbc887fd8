#include <cstdint>
#include <string_view>
#include <vector>

#include "diff/align_parts.h"

namespace tl {
namespace {

std::size_t row_of(std::int32_t row) { return static_cast<std::size_t>(row); }

bool is_batch_norm(const Side& side, std::size_t row) {
  return layer_type(*side.trace, OpId{static_cast<std::uint32_t>(row)}).find("batchnorm") != std::string_view::npos;
}

/// The one call that reads each row, by the row of its first output; -1 where there are several or none.
std::vector<std::int32_t> only_readers(const Side& side) {
  constexpr std::int32_t kSeveral = -2;
  std::vector<std::int32_t> readers(side.size(), -1);
  for (std::size_t op = 0; op < side.size(); ++op) {
    const auto call = static_cast<std::int32_t>(op) - std::int32_t{side.trace->ops.slot[op]};
    const auto [begin, end] = edge_range(*side.trace, OpId{static_cast<std::uint32_t>(op)});
    for (auto edge = begin; edge < end && call >= 0; ++edge) {
      auto& reader = readers[row_of(side.trace->edges.parent[edge])];
      reader = reader == -1 || reader == call ? call : kSeveral;
    }
  }
  for (auto& reader : readers) reader = reader == kSeveral ? -1 : reader;
  return readers;
}

/// The batch norm of `side` behind `row` that has no partner, -1 if there is none.
std::int32_t norm_behind(const Side& side, const std::vector<std::int32_t>& readers,
                         const std::vector<std::int32_t>& partner, std::size_t row) {
  const auto reader = readers[row];
  const bool found = reader >= 0 && partner[row_of(reader)] < 0 && is_batch_norm(side, row_of(reader));
  return found ? reader : -1;
}

}  // namespace

void match_folded_norms(Pairs& pairs) {
  const auto& reference = pairs.reference;
  const auto& subject = pairs.subject;
  auto& result = pairs.result;
  const auto reference_readers = only_readers(reference);
  const auto subject_readers = only_readers(subject);
  for (std::size_t r = 0; r < reference.size(); ++r) {
    const auto s = result.subject_of[r];
    if (s < 0 || reference.kind[r] != OpKind::kOperation || reference.weights[r] == 0) continue;
    if (subject.weights[row_of(s)] == 0 || reference.weights[r] == subject.weights[row_of(s)]) continue;
    const auto ours = norm_behind(reference, reference_readers, result.subject_of, r);
    const auto theirs = norm_behind(subject, subject_readers, result.reference_of, row_of(s));
    if ((ours < 0) == (theirs < 0)) continue;
    if (ours >= 0) {
      result.subject_of[r] = -1;
      result.subject_of[row_of(ours)] = s;
      result.reference_of[row_of(s)] = ours;
      result.basis[row_of(ours)] = result.basis[r];
    } else {
      result.reference_of[row_of(s)] = -1;
      result.subject_of[r] = theirs;
      result.reference_of[row_of(theirs)] = static_cast<std::int32_t>(r);
    }
  }
}

}  // namespace tl
