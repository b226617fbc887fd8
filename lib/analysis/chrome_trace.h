#pragma once

#include <functional>
#include <string_view>

#include "trace/trace.h"

namespace tl {

/// Takes pieces of a text, in order.
using TextSink = std::function<void(std::string_view)>;

/// The run as a document of the Trace Event Format, which Perfetto and chrome://tracing open: calls of modules as
/// nested B and E events, each call of an operator as an X event inside with its label, types, module, place and cost,
/// and a counter of the live activations (memory_timeline.h). A recording keeps how long things took, not when they
/// began: they are laid end to end, and what a module took beyond its parts comes last in it. Without measured times,
/// or where `stable`, every call takes one microsecond. Timestamps never decrease. Linear in Ops and calls.
void write_chrome_trace(const Trace& trace, bool stable, const TextSink& sink);

}  // namespace tl
