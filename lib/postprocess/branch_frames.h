#pragma once

#include <cstddef>
#include <cstdint>

#include "postprocess/source_places.h"
#include "trace/trace.h"

namespace tl {

/// One run of a function body: a module call, the chain of calls inside its forward, and the text of the function.
struct Frame {
  std::int32_t module_call = -1;
  std::int32_t site_context = -1;
  std::int32_t text = -1;
};

/// Where an Op is, seen from a frame: not in it; in it, but the file does not say at which place; at a byte of its
/// text.
struct FramePosition {
  enum class Kind : std::uint8_t { kOutside, kSomewhere, kAt };
  Kind kind = Kind::kOutside;
  std::uint32_t at = 0;
};

/// Follows the calls from an Op up to the frame: what counts is the place in the frame's own text from which it was
/// called. Time: the depth of the calls.
FramePosition position_in_frame(const Trace& trace, SourcePlaces& places, std::size_t op, const Frame& frame);

}  // namespace tl
