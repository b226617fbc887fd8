#pragma once

#include <cstddef>

#include "command.h"
#include "save_plan.h"
#include "trace/trace.h"

namespace tl::cli {

/// What every choice of --save would take, from a run that kept nothing: ops, values, bytes.
void print_dry_run(Context& context, const Trace& trace, const SavePlan& save, std::size_t budget_bytes);

}  // namespace tl::cli
