#pragma once

#include <cstddef>
#include <span>

#include "select/fields.h"

namespace tl {

std::span<const Field> conditional_fields();
std::span<const Field> conditional_arm_fields();
std::span<const Field> branch_fields();

// Fields of ops.
void set_branch_stack(const FieldContext& context, std::size_t row, FieldValue& value);
void set_conditional_depth(const FieldContext& context, std::size_t row, FieldValue& value);
void set_bool_value(const FieldContext& context, std::size_t row, FieldValue& value);
void set_bool_context(const FieldContext& context, std::size_t row, FieldValue& value);

}  // namespace tl
