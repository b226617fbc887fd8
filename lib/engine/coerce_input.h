#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/input_value.h"

namespace tl {

/// `value` as an argument of type `type`: containers take the type's form (a list for a tuple, a tuple for a list), a
/// 0-d tensor becomes an int, float or bool and an int a float where that loses nothing. nullopt where it does not fit;
/// each reason is appended to `misfits`, headed by `path`.
std::optional<InputValue> coerce_input(const InputValue& value, const TypeNode& type, const std::string& path,
                                       std::vector<std::string>& misfits);

/// Compares a tensor with what the file states of its argument; appends what differs.
void check_expectation(const HostTensor& tensor, const TensorExpectation& expected, const std::string& path,
                       std::vector<std::string>& misfits);

}  // namespace tl
