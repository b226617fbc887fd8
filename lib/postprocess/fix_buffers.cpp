// Before: every read and write of a buffer is a row of ops that names its address. After: buffers.num_versions and
// last_op say how many versions the run saw and which is the newest, and kOpBufferWrite is on every buffer row that a
// write made. After remove-orphans, which drops reads that led nowhere.
#include <cstdint>
#include <vector>

#include "postprocess/step.h"

namespace tl {

void fix_buffers(StepContext& context) {
  auto& trace = context.trace;
  auto& buffers = trace.buffers;
  std::vector<std::int32_t> row_of(trace.strings.size(), -1);
  for (std::size_t row = 0; row < buffers.address.size(); ++row) {
    if (buffers.address[row] >= 0)
      row_of[static_cast<std::size_t>(buffers.address[row])] = static_cast<std::int32_t>(row);
  }
  for (std::size_t op = 0; op < trace.num_ops(); ++op) {
    if (trace.ops.kind[op] != static_cast<std::uint8_t>(OpKind::kBuffer)) continue;
    const auto [begin, end] = edge_range(trace, OpId{static_cast<std::uint32_t>(op)});
    if (begin < end) trace.ops.flags.mut(op) |= kOpBufferWrite;
    const auto address = trace.ops.address[op];
    const auto row = address < 0 ? -1 : row_of[static_cast<std::size_t>(address)];
    if (row < 0) continue;
    ++buffers.num_versions.mut(static_cast<std::size_t>(row));
    buffers.last_op.mut(static_cast<std::size_t>(row)) = static_cast<std::int32_t>(op);
  }
}

}  // namespace tl
