#pragma once

#include <cstddef>
#include <cstdint>

namespace tl {

/// Sums over a block of values, accumulated in double.
struct BlockMoments {
  double sum = 0;
  double abs_sum = 0;
  double sum_sq = 0;
};

template <typename T>
struct BlockExtremes {
  T min = 0;
  T max = 0;
};

struct BlockCounts {
  std::int64_t zeros = 0;  ///< +0 and -0
  std::int64_t small = 0;  ///< zeros included: magnitudes below the threshold
};

/// The inner loops of statistics over values of type T (float or double), compiled for several instruction sets. All of
/// them give the same bits: partial sums go to sixteen fixed lanes, added up in order, and multiply-add is not
/// contracted. Counts and finiteness look at bits, so that they hold on a thread that flushes subnormals to zero.
template <typename T>
struct BlockKernels {
  /// True unless all values are finite.
  bool (*has_nonfinite)(const T* values, std::size_t count);
  /// Of finite values; sum_sq stays 0.
  BlockMoments (*sums)(const T* values, std::size_t count);
  /// Of finite values; only sum_sq.
  BlockMoments (*squares)(const T* values, std::size_t count);
  /// Of finite values; all three.
  BlockMoments (*sums_and_squares)(const T* values, std::size_t count);
  /// Of at least one finite value.
  BlockExtremes<T> (*extremes)(const T* values, std::size_t count);
  /// `threshold` is positive.
  BlockCounts (*counts)(const T* values, std::size_t count, T threshold);
  /// Sum of squared deviations from `mean`.
  double (*squared_deviations)(const T* values, std::size_t count, double mean);
  /// Little-endian brain floats or IEEE halves, unaligned, as values; null where T is double.
  void (*widen_bf16)(const std::byte* packed, T* values, std::size_t count);
  void (*widen_f16)(const std::byte* packed, T* values, std::size_t count);
};

/// Which of the compiled kernels to use.
enum class KernelSet : std::uint8_t { kBest, kPortable, kAvx2, kAvx512 };
/// The kernels of that set; those of kPortable where this processor cannot run them.
const BlockKernels<float>& float_kernels(KernelSet set = KernelSet::kBest);
const BlockKernels<double>& double_kernels(KernelSet set = KernelSet::kBest);

}  // namespace tl
