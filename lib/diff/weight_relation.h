#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "diff/report.h"
#include "tensor/host_tensor.h"

namespace tl {

/// A number of blocks that an axis may be made of, and what they are called.
struct BlockHint {
  std::int64_t axis = 0;
  std::int64_t count = 0;
  std::string name;  ///< heads, gates
};

/// How a parameter of the subject comes from one of the reference of the same element type, if in a way that leaves the
/// elements what they are: blocks along one axis in another order (those of `hints` before others, then the fewest),
/// axes in another order, another shape; the same elements otherwise; or all scaled by one number, rounded to bf16, set
/// to one value. Elements are compared bit for bit, but for scaled ones. `relation` is kOther where it is none of
/// these. Time is linear in the elements, times the number of divisors of the sizes where the elements are the same.
WeightDifference relate_weights(const HostTensor& reference, const HostTensor& subject,
                                std::span<const BlockHint> hints = {});

/// `difference` in words, without the names: rows in blocks of 8 are in another order (heads): 0 2 1 3.
std::string words_of(const WeightDifference& difference, std::size_t rank);

}  // namespace tl
