#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tensor/dtype.h"

namespace tl {

/// A strided tensor over host memory that this object keeps alive (a heap block, a mapped file, an engine's storage).
/// `storage` is the whole storage; the element at index i is at `offset + Σ i_k * strides[k]`, all in elements.
struct HostTensor {
  DType dtype = DType::kNone;
  std::vector<std::int64_t> sizes = {};
  std::vector<std::int64_t> strides = {};  ///< in elements, same length as sizes
  std::int64_t offset = 0;                 ///< in elements
  std::span<const std::byte> storage = {};
  std::shared_ptr<const void> owner = {};  ///< keeps `storage` alive

  /// Number of elements; 1 for a 0-d tensor.
  std::int64_t numel() const;
  /// Bytes of the elements, without gaps.
  std::size_t nbytes() const;
  bool is_contiguous() const;
};

/// Row-major strides in elements for `sizes`.
std::vector<std::int64_t> contiguous_strides(std::span<const std::int64_t> sizes);

/// Product of sizes. Throws Error(kFileDamaged) if a size is negative or the product overflows int64.
std::int64_t checked_numel(std::span<const std::int64_t> sizes);

/// True if every element lies inside `storage_bytes`; overflow-safe; negative strides are refused.
bool fits_storage(const HostTensor& tensor, std::size_t storage_bytes);

/// The elements in row-major order as a packed block (copies unless already packed).
HostTensor to_contiguous(const HostTensor& tensor);

/// Owns `bytes` and views them as a contiguous tensor.
HostTensor make_host_tensor(DType dtype, std::vector<std::int64_t> sizes, std::vector<std::byte> bytes);

}  // namespace tl
