// Before: module_calls lists every call with its range and what it returned first. After: modules.num_calls is counted,
// and kOpModuleOutput is on every Op whose value is returned by the module call it ran in (the root call does not
// count: its values are the outputs). After remove-orphans.
#include <cstdint>

#include "postprocess/step.h"

namespace tl {

void build_modules(StepContext& context) {
  auto& trace = context.trace;
  const auto& calls = trace.module_calls;
  for (std::size_t call = 0; call < calls.module.size(); ++call) {
    if (calls.module[call] >= 0) ++trace.modules.num_calls.mut(static_cast<std::size_t>(calls.module[call]));
    const auto output = calls.output_op[call];
    if (call == 0 || output < 0) continue;
    const auto op = static_cast<std::size_t>(output);
    if (trace.ops.module_call[op] == static_cast<std::int32_t>(call)) trace.ops.flags.mut(op) |= kOpModuleOutput;
  }
}

}  // namespace tl
