#include "tensor/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "tensor/decode.h"
#include "tensor/strided_copy.h"
#include "tensor/vector_clones.h"

namespace tl {
namespace {

/// Elements per partial sum. The partition is by row-major index, so that it does not depend on strides.
constexpr std::size_t kBlock = 1024;
/// Elements copied at once out of a tensor with gaps.
constexpr std::int64_t kCopied = 32 * static_cast<std::int64_t>(kBlock);
constexpr std::size_t kLanes = 8;

template <typename T>
struct BlockSums {
  T min = std::numeric_limits<T>::infinity();
  T max = -std::numeric_limits<T>::infinity();
  double sum = 0;
  double abs_sum = 0;
  double sum_sq = 0;
  std::int64_t zeros = 0;
};

template <typename T>
void add_value(BlockSums<T>& sums, T value) {
  const auto wide = static_cast<double>(value);
  sums.sum += wide;
  sums.abs_sum += std::fabs(wide);
  sums.sum_sq += wide * wide;
  sums.min = value < sums.min ? value : sums.min;
  sums.max = value > sums.max ? value : sums.max;
  sums.zeros += value == T{0} ? 1 : 0;
}

/// Independent accumulators per lane, which the compiler keeps in vector registers.
template <typename T>
[[gnu::always_inline]] inline BlockSums<T> sum_lanes(std::span<const T> values) {
  using Count = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  std::array<double, kLanes> sum{};
  std::array<double, kLanes> abs_sum{};
  std::array<double, kLanes> sum_sq{};
  std::array<Count, kLanes> zeros{};
  std::array<T, kLanes> low;
  std::array<T, kLanes> high;
  BlockSums<T> total;
  low.fill(total.min);
  high.fill(total.max);
  const std::size_t whole = values.size() - values.size() % kLanes;
  const T* value = values.data();
  for (std::size_t i = 0; i < whole; i += kLanes, value += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const T x = value[lane];
      const auto wide = static_cast<double>(x);
      sum[lane] += wide;
      abs_sum[lane] += std::fabs(wide);
      sum_sq[lane] += wide * wide;
      low[lane] = x < low[lane] ? x : low[lane];
      high[lane] = x > high[lane] ? x : high[lane];
      zeros[lane] += x == T{0} ? 1 : 0;
    }
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    total.sum += sum[lane];
    total.abs_sum += abs_sum[lane];
    total.sum_sq += sum_sq[lane];
    total.zeros += zeros[lane];
    total.min = std::min(total.min, low[lane]);
    total.max = std::max(total.max, high[lane]);
  }
  for (std::size_t i = whole; i < values.size(); ++i) add_value(total, values[i]);
  return total;
}

template <typename T>
[[gnu::always_inline]] inline double deviate_lanes(std::span<const T> values, double mean) {
  std::array<double, kLanes> sum{};
  const std::size_t whole = values.size() - values.size() % kLanes;
  const T* value = values.data();
  for (std::size_t i = 0; i < whole; i += kLanes, value += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double deviation = static_cast<double>(value[lane]) - mean;
      sum[lane] += deviation * deviation;
    }
  }
  double total = 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) total += sum[lane];
  for (std::size_t i = whole; i < values.size(); ++i) {
    const double deviation = static_cast<double>(values[i]) - mean;
    total += deviation * deviation;
  }
  return total;
}

TL_VECTOR_CLONES BlockSums<float> sum_block(std::span<const float> values) { return sum_lanes(values); }
TL_VECTOR_CLONES BlockSums<double> sum_block(std::span<const double> values) { return sum_lanes(values); }
TL_VECTOR_CLONES double squared_deviations(std::span<const float> values, double mean) {
  return deviate_lanes(values, mean);
}
TL_VECTOR_CLONES double squared_deviations(std::span<const double> values, double mean) {
  return deviate_lanes(values, mean);
}

/// Moves the finite values to `finite` and counts the others.
template <typename T>
std::span<const T> count_nonfinite(std::span<const T> values, std::span<T> finite, TensorStats& stats) {
  std::size_t kept = 0;
  for (const T value : values) {
    if (std::isfinite(value)) {
      finite[kept++] = value;
    } else if (std::isnan(value)) {
      ++stats.nan;
    } else {
      ++(value > 0 ? stats.posinf : stats.neginf);
    }
  }
  return finite.first(kept);
}

template <typename T>
std::int64_t index_of(std::span<const T> values, T value) {
  return std::ranges::find(values, value) - values.begin();
}

/// Adds a block of at most kBlock elements, the first of which has row-major index `begin`.
template <typename T>
void add_block(TensorStats& stats, std::int64_t begin, std::span<const T> block) {
  const bool empty_before = !stats.has_finite();
  const auto finite_before = static_cast<double>(stats.finite());
  std::array<T, kBlock> compacted;
  std::span<const T> values = block;
  BlockSums<T> sums = sum_block(values);
  if (!std::isfinite(sums.sum_sq)) {
    values = count_nonfinite(block, std::span<T>(compacted), stats);
    sums = sum_block(values);
  }
  stats.numel += static_cast<std::int64_t>(block.size());
  if (values.empty()) return;

  const auto count = static_cast<double>(values.size());
  const double mean = sums.sum / count;
  const double shift = empty_before ? 0 : mean - stats.sum / finite_before;
  stats.sum_sq_dev +=
      squared_deviations(values, mean) + shift * shift * (finite_before * count / (finite_before + count));
  stats.sum += sums.sum;
  stats.abs_sum += sums.abs_sum;
  stats.sum_sq += sums.sum_sq;
  stats.zeros += sums.zeros;
  if (empty_before || static_cast<double>(sums.min) < stats.min) {
    stats.argmin = begin + index_of(block, sums.min);
    stats.min = static_cast<double>(sums.min);
  }
  if (empty_before || static_cast<double>(sums.max) > stats.max) {
    stats.argmax = begin + index_of(block, sums.max);
    stats.max = static_cast<double>(sums.max);
  }
}

/// Calls visit(begin, values) for the elements of `tensor`, decoded by `decode`, in blocks of kBlock.
template <typename T, typename Decode, typename Visit>
void for_each_decoded_block(const HostTensor& tensor, Decode decode, Visit visit) {
  const std::size_t item = item_bytes(tensor.dtype);
  std::array<T, kBlock> values;
  for_each_packed_block(tensor, kCopied, [&](std::int64_t begin, std::span<const std::byte> packed) {
    while (!packed.empty()) {
      const std::size_t count = std::min(kBlock, packed.size() / item);
      decode(tensor.dtype, packed, std::span(values).first(count));
      visit(begin, std::span<const T>(values).first(count));
      packed = packed.subspan(count * item);
      begin += static_cast<std::int64_t>(count);
    }
  });
}

double ratio(double sum, std::int64_t count) {
  return count > 0 ? sum / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

double TensorStats::mean() const { return ratio(sum, finite()); }
double TensorStats::abs_mean() const { return ratio(abs_sum, finite()); }
double TensorStats::stddev() const { return std::sqrt(ratio(sum_sq_dev, finite())); }
double TensorStats::l2() const { return std::sqrt(sum_sq); }

TensorStats compute_stats(const HostTensor& tensor) {
  TensorStats stats;
  if (exact_in_float(tensor.dtype)) {
    for_each_decoded_block<float>(tensor, decode_floats, [&](std::int64_t begin, std::span<const float> values) {
      add_block(stats, begin, values);
    });
  } else {
    for_each_decoded_block<double>(tensor, decode_doubles, [&](std::int64_t begin, std::span<const double> values) {
      add_block(stats, begin, values);
    });
  }
  return stats;
}

std::vector<double> first_values(const HostTensor& tensor, std::size_t n) {
  check_readable(tensor);
  const std::int64_t count =
      static_cast<std::int64_t>(std::min<std::uint64_t>(n, static_cast<std::uint64_t>(tensor.numel())));
  std::vector<std::byte> packed(static_cast<std::size_t>(count) * item_bytes(tensor.dtype));
  copy_elements(tensor, 0, count, packed);
  std::vector<double> values(static_cast<std::size_t>(count));
  decode_doubles(tensor.dtype, packed, values);
  return values;
}

std::vector<std::pair<std::int64_t, double>> top_k(const HostTensor& tensor, std::size_t k) {
  using Entry = std::pair<std::int64_t, double>;
  std::vector<Entry> best;
  if (k == 0) return best;
  // A heap with the least welcome entry on top. A later element must be strictly larger to enter.
  const auto more_welcome = [](const Entry& a, const Entry& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  };
  for_each_decoded_block<double>(tensor, decode_doubles, [&](std::int64_t begin, std::span<const double> values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(values[i])) continue;
      if (best.size() == k) {
        if (values[i] <= best.front().second) continue;
        std::ranges::pop_heap(best, more_welcome);
        best.pop_back();
      }
      best.emplace_back(begin + static_cast<std::int64_t>(i), values[i]);
      std::ranges::push_heap(best, more_welcome);
    }
  });
  std::ranges::sort_heap(best, more_welcome);
  return best;
}

}  // namespace tl
