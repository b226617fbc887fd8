#pragma once

#include <filesystem>

#include "command.h"
#include "tlspec/writer.h"
#include "trace/sparse_recording.h"
#include "trace_options.h"

namespace tl::cli {

/// Throws Error(kSparseConflict) for options that need what `trace --sparse` leaves undone.
void check_sparse_options(const TraceOptions& options);

/// What `trace --sparse` tells: how much was recorded, where it is, what to type next. `ok`: the run came to its end.
void report_sparse(Context& context, const Trace& trace, const std::filesystem::path& output,
                   const WriteReport& written, bool ok);

}  // namespace tl::cli
