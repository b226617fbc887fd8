#pragma once

#include <cstdint>

#include "engine/engine.h"
#include "torch/zoo_files.h"
#include "trace/trace.h"

namespace tl::test {

/// The engine of this process.
Engine& engine();

/// Loads a file with the engine of this process, runs it once on its inputs and postprocesses what was recorded.
Trace record_file(const ZooFile& file, std::int64_t seed);

}  // namespace tl::test
