#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "trace/trace.h"

namespace tl {

/// Looks at every kept floating-point payload once and marks Ops whose value holds NaN or an infinity (kOpNonFinite).
/// Sets run.health: nonfinite_checked, and nonfinite with the label of every first producer, an Op that is not finite
/// while all its parents are. Does nothing for a trace without payloads.
/// `seen` says of a row of payloads that is not at hand any more whether it held one; nullopt where it does not know.
void check_finite(Trace& trace, const std::function<std::optional<bool>(std::size_t row)>& seen = {});

}  // namespace tl
