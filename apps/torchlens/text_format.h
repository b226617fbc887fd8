#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tensor/dtype.h"

namespace tl::cli {

/// A number with so many significant digits, as printf's %g, independent of the locale.
std::string format_number(double value, int digits);
/// 1,64,112,112
std::string format_sizes(std::span<const std::int64_t> sizes);
/// f32[1,3,224,224]
std::string format_type(DType dtype, std::span<const std::int64_t> sizes);
/// `1 op`, `2 ops`
std::string counted(std::int64_t count, std::string_view noun);

/// An argument as a shell takes it: quoted where it must be.
std::string shell_quoted(std::string_view argument);

}  // namespace tl::cli
