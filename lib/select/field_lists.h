#pragma once

#include <span>

#include "select/fields.h"

namespace tl {

// The fields under Python TorchLens's names, a list a table; fields.cpp adds the other columns.
std::span<const Field> op_fields();

}  // namespace tl
