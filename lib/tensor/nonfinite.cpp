#include "tensor/nonfinite.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "tensor/decode.h"
#include "tensor/strided_copy.h"

namespace tl {
namespace {

/// True if some word has all bits of `exponent` set: NaN or infinity in the IEEE formats. Written so that it
/// vectorises.
template <typename Word>
bool any_full_exponent(std::span<const std::byte> bytes, Word exponent) {
  constexpr std::size_t kStride = 1024;
  const auto count = bytes.size() / sizeof(Word);
  for (std::size_t begin = 0; begin < count; begin += kStride) {
    const auto end = std::min(count, begin + kStride);
    Word found = 0;
    for (std::size_t i = begin; i < end; ++i) {
      Word word;
      std::memcpy(&word, bytes.data() + i * sizeof(Word), sizeof(Word));
      found |= static_cast<Word>((word & exponent) == exponent ? 1 : 0);
    }
    if (found != 0) return true;
  }
  return false;
}

bool any_nonfinite(DType dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case DType::kF32:
    case DType::kC64:
      return any_full_exponent<std::uint32_t>(bytes, 0x7f800000u);
    case DType::kF64:
    case DType::kC128:
      return any_full_exponent<std::uint64_t>(bytes, 0x7ff0000000000000u);
    case DType::kF16:
    case DType::kC32:
      return any_full_exponent<std::uint16_t>(bytes, 0x7c00u);
    case DType::kBF16:
      return any_full_exponent<std::uint16_t>(bytes, 0x7f80u);
    case DType::kF8E5M2:
      return any_full_exponent<std::uint8_t>(bytes, 0x7c);
    case DType::kF8E4M3:
      return any_full_exponent<std::uint8_t>(bytes, 0x7f);  // all ones is its only NaN
    case DType::kF8E8M0:
      return any_full_exponent<std::uint8_t>(bytes, 0xff);
    case DType::kF8E5M2FNUZ:
    case DType::kF8E4M3FNUZ:
      return std::ranges::find(bytes, std::byte{0x80}) != bytes.end();
    default:
      return false;  // integers
  }
}

}  // namespace

bool holds_nonfinite(const HostTensor& tensor) {
  bool found = false;
  for_each_packed_block(tensor, std::int64_t{1} << 16, [&](std::int64_t, std::span<const std::byte> bytes) {
    found = found || any_nonfinite(tensor.dtype, bytes);
  });
  return found;
}

NonFinite find_nonfinite(const HostTensor& tensor) {
  NonFinite result;
  std::int64_t first_neginf = -1;
  std::vector<double> values;
  for_each_packed_block(tensor, std::int64_t{1} << 12, [&](std::int64_t begin, std::span<const std::byte> bytes) {
    if (!any_nonfinite(tensor.dtype, bytes)) return;
    values.resize(bytes.size() / item_bytes(tensor.dtype));
    decode_doubles(tensor.dtype, bytes, values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::isfinite(values[i])) continue;
      const auto index = begin + static_cast<std::int64_t>(i);
      const bool neginf = values[i] < 0;
      ++(std::isnan(values[i]) ? result.nan : neginf ? result.neginf : result.posinf);
      auto& first = neginf ? first_neginf : result.first;
      if (first < 0) first = index;
    }
  });
  if (result.first < 0) result.first = first_neginf;
  return result;
}

}  // namespace tl
