#pragma once

#include <string>

#include "core/error.h"
#include "trace/sparse_recording.h"

namespace tl {

/// What the steps of postprocess rely on beyond check_columns, which must have passed: rows are numbered as events,
/// outputs come last, columns that steps fill are empty, events do not refer to shapes of payloads, strides have the
/// rank of their sizes. Throws Error(code) that names `where`, the column, the row and both numbers.
void check_sparse(const SparseRecording& recording, ErrorCode code, const std::string& where);

}  // namespace tl
