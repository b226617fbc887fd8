#pragma once

#include <string>

#include "tensor/tensor_ref.h"
#include "trace/trace.h"

namespace tl::cli {

/// `f32[2,4] n=8 [-1.462 .. 0.1127] mean=-0.21 sd=0.5`, with counts of NaN and Inf where there are any; for a payload
/// that was not kept or cannot be summarised the reason in parentheses.
std::string payload_glance(const Trace& trace, OpId op);

/// The same for a tensor at hand; `type` (`f32[2,4]`) stands at its head.
std::string tensor_glance(const std::string& type, const TensorRef& tensor);

}  // namespace tl::cli
