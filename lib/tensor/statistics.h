#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tensor/host_tensor.h"

namespace tl {

/// One-pass statistics of a tensor's elements. Counts are over all elements; minimum, maximum and sums over the finite
/// ones, so that one NaN or a -inf of an attention mask does not hide the rest. Accumulated in double; 64-bit integers
/// are rounded to double; complex tensors count by absolute value; bool as 0 and 1; quantised ones by stored integer.
/// The result depends on the elements and the shape alone, not on the strides.
struct TensorStats {
  std::int64_t numel = 0;
  std::int64_t nan = 0;
  std::int64_t posinf = 0;
  std::int64_t neginf = 0;
  std::int64_t zeros = 0;  ///< +0 and -0
  double min = 0;          ///< 0 without finite elements, as all below; ask has_finite()
  double max = 0;
  double sum = 0;
  double abs_sum = 0;
  double sum_sq = 0;         ///< sum of squares
  double sum_sq_dev = 0;     ///< sum of squared deviations from the mean, not derived from sum_sq: no cancellation
  std::int64_t argmin = -1;  ///< row-major index of the first minimum; -1 without finite elements
  std::int64_t argmax = -1;

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

TensorStats compute_stats(const HostTensor& tensor);

/// The first min(n, numel) elements in row-major order, decoded as by decode_doubles.
std::vector<double> first_values(const HostTensor& tensor, std::size_t n);

/// The k largest elements as (row-major index, value), largest first, of equal ones the earlier first. NaN is left out.
std::vector<std::pair<std::int64_t, double>> top_k(const HostTensor& tensor, std::size_t k);

}  // namespace tl
