#pragma once

#include <cstddef>
#include <vector>

#include "core/source_text.h"
#include "trace/trace.h"

namespace tl {

/// A recording of which only the first steps were taken (postprocess/pipeline.h): rows in the order of events, outputs
/// last, without orphans removed, Layers, labels or distances. Its payloads are settled, so that it can be stored.
struct SparseRecording {
  Trace trace;
  std::size_t event_shapes = 0;  ///< shapes of the pool that events refer to; what follows is of the payloads' rows
  std::vector<SourceText> sources = {};  ///< texts of the model's functions, by which branches will be named
};

}  // namespace tl
