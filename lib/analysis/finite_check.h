#pragma once

#include "trace/trace.h"

namespace tl {

/// Looks at every kept floating-point payload once and marks Ops whose value holds NaN or an infinity (kOpNonFinite).
/// Sets run.health: nonfinite_checked, and nonfinite with the label of every first producer, an Op that is not finite
/// while all its parents are. Does nothing for a trace without payloads.
void check_finite(Trace& trace);

}  // namespace tl
