#pragma once

#include <string>

#include "trace/trace.h"

namespace tl::cli {

/// `f32[2,4] n=8 [-1.462 .. 0.1127] mean=-0.21 sd=0.5`, with counts of NaN and Inf where there are any; for a payload
/// that was not kept or cannot be summarised the reason in parentheses.
std::string payload_glance(const Trace& trace, OpId op);

}  // namespace tl::cli
