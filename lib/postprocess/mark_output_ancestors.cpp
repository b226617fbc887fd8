// Before: edges are complete. After: kOpOutputAncestor is on every Op that some output hangs on, outputs included.
// Parents come before their children, so one walk from the end is enough. Here, because remove-orphans and the
// summaries ask for it.
#include "postprocess/step.h"

namespace tl {

void mark_output_ancestors(StepContext& context) {
  auto& trace = context.trace;
  auto& flags = trace.ops.flags.rows();
  for (auto op = trace.num_ops(); op-- > 0;) {
    if (trace.ops.kind[op] == static_cast<std::uint8_t>(OpKind::kOutput)) flags[op] |= kOpOutputAncestor;
    if ((flags[op] & kOpOutputAncestor) == 0) continue;
    const auto [begin, end] = edge_range(trace, OpId{static_cast<std::uint32_t>(op)});
    for (auto edge = begin; edge < end; ++edge) {
      flags[static_cast<std::size_t>(trace.edges.parent[edge])] |= kOpOutputAncestor;
    }
  }
}

}  // namespace tl
