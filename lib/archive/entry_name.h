#pragma once

#include <string>
#include <string_view>

namespace tl {

/// A name from a file as messages show it: in quotes, escaped for terminals, long ones cut.
std::string quoted_name(std::string_view name);

/// Why a name is unsafe to use as a relative path (absolute, `..`, control characters …); empty if it is safe.
std::string_view unsafe_name_reason(std::string_view name);

}  // namespace tl
