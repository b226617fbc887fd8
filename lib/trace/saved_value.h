#pragma once

#include <string_view>

#include "core/ids.h"
#include "tensor/tensor_ref.h"

namespace tl {

struct Trace;

/// On what the recorded value of an Op rests: full, sampled, statistics, shape (docs/saving.md).
std::string_view evidence_name(const Trace& trace, OpId op);

/// The value of an Op, for commands that need all of it. Throws Error(kActivationNotSaved) where the recording has
/// less: a sample, statistics, its shape; says which, and what to trace it with.
TensorRefPtr saved_value(const Trace& trace, OpId op);

}  // namespace tl
