#pragma once

#include "core/ids.h"
#include "tensor/tensor_ref.h"

namespace tl {

struct Trace;

/// The value of an Op, for commands that need all of it. Throws Error(kActivationNotSaved) where the recording has
/// less: a sample, statistics, its shape; says which, and what to trace it with.
TensorRefPtr saved_value(const Trace& trace, OpId op);

}  // namespace tl
