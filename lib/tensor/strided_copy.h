#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/host_tensor.h"

namespace tl {

/// Copies the row-major elements [begin, begin + count) of `tensor`, packed, to the start of `out`, which must hold
/// `count` elements. The tensor must fit its storage. Runs of neighbouring elements are copied at once, transposed
/// layouts in tiles.
void copy_elements(const HostTensor& tensor, std::int64_t begin, std::int64_t count, std::span<std::byte> out);

/// Throws Error(kInternal) unless the dtype has a size and every element lies inside the tensor's own storage.
void check_readable(const HostTensor& tensor);

/// Calls visit(begin, packed) for consecutive row-major stretches of at most `block` elements, in order: `begin` is the
/// index of the first element, `packed` the elements without gaps. They are copied only where the layout has gaps.
/// `packed` may be unaligned for the dtype. `block` must be positive.
template <typename Visit>
void for_each_packed_block(const HostTensor& tensor, std::int64_t block, Visit&& visit) {
  check_readable(tensor);
  const std::int64_t numel = tensor.numel();
  const std::size_t item = item_bytes(tensor.dtype);
  const bool packed = tensor.is_contiguous();
  std::vector<std::byte> buffer(packed ? 0 : static_cast<std::size_t>(std::min(block, numel)) * item);
  for (std::int64_t begin = 0; begin < numel; begin += block) {
    const std::int64_t count = std::min(block, numel - begin);
    const std::size_t bytes = static_cast<std::size_t>(count) * item;
    if (packed) {
      visit(begin, tensor.storage.subspan(static_cast<std::size_t>(tensor.offset + begin) * item, bytes));
    } else {
      copy_elements(tensor, begin, count, buffer);
      visit(begin, std::span<const std::byte>(buffer).first(bytes));
    }
  }
}

}  // namespace tl
