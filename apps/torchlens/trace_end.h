#pragma once

#include <optional>
#include <string>

#include "core/error.h"
#include "engine/supervisor.h"
#include "output.h"
#include "trace/trace.h"

namespace tl::cli {

/// How a run ended, for messages and exit code.
struct RunEnd {
  std::optional<Interrupted> stopped_by;
  double timeout_seconds = 0;  ///< --timeout
};

/// nullopt for a run that came to its end, or halted where it was told to.
std::optional<ErrorCode> end_code(const Outcome& outcome, const RunEnd& end);
/// One sentence: what happened, where, after how much.
std::string end_message(const RunInfo& run, const RunEnd& end);
/// The lines below it: the operation and what it was given, module, place in the source, shape, parents.
void print_end_details(Output& out, const Trace& trace);

}  // namespace tl::cli
