#pragma once

#include <ATen/core/ivalue.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tl::lt {

/// A function of Python on host numbers that an exported graph calls by name.
struct PythonFunction {
  std::size_t min_arguments = 0;
  std::size_t max_arguments = 0;
  std::string short_name;  ///< add, sym_max
  std::function<c10::IValue(const std::vector<c10::IValue>&)> call;
};

/// The function of that name: `_operator.add`, `torch.sym_max`, `math.trunc` …; nullptr if this build has none.
/// Integers are 64-bit: an overflow raises instead of wrapping or growing. `//` and `%` round to minus infinity as in
/// Python.
const PythonFunction* python_function(std::string_view target);

}  // namespace tl::lt
