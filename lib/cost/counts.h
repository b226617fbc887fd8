#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace tl {

/// A count that may be unknown. Sums and products with an unknown part, or beyond 2^63 - 1, are unknown.
using Count = std::optional<std::int64_t>;

inline Count plus(Count a, Count b) {
  std::int64_t sum = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &sum)) return {};
  return sum;
}

inline Count times(Count a, Count b) {
  std::int64_t product = 0;
  if (!a || !b || __builtin_mul_overflow(*a, *b, &product)) return {};
  return product;
}

/// Number of elements; unknown where a size is negative or the product is too large.
inline Count numel(std::span<const std::int64_t> sizes) {
  std::int64_t count = 1;
  bool empty = false;
  for (const auto size : sizes) {
    if (size < 0) return {};
    empty |= size == 0;
    if (!empty && __builtin_mul_overflow(count, size, &count)) return {};
  }
  return empty ? 0 : count;
}

/// a + b for counts that are not negative, no more than 2^63 - 1: a total that is cut there is still a lower bound.
inline std::int64_t saturating_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
}

}  // namespace tl
