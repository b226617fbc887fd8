#pragma once

#include <cstdint>

#include "trace/tables.h"

namespace tl {

/// Bit of ops.flags beside those of OpFlag: every element of the value was looked at, and none is NaN or Inf.
inline constexpr std::uint32_t kOpFinite = 1u << 16;

/// What a recording knows of NaN and Inf in the value of an Op.
enum class Finiteness : std::uint8_t { kUnknown, kFinite, kNonFinite };

/// As ops.flags says: kOpNonFinite where what was looked at holds one, kOpFinite where all was looked at and nothing
/// was found, neither where that is not known.
constexpr Finiteness finiteness_of(std::uint32_t flags) {
  if ((flags & kOpNonFinite) != 0) return Finiteness::kNonFinite;
  return (flags & kOpFinite) != 0 ? Finiteness::kFinite : Finiteness::kUnknown;
}

}  // namespace tl
