#include "tensor/host_tensor.h"

#include <limits>
#include <string>
#include <utility>

#include "core/error.h"
#include "tensor/strided_copy.h"

namespace tl {
namespace {

std::string shown(std::span<const std::int64_t> sizes) {
  constexpr std::size_t kShown = 16;
  std::string text = "[";
  for (std::size_t i = 0; i < sizes.size() && i < kShown; ++i) {
    if (i != 0) text += ",";
    text += std::to_string(sizes[i]);
  }
  return text + (sizes.size() > kShown ? ",…]" : "]");
}

}  // namespace

std::int64_t HostTensor::numel() const { return checked_numel(sizes); }

std::size_t HostTensor::nbytes() const {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::size_t>(numel()), item_bytes(dtype), &bytes)) {
    throw Error(ErrorCode::kFileDamaged, "a tensor of shape " + shown(sizes) + " has more than 2^64 bytes");
  }
  return bytes;
}

bool HostTensor::is_contiguous() const {
  std::int64_t expected = 1;
  bool packed = true;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 0) return true;
    if (sizes[i] == 1) continue;
    packed = packed && strides[i] == expected;
    if (__builtin_mul_overflow(expected, sizes[i], &expected)) packed = false;
  }
  return packed;
}

std::vector<std::int64_t> contiguous_strides(std::span<const std::int64_t> sizes) {
  std::vector<std::int64_t> strides(sizes.size());
  std::uint64_t stride = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = static_cast<std::int64_t>(stride);
    stride *= static_cast<std::uint64_t>(sizes[i] > 1 ? sizes[i] : 1);
  }
  return strides;
}

std::int64_t checked_numel(std::span<const std::int64_t> sizes) {
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t size : sizes) {
    if (size < 0) throw Error(ErrorCode::kFileDamaged, "shape " + shown(sizes) + " has a negative size");
    if (size == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(product, size, &product)) {
      throw Error(ErrorCode::kFileDamaged, "shape " + shown(sizes) + " has more than 2^63 - 1 elements");
    }
  }
  return empty ? 0 : product;
}

bool fits_storage(const HostTensor& tensor, std::size_t storage_bytes) {
  const std::size_t item = item_bytes(tensor.dtype);
  if (item == 0 || tensor.offset < 0 || tensor.sizes.size() != tensor.strides.size()) return false;
  bool empty = false;
  std::int64_t product = 1;
  std::int64_t last = tensor.offset;
  for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
    const std::int64_t size = tensor.sizes[i];
    std::int64_t reach = 0;
    if (size < 0 || tensor.strides[i] < 0) return false;
    if (size == 0) {
      empty = true;
      continue;
    }
    if (__builtin_mul_overflow(product, size, &product)) return false;
    if (__builtin_mul_overflow(size - 1, tensor.strides[i], &reach)) return false;
    if (__builtin_add_overflow(last, reach, &last)) return false;
  }
  return empty || static_cast<std::uint64_t>(last) < storage_bytes / item;
}

HostTensor to_contiguous(const HostTensor& tensor) {
  check_readable(tensor);
  const std::size_t bytes = tensor.nbytes();
  if (tensor.is_contiguous()) {
    HostTensor packed = tensor;
    const std::size_t start = bytes == 0 ? 0 : static_cast<std::size_t>(tensor.offset) * item_bytes(tensor.dtype);
    packed.storage = tensor.storage.subspan(start, bytes);
    packed.offset = 0;
    packed.strides = contiguous_strides(tensor.sizes);
    return packed;
  }
  const auto block = std::make_shared_for_overwrite<std::byte[]>(bytes);
  copy_elements(tensor, 0, tensor.numel(), {block.get(), bytes});
  return {.dtype = tensor.dtype,
          .sizes = tensor.sizes,
          .strides = contiguous_strides(tensor.sizes),
          .storage = {block.get(), bytes},
          .owner = block};
}

HostTensor make_host_tensor(DType dtype, std::vector<std::int64_t> sizes, std::vector<std::byte> bytes) {
  HostTensor tensor;
  tensor.dtype = dtype;
  tensor.strides = contiguous_strides(sizes);
  tensor.sizes = std::move(sizes);
  const auto block = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  tensor.storage = *block;
  tensor.owner = block;
  TL_CHECK(tensor.nbytes() == tensor.storage.size(), "a packed tensor has as many bytes as its shape says");
  return tensor;
}

}  // namespace tl
