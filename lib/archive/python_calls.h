#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace tl {

/// Where `line`, one line of Python, calls `func_name` by name or by the operator that Python spells it with: offsets
/// into the line, ascending. `relu` counts in `F.relu(x)` and `x.relu_()`, `add` also as a binary `+` or `+=`.
/// Comments, string literals, signs, unpacking (`*args`) and operators within subscripts, which reckon indices, do not
/// count. Empty where the line is no Python as far as core/python_tokens.h reads it.
std::vector<std::size_t> calls_in_line(std::string_view line, std::string_view func_name);

}  // namespace tl
