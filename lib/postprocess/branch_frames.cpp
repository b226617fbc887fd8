#include "postprocess/branch_frames.h"

namespace tl {
namespace {

FramePosition at_site(SourcePlaces& places, std::int32_t call_site, const Frame& frame) {
  const auto& place = places.place(call_site);
  if (place.text < 0 || place.text != frame.text) return {FramePosition::Kind::kSomewhere, 0};
  return {FramePosition::Kind::kAt, place.begin};
}

}  // namespace

FramePosition position_in_frame(const Trace& trace, SourcePlaces& places, std::size_t op, const Frame& frame) {
  const auto& calls = trace.module_calls;
  if (trace.ops.kind[op] == static_cast<std::uint8_t>(OpKind::kOutput)) return {};
  auto call = trace.ops.module_call[op];
  if (call != frame.module_call) {
    while (call >= 0 && calls.parent_call[static_cast<std::size_t>(call)] != frame.module_call) {
      call = calls.parent_call[static_cast<std::size_t>(call)];
    }
    if (call < 0) return {};
    return at_site(places, calls.call_site[static_cast<std::size_t>(call)], frame);
  }
  const auto instruction = trace.ops.instruction[op];
  auto site = instruction < 0 ? -1 : trace.instructions.call_site[static_cast<std::size_t>(instruction)];
  auto context = trace.ops.site_context[op];
  while (context != frame.site_context) {
    if (context < 0) return {};
    site = trace.site_contexts.call_site[static_cast<std::size_t>(context)];
    context = trace.site_contexts.parent[static_cast<std::size_t>(context)];
  }
  return at_site(places, site, frame);
}

}  // namespace tl
