#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tl {

/// Unsigned little-endian number of `count` ≤ 8 bytes at `offset`; the caller has checked that they are there.
inline std::uint64_t little_endian_at(std::span<const std::byte> bytes, std::size_t offset, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value |= std::to_integer<std::uint64_t>(bytes[offset + i]) << (8 * i);
  return value;
}

/// True if [offset, offset + count) lies inside `total` bytes; cannot overflow.
constexpr bool range_fits(std::uint64_t offset, std::uint64_t count, std::uint64_t total) {
  return offset <= total && count <= total - offset;
}

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace tl
