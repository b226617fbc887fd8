#pragma once

#include <cstdint>
#include <vector>

#include "tensor/host_tensor.h"

namespace tl {

/// The row-major index of sample `i` of a tensor with `numel` elements: the fraction i · (√5 − 1)/2 mod 1 of the
/// tensor, in 64-bit fixed point, that is (i · 0x9E3779B97F4A7C15 mod 2^64) · numel >> 64 with a 128-bit product
/// (multiplicative hashing by the golden ratio: Knuth, The Art of Computer Programming 3, 6.4). The first n of them
/// spread evenly for every n. `i` must not be negative; 0 <= result < numel for numel > 0.
constexpr std::int64_t sample_position(std::int64_t i, std::int64_t numel) {
  __extension__ using Wide = unsigned __int128;
  const std::uint64_t fraction = static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15ULL;
  return static_cast<std::int64_t>((static_cast<Wide>(fraction) * static_cast<std::uint64_t>(numel)) >> 64);
}

/// Where the samples of a tensor are taken: every element in order where `n` of them are enough (numel <= n), else
/// sample_position(0 … n - 1, numel), in that order; a position may occur twice where numel is little more than n. Both
/// sides of a comparison derive the positions from the shape alone, so none are stored. Empty for n <= 0 or numel <= 0.
std::vector<std::int64_t> sample_positions(std::int64_t numel, std::int64_t n);

/// The elements of `tensor` at sample_positions(tensor.numel(), n), packed in that order: 1-d, of the tensor's dtype.
HostTensor sample_elements(const HostTensor& tensor, std::int64_t n);

}  // namespace tl
