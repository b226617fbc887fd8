#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "diff/align.h"

namespace tl {

/// The pairs found so far, and what every way of finding more asks of them.
class Pairs {
 public:
  Pairs(const Side& reference, const Side& subject);

  void add(std::size_t reference_row, std::size_t subject_row, MatchBasis basis);
  /// Takes a pair of operations apart.
  void remove(std::size_t reference_row);
  /// Operations without a partner are left on both sides.
  bool unmatched() const { return open_reference_ > 0 && open_subject_ > 0; }
  /// False if both rows read matched rows, and none of those is the other's partner: whatever their types, they stand
  /// in different places of the graph. True where a side has no dataflow.
  bool consistent(std::size_t reference_row, std::size_t subject_row) const;
  /// The pairs of operations in order of the reference, without those that are out of order in the subject.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> in_order() const;

  const Side& reference;
  const Side& subject;
  Alignment result;

 private:
  std::size_t open_reference_ = 0;
  std::size_t open_subject_ = 0;
};

/// Inputs, outputs and buffers: by role or address, then by position where as many are left with equal shapes.
void match_roles(Pairs& pairs);

/// Values that module calls of the same place return, whatever operators made them.
void match_module_outputs(Pairs& pairs);

/// Rows without a partner whose values are equal and occur once on each side.
void match_content(Pairs& pairs);

/// Operations without a partner that a pair of one type reads as the same argument: of equal shape and element type,
/// unless what they read themselves says otherwise. Both sides must be Traces.
void match_read_values(Pairs& pairs);

/// Takes pairs of views and copies apart whose values come from operations that are not a pair: between rewritten
/// operations views of equal shape are many. Those of two operations without partners stay where these are of equal
/// shape and element type. Both sides must be Traces.
void drop_loose_views(Pairs& pairs);

/// A pair of operations with other weights, behind one of which stands a batch norm that the other side lacks: the norm
/// was folded into the weights, so its value is the one to compare. The pair then holds the norm in place of the
/// operation before it. Both sides must be Traces; without digests of parameters nothing is found.
void match_folded_norms(Pairs& pairs);

/// Alignment where at least one side is a Dump: entries against the outputs of module calls, by name and call, by equal
/// digests of the parameters of a module, and by class and shape in order.
Alignment align_with_dump(const Side& reference, const Side& subject, const AlignOptions& options);

}  // namespace tl
