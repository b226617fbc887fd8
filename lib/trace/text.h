#pragma once

#include <string>
#include <string_view>

#include "trace/trace.h"

namespace tl {

struct TextOptions {
  bool stable = true;  ///< leaves out what differs between equal runs: wall times
};

/// The trace as text, one row a line (docs/trace-text.md). Rows refer to each other by label; what is derived (row
/// numbers, begins of ranges, labels) and values that are the default are left out. Payload bytes are not part of it.
/// The columns must be in range (trace/invariants.h); labels need not be unique.
std::string to_text(const Trace& trace, const TextOptions& options = {});

/// Reads what to_text wrote, or what a person wrote in that form. to_text(trace_from_text(t)) == t for every t that
/// to_text gave. Row numbers given as `#n` are taken as they stand, so check_invariants decides whether the trace is
/// sound. Throws Error(kTextSyntax) with the line number.
Trace trace_from_text(std::string_view text);

}  // namespace tl
