#pragma once

#include <string_view>
#include <vector>

#include "diff/weight_relation.h"
#include "trace/trace.h"

namespace tl {

/// What the axes of parameters may be made of, told by what reads them: gates where an LSTM or a GRU does; heads where
/// the result is viewed with its last axis in two, or what is multiplied with it was.
class BlockHints {
 public:
  explicit BlockHints(const Trace& trace) : trace_(trace) {}

  /// For the parameter of that row.
  std::vector<BlockHint> of(std::size_t param);

 private:
  void add_gates(OpId op, std::vector<BlockHint>& hints) const;
  void add_heads_below(OpId op, std::int64_t rows, std::vector<BlockHint>& hints);
  void add_heads_above(OpId op, std::int64_t columns, std::vector<BlockHint>& hints) const;

  const Trace& trace_;
  ChildIndex children_;
};

}  // namespace tl
