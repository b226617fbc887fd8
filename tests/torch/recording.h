#pragma once

#include <cstdint>

#include "torch/zoo_files.h"
#include "trace/trace.h"

namespace tl::test {

/// Loads a file with the engine of this process, runs it once on its inputs and postprocesses what was recorded.
Trace record_file(const ZooFile& file, std::int64_t seed);

}  // namespace tl::test
