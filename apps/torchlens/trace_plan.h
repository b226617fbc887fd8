#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "archive/model_kind.h"
#include "engine/given_inputs.h"
#include "save_plan.h"
#include "tlspec/manifest.h"
#include "trace_options.h"

namespace tl::cli {

/// What a run of `trace` needs, checked as far as files go: nothing was loaded or executed yet.
struct TracePlan {
  TraceOptions options;
  ModelFileInfo file;
  std::filesystem::path output;
  Level level = Level::kPortable;
  SavePlan save;
  std::vector<GivenSet> given;  ///< inputs, read
};

/// Where a recording of `model` goes without -o: its name without .ts.pt, .trace.pt, .script.pt, .pt, .pth, .pt2, and
/// `.tlspec`, in the working directory.
std::filesystem::path default_output(const std::filesystem::path& model);

/// Where the recording goes: -o without a slash at its end, else default_output.
std::filesystem::path output_path(const TraceOptions& options);

/// Checks the model's kind, that the outputs can be made, the level against what is saved, and reads the inputs.
/// Throws Error for the first thing that is wrong.
TracePlan plan_trace(const TraceOptions& options);

}  // namespace tl::cli
