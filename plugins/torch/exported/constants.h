#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>

#include <optional>
#include <string>

#include "archive/exported_program.h"

namespace tl::lt {

/// A constant argument as a value of the schema's type: numbers in Tensor positions become wrapped numbers, devices
/// become `device`. nullopt where it does not fit. `list_size` is the N of `int[N]`, for which one number stands for N.
std::optional<c10::IValue> constant_of(const ExportedArgument& argument, const c10::TypePtr& type,
                                       const c10::Device& device, std::optional<std::int32_t> list_size = {});

/// True if some value of the graph stands in the argument.
bool has_ref(const ExportedArgument& argument);

/// A number as LibTorch treats one that stands where a tensor is expected: 0-d, and without a say in type promotion.
at::Tensor wrapped_number(const c10::IValue& number);

}  // namespace tl::lt
