// Before: only Ops that stay are in the table. After: the least and greatest number of edges from any input and to any
// output are columns (-1: none reached, 0 on inputs and outputs themselves), kOpInputDescendant is on what hangs on an
// input, kOpInternalSource on operations and buffers without parents, kOpInternalSink on those without children. Two
// walks, since parents come before their children. After remove-orphans, so that nothing dropped counts.
#include <algorithm>
#include <cstdint>

#include "postprocess/step.h"

namespace tl {
namespace {

struct Reach {
  std::vector<std::int32_t>& min;
  std::vector<std::int32_t>& max;

  void start(std::size_t op) const { min[op] = max[op] = 0; }
  void step(std::size_t op, std::size_t from) const {
    if (max[from] < 0) return;
    min[op] = max[op] < 0 ? min[from] + 1 : std::min(min[op], min[from] + 1);
    max[op] = std::max(max[op], max[from] + 1);
  }
};

}  // namespace

void mark_depths(StepContext& context) {
  auto& trace = context.trace;
  auto& ops = trace.ops;
  auto& flags = ops.flags.rows();
  const Reach from_input{ops.min_distance_from_input.rows(), ops.max_distance_from_input.rows()};
  const Reach to_output{ops.min_distance_to_output.rows(), ops.max_distance_to_output.rows()};
  const auto internal = [&](std::size_t op) {
    const auto kind = static_cast<OpKind>(ops.kind[op]);
    return kind == OpKind::kOperation || kind == OpKind::kBuffer;
  };
  std::vector<bool> has_child(trace.num_ops(), false);
  for (std::size_t op = 0; op < trace.num_ops(); ++op) {
    if (ops.kind[op] == static_cast<std::uint8_t>(OpKind::kInput)) from_input.start(op);
    const auto [begin, end] = edge_range(trace, OpId{static_cast<std::uint32_t>(op)});
    for (auto edge = begin; edge < end; ++edge) {
      const auto parent = static_cast<std::size_t>(trace.edges.parent[edge]);
      has_child[parent] = true;
      from_input.step(op, parent);
    }
    if (from_input.max[op] >= 0) flags[op] |= kOpInputDescendant;
    if (begin == end && internal(op)) flags[op] |= kOpInternalSource;
  }
  for (auto op = trace.num_ops(); op-- > 0;) {
    if (ops.kind[op] == static_cast<std::uint8_t>(OpKind::kOutput)) to_output.start(op);
    const auto [begin, end] = edge_range(trace, OpId{static_cast<std::uint32_t>(op)});
    for (auto edge = begin; edge < end; ++edge) to_output.step(static_cast<std::size_t>(trace.edges.parent[edge]), op);
    if (!has_child[op] && internal(op)) flags[op] |= kOpInternalSink;
  }
}

}  // namespace tl
