#pragma once

#include <cstdint>
#include <vector>

#include "cost/op_costs.h"
#include "cost/parameters.h"
#include "trace/trace.h"

namespace tl {

/// Sums over some Ops.
struct CostSum {
  std::int64_t num_ops = 0;          ///< operations, one an output
  std::int64_t flops = 0;            ///< a lower bound where uncounted_calls > 0
  std::int64_t macs = 0;             ///< likewise
  std::int64_t uncounted_calls = 0;  ///< calls without a count
  std::int64_t bytes_read = 0;
  std::int64_t bytes_written = 0;
  std::int64_t activation_bytes = 0;  ///< of the values of the operations, views included
  std::int64_t saved_bytes = 0;       ///< payloads that were first produced there
  double seconds = 0;                 ///< wall time; volatile
};
CostSum& operator+=(CostSum& sum, const CostSum& other);

/// What the calls of one module come to.
struct ModuleCost {
  CostSum inclusive;  ///< with the modules it calls
  CostSum exclusive;  ///< its own operations only
  ModuleParams params;
};

struct ModuleCosts {
  std::vector<ModuleCost> modules;  ///< a row a module, over all its calls
  std::vector<CostSum> calls;       ///< a row a module call, inclusive
};

/// The cost of one Op as a sum; of an Op that is no operation, its saved bytes only.
CostSum cost_of_op(const Trace& trace, const std::vector<OpCost>& costs, OpId op);

/// A call of a module inside a call of itself counts once in it. Seconds of calls are those measured around them, where
/// the recording has them, else the sum over their Ops. Linear in Ops and calls.
ModuleCosts module_costs(const Trace& trace, const std::vector<OpCost>& costs);

}  // namespace tl
