#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/host_tensor.h"

namespace tl {

/// True if every value of the dtype is a float without rounding: bool, f8, f16, bf16, f32, and integers up to 16 bits.
bool exact_in_float(DType dtype);

/// The values of packed elements as floats, for dtypes that are exact_in_float; `packed` holds values.size() elements
/// and may be unaligned. Quantised integers decode as the integers they store; bool as 0 or 1.
void decode_floats(DType dtype, std::span<const std::byte> packed, std::span<float> values);

/// As decode_floats for every dtype. 64-bit integers round to the nearest double, complex numbers decode as their
/// absolute value, dtypes of several values a byte (bits, f4x2, quint4x2) as their raw bytes.
void decode_doubles(DType dtype, std::span<const std::byte> packed, std::span<double> values);

/// decode_doubles of every element of a tensor, in row-major order.
std::vector<double> all_doubles(const HostTensor& tensor);

/// IEEE half precision to float; NaN stays NaN.
float float_from_f16(std::uint16_t bits);

}  // namespace tl
