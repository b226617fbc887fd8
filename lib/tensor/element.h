#pragma once

#include <cstdint>
#include <string>

#include "tensor/host_tensor.h"

namespace tl {

/// The element with the given row-major index, decoded as by decode_doubles. Throws Error(kInternal) out of range.
double element_as_double(const HostTensor& tensor, std::int64_t linear_index);

/// The element with the given row-major index for a reader: integers exactly, `true`/`false`, floats with 6 significant
/// digits (`nan`, `inf`, `-inf` for the others), complex numbers as `1.5-2j`.
std::string format_element(const HostTensor& tensor, std::int64_t linear_index);

}  // namespace tl
