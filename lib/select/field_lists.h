#pragma once

#include <span>

#include "select/fields.h"

namespace tl {

/// The fields of a table under Python TorchLens's names; fields.cpp adds the other columns.
std::span<const Field> named_fields(TableId table);

/// Those of ops.
std::span<const Field> op_fields();

}  // namespace tl
