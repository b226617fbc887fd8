#include "tensor/element.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "tensor/decode.h"
#include "tensor/strided_copy.h"

namespace tl {
namespace {

/// The bytes of one element; at most 16.
std::array<std::byte, 16> element_bytes(const HostTensor& tensor, std::int64_t linear_index) {
  std::array<std::byte, 16> bytes{};
  copy_elements(tensor, linear_index, 1, bytes);
  return bytes;
}

template <typename T>
T load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

std::string format_double(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 6).ptr;
  return {text.data(), end};
}

std::string format_complex(double real, double imaginary) {
  const std::string imaginary_text = format_double(imaginary);
  const bool has_sign = imaginary_text.front() == '-';
  return format_double(real) + (has_sign ? "" : "+") + imaginary_text + "j";
}

}  // namespace

double element_as_double(const HostTensor& tensor, std::int64_t linear_index) {
  const auto bytes = element_bytes(tensor, linear_index);
  double value = 0;
  decode_doubles(tensor.dtype, bytes, {&value, 1});
  return value;
}

std::string format_element(const HostTensor& tensor, std::int64_t linear_index) {
  const auto bytes = element_bytes(tensor, linear_index);
  const std::byte* data = bytes.data();
  switch (tensor.dtype) {
    case DType::kBool:
      return load<std::uint8_t>(data) != 0 ? "true" : "false";
    case DType::kI64:
      return std::to_string(load<std::int64_t>(data));
    case DType::kU64:
      return std::to_string(load<std::uint64_t>(data));
    case DType::kC32:
      return format_complex(static_cast<double>(float_from_f16(load<std::uint16_t>(data))),
                            static_cast<double>(float_from_f16(load<std::uint16_t>(data + 2))));
    case DType::kC64:
      return format_complex(static_cast<double>(load<float>(data)), static_cast<double>(load<float>(data + 4)));
    case DType::kC128:
      return format_complex(load<double>(data), load<double>(data + 8));
    default:
      break;
  }
  double value = 0;
  decode_doubles(tensor.dtype, bytes, {&value, 1});
  return is_floating(tensor.dtype) ? format_double(value) : std::to_string(static_cast<std::int64_t>(value));
}

}  // namespace tl
