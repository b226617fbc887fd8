#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tensor/host_tensor.h"
#include "tensor/statistic_set.h"

namespace tl {

/// Finite elements of one sign and binary exponent. `code` is 0 for zeros; k + 128 for 2^k <= x < 2^(k+1), and
/// -(k + 128) for -2^(k+1) < x <= -2^k, so that codes rise with the values they hold. k runs from -127, which also
/// holds everything nearer to zero, to 128, which also holds everything farther (f64 and complex128 only).
struct HistogramBin {
  std::int16_t code = 0;
  std::int64_t count = 0;
  friend bool operator==(const HistogramBin&, const HistogramBin&) = default;
};

inline constexpr int kHistogramBias = 128;  ///< |code| of 2^0
inline constexpr int kHistogramMost = 256;  ///< largest |code|

/// One-pass statistics of a tensor's elements. Counts are over all elements; minimum, maximum and sums over the finite
/// ones, so that one NaN or a -inf of an attention mask does not hide the rest. Accumulated in double; 64-bit integers
/// are rounded to double, but for exact_min and exact_max; complex tensors count by absolute value; bool as 0 and 1;
/// quantised ones by stored integer. The result depends on the elements and the shape alone, not on the strides.
struct TensorStats {
  std::int64_t numel = 0;
  std::int64_t nan = 0;
  std::int64_t posinf = 0;
  std::int64_t neginf = 0;
  std::int64_t zeros = 0;  ///< +0 and -0
  std::int64_t denormals =
      0;           ///< nearer to zero than the smallest normal number of the tensor's own dtype, zeros aside
  double min = 0;  ///< 0 without finite elements, as all below; ask has_finite(). Never -0
  double max = 0;
  double sum = 0;
  double abs_sum = 0;
  double sum_sq = 0;         ///< sum of squares
  double sum_sq_dev = 0;     ///< sum of squared deviations from the mean, not derived from sum_sq: no cancellation
  std::int64_t argmin = -1;  ///< row-major index of the first minimum; -1 without finite elements
  std::int64_t argmax = -1;
  std::int64_t exact_min = 0;  ///< of i64 and u64: the element at argmin, of u64 its bits
  std::int64_t exact_max = 0;
  std::vector<HistogramBin> histogram;  ///< bins that hold elements, by rising code; only if asked for

  std::int64_t finite() const { return numel - nan - posinf - neginf; }
  bool has_finite() const { return finite() > 0; }
  /// Of the finite elements; NaN without any.
  double mean() const;
  double abs_mean() const;
  /// Population standard deviation.
  double stddev() const;
  /// Root of the sum of squares; 0 without finite elements.
  double l2() const;
};

/// The statistics in `wanted`; the fields of the others may stay 0 (argmin and argmax -1). NaN and infinities are
/// always counted. Throws Error(kInternal) for a tensor that leaves its storage.
TensorStats compute_stats(const HostTensor& tensor, StatisticSet wanted = kUsualStatistics);

/// The first min(n, numel) elements in row-major order, decoded as by decode_doubles.
std::vector<double> first_values(const HostTensor& tensor, std::size_t n);

/// The k largest elements as (row-major index, value), largest first, of equal ones the earlier first. NaN is left out.
std::vector<std::pair<std::int64_t, double>> top_k(const HostTensor& tensor, std::size_t k);

}  // namespace tl
