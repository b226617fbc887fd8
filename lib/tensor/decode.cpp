#include "tensor/decode.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <type_traits>

#include "core/error.h"
#include "tensor/block_kernels.h"

namespace tl {
namespace {

using enum DType;

constexpr double power_of_two(int exponent) {
  double value = 1.0;
  for (; exponent > 0; --exponent) value *= 2.0;
  for (; exponent < 0; ++exponent) value *= 0.5;
  return value;
}

/// What the reserved codes of an 8-bit float mean.
enum class F8Special {
  kIeee,               ///< all-ones exponent: infinity and NaN (e5m2)
  kAllOnesIsNan,       ///< no infinity, S.1111.111 is NaN (e4m3fn)
  kNegativeZeroIsNan,  ///< no infinity, no -0, 0x80 is NaN (fnuz)
};

constexpr std::array<float, 256> f8_table(int mantissa_bits, int bias, F8Special special) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  std::array<float, 256> table{};
  const int exponent_ones = (1 << (7 - mantissa_bits)) - 1;
  const int mantissa_ones = (1 << mantissa_bits) - 1;
  for (int code = 0; code < 256; ++code) {
    const int exponent = (code & 0x7f) >> mantissa_bits;
    const int mantissa = code & mantissa_ones;
    const double fraction = mantissa * power_of_two(-mantissa_bits);
    double magnitude =
        exponent == 0 ? fraction * power_of_two(1 - bias) : (1 + fraction) * power_of_two(exponent - bias);
    if (special == F8Special::kIeee && exponent == exponent_ones) {
      magnitude = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    }
    const bool nan = (special == F8Special::kAllOnesIsNan && (code & 0x7f) == 0x7f) ||
                     (special == F8Special::kNegativeZeroIsNan && code == 0x80);
    table[static_cast<std::size_t>(code)] = nan ? kNan : static_cast<float>(code < 128 ? magnitude : -magnitude);
  }
  return table;
}

constexpr std::array<float, 256> e8m0_table() {
  std::array<float, 256> table{};
  for (int code = 0; code < 255; ++code)
    table[static_cast<std::size_t>(code)] = static_cast<float>(power_of_two(code - 127));
  table[255] = std::numeric_limits<float>::quiet_NaN();
  return table;
}

constexpr std::array kE5M2 = f8_table(2, 15, F8Special::kIeee);
constexpr std::array kE4M3 = f8_table(3, 7, F8Special::kAllOnesIsNan);
constexpr std::array kE5M2FNUZ = f8_table(2, 16, F8Special::kNegativeZeroIsNan);
constexpr std::array kE4M3FNUZ = f8_table(3, 8, F8Special::kNegativeZeroIsNan);
constexpr std::array kE8M0 = e8m0_table();

/// Without branches, so that the loop over a block vectorises; subnormals by a subtraction of normal numbers, so that
/// a thread that flushes subnormals to zero gets the same values.
inline float widen_f16(std::uint16_t bits) {
  constexpr std::uint32_t kRebias = 112U << 23;
  constexpr std::uint32_t kSmallestNormal = 113U << 23;
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t magnitude = static_cast<std::uint32_t>(bits & 0x7fffU) << 13;
  const std::uint32_t exponent = bits & 0x7c00U;
  const auto subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude + kSmallestNormal) -
                                                      std::bit_cast<float>(kSmallestNormal));
  const std::uint32_t normal = magnitude + kRebias + (exponent == 0x7c00U ? kRebias : 0U);
  return std::bit_cast<float>(sign | (exponent == 0 ? subnormal : normal));
}

template <typename Stored, typename Value, typename Convert>
void convert_each(std::span<const std::byte> packed, std::span<Value> values, Convert convert) {
  const std::byte* source = packed.data();
  for (std::size_t i = 0; i < values.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, source + i * sizeof(Stored), sizeof(Stored));
    values[i] = convert(stored);
  }
}

template <typename Stored, typename Value>
void cast_each(std::span<const std::byte> packed, std::span<Value> values) {
  convert_each<Stored>(packed, values, [](Stored stored) { return static_cast<Value>(stored); });
}

template <typename Value>
void look_up_each(std::span<const std::byte> packed, std::span<Value> values, const std::array<float, 256>& table) {
  convert_each<std::uint8_t>(packed, values, [&](std::uint8_t code) { return static_cast<Value>(table[code]); });
}

/// Absolute values of pairs (real, imaginary) of Part, which is narrower than double, so that squares cannot overflow;
/// infinite if a part is, even beside a NaN, like hypot.
template <typename Part, typename Widen>
void absolute_each(std::span<const std::byte> packed, std::span<double> values, Widen widen) {
  convert_each<std::array<Part, 2>>(packed, values, [&](std::array<Part, 2> pair) {
    const auto real = static_cast<double>(widen(pair[0]));
    const auto imaginary = static_cast<double>(widen(pair[1]));
    const double magnitude = std::sqrt(real * real + imaginary * imaginary);
    return std::isnan(magnitude) ? std::hypot(real, imaginary) : magnitude;
  });
}

/// The dtypes that are exact in float, as Value (float or double); false for the others.
template <typename Value>
bool decode_narrow(DType dtype, std::span<const std::byte> packed, std::span<Value> values) {
  switch (dtype) {
    case kBool:
      convert_each<std::uint8_t>(packed, values, [](std::uint8_t byte) { return byte != 0 ? Value{1} : Value{0}; });
      return true;
    case kU8:
    case kQU8:
      cast_each<std::uint8_t>(packed, values);
      return true;
    case kI8:
    case kQI8:
      cast_each<std::int8_t>(packed, values);
      return true;
    case kI16:
      cast_each<std::int16_t>(packed, values);
      return true;
    case kU16:
      cast_each<std::uint16_t>(packed, values);
      return true;
    case kF16:
      if constexpr (std::is_same_v<Value, float>) {
        float_kernels().widen_f16(packed.data(), values.data(), values.size());
      } else {
        convert_each<std::uint16_t>(packed, values,
                                    [](std::uint16_t bits) { return static_cast<Value>(widen_f16(bits)); });
      }
      return true;
    case kBF16:
      if constexpr (std::is_same_v<Value, float>) {
        float_kernels().widen_bf16(packed.data(), values.data(), values.size());
      } else {
        convert_each<std::uint16_t>(packed, values, [](std::uint16_t bits) {
          return static_cast<Value>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
        });
      }
      return true;
    case kF32:
      cast_each<float>(packed, values);
      return true;
    case kF8E5M2:
      look_up_each(packed, values, kE5M2);
      return true;
    case kF8E4M3:
      look_up_each(packed, values, kE4M3);
      return true;
    case kF8E5M2FNUZ:
      look_up_each(packed, values, kE5M2FNUZ);
      return true;
    case kF8E4M3FNUZ:
      look_up_each(packed, values, kE4M3FNUZ);
      return true;
    case kF8E8M0:
      look_up_each(packed, values, kE8M0);
      return true;
    default:
      return false;
  }
}

}  // namespace

float float_from_f16(std::uint16_t bits) { return widen_f16(bits); }

bool exact_in_float(DType dtype) { return decode_narrow<float>(dtype, {}, {}); }

void decode_floats(DType dtype, std::span<const std::byte> packed, std::span<float> values) {
  TL_CHECK(packed.size() >= values.size() * item_bytes(dtype), "there are as many elements as values asked for");
  TL_CHECK(decode_narrow(dtype, packed, values), "the dtype is exact in float");
}

void decode_doubles(DType dtype, std::span<const std::byte> packed, std::span<double> values) {
  TL_CHECK(packed.size() >= values.size() * item_bytes(dtype), "there are as many elements as values asked for");
  if (decode_narrow(dtype, packed, values)) return;
  switch (dtype) {
    case kI32:
    case kQI32:
      return cast_each<std::int32_t>(packed, values);
    case kU32:
      return cast_each<std::uint32_t>(packed, values);
    case kI64:
      return cast_each<std::int64_t>(packed, values);
    case kU64:
      return cast_each<std::uint64_t>(packed, values);
    case kF64:
      return cast_each<double>(packed, values);
    case kC32:
      return absolute_each<std::uint16_t>(packed, values, widen_f16);
    case kC64:
      return absolute_each<float>(packed, values, std::identity{});
    case kC128:
      return convert_each<std::array<double, 2>>(
          packed, values, [](std::array<double, 2> pair) { return std::hypot(pair[0], pair[1]); });
    case kQU4x2:
    case kQU2x4:
    case kBits1x8:
    case kBits2x4:
    case kBits4x2:
    case kBits8:
    case kF4x2:
      return cast_each<std::uint8_t>(packed, values);
    case kBits16:
      return cast_each<std::uint16_t>(packed, values);
    default:
      TL_CHECK(false, "every dtype with elements has a decoder");
  }
}

std::vector<double> all_doubles(const HostTensor& tensor) {
  const auto packed = to_contiguous(tensor);
  std::vector<double> values(static_cast<std::size_t>(packed.numel()));
  const auto begin = static_cast<std::size_t>(packed.offset) * item_bytes(packed.dtype);
  decode_doubles(packed.dtype, packed.storage.subspan(begin, packed.nbytes()), values);
  return values;
}

}  // namespace tl
