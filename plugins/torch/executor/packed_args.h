#pragma once

#include <ATen/core/ivalue.h>

#include "trace/args.h"

namespace tl::lt {

/// How a host value is packed into the words of trace/args.h.
ArgTag tag_of(const c10::IValue& value);

}  // namespace tl::lt
