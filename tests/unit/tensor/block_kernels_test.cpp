#include "tensor/block_kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tensor/decode.h"

namespace tl {
namespace {

/// Values over the whole range of exponents, subnormals and both zeros among them, without rounding patterns.
template <typename T>
std::vector<T> values(std::size_t count) {
  std::vector<T> result(count);
  std::uint32_t state = 7;
  const int span = std::numeric_limits<T>::max_exponent - std::numeric_limits<T>::min_exponent;
  for (auto& value : result) {
    state = state * 1664525u + 1013904223u;
    const auto fraction = static_cast<T>(static_cast<std::int32_t>(state)) / static_cast<T>(2147483648.0);
    const int exponent = static_cast<int>((state >> 7) % static_cast<unsigned>(span / 2)) - span / 2;
    value = state % 11 == 0 ? std::copysign(T{0}, fraction) : std::ldexp(fraction, exponent);
  }
  return result;
}

bool same_bits(double left, double right) {
  return std::bit_cast<std::uint64_t>(left) == std::bit_cast<std::uint64_t>(right);
}

template <typename T>
void expect_same(const BlockKernels<T>& one, const BlockKernels<T>& other) {
  const auto all = values<T>(1024);
  for (const std::size_t count : {1, 2, 7, 15, 16, 17, 31, 32, 500, 1000, 1023, 1024}) {
    const T* data = all.data() + (1024 - count);
    EXPECT_FALSE(one.has_nonfinite(data, count));
    EXPECT_FALSE(other.has_nonfinite(data, count));
    const auto left = one.sums_and_squares(data, count);
    const auto right = other.sums_and_squares(data, count);
    EXPECT_TRUE(same_bits(left.sum, right.sum)) << count;
    EXPECT_TRUE(same_bits(left.abs_sum, right.abs_sum)) << count;
    EXPECT_TRUE(same_bits(left.sum_sq, right.sum_sq)) << count;
    EXPECT_TRUE(same_bits(other.sums(data, count).sum, left.sum)) << count;
    EXPECT_TRUE(same_bits(other.squares(data, count).sum_sq, left.sum_sq)) << count;
    EXPECT_TRUE(same_bits(one.squared_deviations(data, count, 0.3), other.squared_deviations(data, count, 0.3)));
    EXPECT_EQ(one.extremes(data, count).min, other.extremes(data, count).min);
    EXPECT_EQ(one.extremes(data, count).max, other.extremes(data, count).max);
    const auto small = one.counts(data, count, std::numeric_limits<T>::min());
    EXPECT_EQ(small.zeros, other.counts(data, count, std::numeric_limits<T>::min()).zeros);
    EXPECT_EQ(small.small, other.counts(data, count, std::numeric_limits<T>::min()).small);
  }
}

TEST(BlockKernels, AllInstructionSetsGiveTheSameBits) {
  for (const auto set : {KernelSet::kAvx2, KernelSet::kAvx512, KernelSet::kBest}) {
    expect_same(float_kernels(KernelSet::kPortable), float_kernels(set));
    expect_same(double_kernels(KernelSet::kPortable), double_kernels(set));
  }
}

TEST(BlockKernels, FindsANonFiniteValueAnywhere) {
  for (const auto set : {KernelSet::kPortable, KernelSet::kAvx2, KernelSet::kAvx512}) {
    for (std::size_t at = 0; at < 37; ++at) {
      for (const float bad : {INFINITY, -INFINITY, NAN, -NAN}) {
        std::vector<float> floats(37, -3.0e38f);
        floats[at] = bad;
        EXPECT_TRUE(float_kernels(set).has_nonfinite(floats.data(), floats.size()));
        std::vector<double> doubles(37, 1.7e308);
        doubles[at] = static_cast<double>(bad);
        EXPECT_TRUE(double_kernels(set).has_nonfinite(doubles.data(), doubles.size()));
      }
    }
  }
}

// Against the scalar conversion, which decode_test.cpp holds against PyTorch.
TEST(BlockKernels, WidensEveryHalf) {
  std::vector<std::byte> packed(2 * 65536 + 1);
  for (std::uint32_t code = 0; code < 65536; ++code) {
    packed[1 + 2 * code] = static_cast<std::byte>(code & 0xff);
    packed[2 + 2 * code] = static_cast<std::byte>(code >> 8);
  }
  for (const auto set : {KernelSet::kPortable, KernelSet::kAvx2, KernelSet::kAvx512}) {
    std::vector<float> halves(65535);
    float_kernels(set).widen_f16(packed.data() + 1, halves.data(), halves.size());
    std::vector<float> brains(65535);
    float_kernels(set).widen_bf16(packed.data() + 1, brains.data(), brains.size());
    for (std::uint32_t code = 0; code < 65535; ++code) {
      const float half = float_from_f16(static_cast<std::uint16_t>(code));
      if (std::isnan(half)) {
        EXPECT_TRUE(std::isnan(halves[code])) << code;
      } else {
        EXPECT_EQ(std::bit_cast<std::uint32_t>(halves[code]), std::bit_cast<std::uint32_t>(half)) << code;
      }
      EXPECT_EQ(std::bit_cast<std::uint32_t>(brains[code]), code << 16) << code;
    }
  }
}

}  // namespace
}  // namespace tl
