#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost/counts.h"
#include "trace/trace.h"

namespace tl {

/// What one Op costs. A call with several outputs counts once: its first Op has it, the others have zero (or, where it
/// is unknown, unknown) and only what they write. Inputs, buffers and outputs cost nothing.
struct OpCost {
  Count flops;                     ///< floating-point operations, a fused multiply-add counted as two
  Count macs;                      ///< fused multiply-adds among them
  std::int64_t bytes_read = 0;     ///< of the distinct tensors it was given, without gaps; none for views
  std::int64_t bytes_written = 0;  ///< of its output; none for views and uninitialised memory
};

/// A row an Op; docs/cost.md has the formulas. Linear in Ops, edges and arguments; safe on any columns that a reader
/// has accepted. Counts beyond 2^63 - 1 are unknown, bytes are cut there.
std::vector<OpCost> op_costs(const Trace& trace);

/// An operator that has no count, and how many calls of it there were.
struct UncountedOperator {
  std::string name;  ///< quantized::conv2d
  std::int64_t calls = 0;
};

/// Sums over the whole recording. FLOPs and MACs are lower bounds where `uncounted` is not empty.
struct CostTotals {
  std::int64_t flops = 0;
  std::int64_t macs = 0;
  std::int64_t bytes_read = 0;
  std::int64_t bytes_written = 0;
  std::vector<UncountedOperator> uncounted;  ///< by first call
  bool is_lower_bound() const { return !uncounted.empty(); }
};
CostTotals cost_totals(const Trace& trace, const std::vector<OpCost>& costs);

/// Bytes of an Op's value without gaps (activation_memory); cut at 2^63 - 1.
std::int64_t activation_bytes(const Trace& trace, OpId op);

/// Whether the Op is the first recorded output of its call.
bool is_first_output(const Trace& trace, OpId op);

}  // namespace tl
