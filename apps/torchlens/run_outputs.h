#pragma once

#include <filesystem>
#include <vector>

#include "engine/engine.h"
#include "trace/capture.h"
#include "trace/run_info.h"

namespace tl::cli {

/// The returned leaves for the manifest, with range, and the largest entries where the last axis looks like classes (a
/// floating tensor of one row of at least 10). Of bytes that mean nothing, as `capture` knows, the form alone.
std::vector<IoRecord> output_records(const std::vector<OutputValue>& outputs, const Capture& capture);

/// Writes the returned tensors under their structural paths (`output`, `output.0`, `output.logits`); quantised and
/// sparse ones as their parts. The file appears complete or not at all. Throws Error(kOutputFailed).
void save_outputs(const std::vector<OutputValue>& outputs, const std::filesystem::path& target);

}  // namespace tl::cli
