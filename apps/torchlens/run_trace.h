#pragma once

#include "command.h"
#include "engine/engine.h"
#include "trace_plan.h"

namespace tl::cli {

/// Loads, runs and records the model of the plan with `engine`, postprocesses, writes the recording and prints the
/// first screen. Returns 0, or the exit code of a run that did not complete (5 raised, 130 Ctrl-C, 143 stopped); its
/// recording is kept, marked as partial. Keeps the phase in `slate`.
int run_trace(const TracePlan& plan, Engine& engine, Context& context, CrashSlate& slate);

}  // namespace tl::cli
