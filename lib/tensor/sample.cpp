#include "tensor/sample.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <utility>

#include "tensor/strided_copy.h"

namespace tl {

std::vector<std::int64_t> sample_positions(std::int64_t numel, std::int64_t n) {
  if (n <= 0 || numel <= 0) return {};
  std::vector<std::int64_t> positions(static_cast<std::size_t>(std::min(n, numel)));
  if (numel <= n) {
    std::iota(positions.begin(), positions.end(), 0);
  } else {
    for (std::int64_t i = 0; i < n; ++i) positions[static_cast<std::size_t>(i)] = sample_position(i, numel);
  }
  return positions;
}

HostTensor sample_elements(const HostTensor& tensor, std::int64_t n) {
  check_readable(tensor);
  const std::vector<std::int64_t> positions = sample_positions(tensor.numel(), n);
  const std::size_t item = item_bytes(tensor.dtype);
  std::vector<std::byte> bytes(positions.size() * item);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    copy_elements(tensor, positions[i], 1, std::span(bytes).subspan(i * item, item));
  }
  return make_host_tensor(tensor.dtype, {static_cast<std::int64_t>(positions.size())}, std::move(bytes));
}

}  // namespace tl
