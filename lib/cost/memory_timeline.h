#pragma once

#include <cstdint>
#include <vector>

#include "trace/trace.h"

namespace tl {

/// The memory that activations take while the model runs, as it would be if each were freed after its last reader:
/// a value lives from its production to the last Op that reads it or a view of it; what the model returns lives to the
/// end. Views and in-place results share the memory of their first argument; parameters and buffers are not counted.
struct MemoryTimeline {
  std::vector<std::int64_t> live_bytes;  ///< a row an Op: alive once it has produced, its arguments included
  std::int64_t peak_bytes = 0;
  OpId peak_op;                  ///< the first Op at the peak; none without Ops
  std::int64_t total_bytes = 0;  ///< all activations together, as if none were freed or shared (activation_memory)
};

/// Linear in Ops and edges. Bytes are cut at 2^63 - 1.
MemoryTimeline memory_timeline(const Trace& trace);

}  // namespace tl
