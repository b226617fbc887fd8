#include "tensor/statistics.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "core/error.h"
#include "tensor/block_kernels.h"
#include "tensor/decode.h"
#include "tensor/strided_copy.h"

namespace tl {
namespace {

/// Elements per partial sum. The partition is by row-major index, so that it does not depend on strides.
constexpr std::size_t kBlock = 1024;
/// Elements copied at once out of a tensor with gaps.
constexpr std::int64_t kCopied = 32 * static_cast<std::int64_t>(kBlock);

constexpr StatisticSet kNeedsSums = kStatAbsMean | kStatSum | kStatMean | kStatStd;
constexpr StatisticSet kNeedsExtremes = kStatMin | kStatMax | kStatArgmin | kStatArgmax;
constexpr StatisticSet kNeedsCounts = kStatZeros | kStatDenormals;

/// The smallest normal magnitude of a dtype; 0 where it has no denormal numbers.
double smallest_normal(DType dtype) {
  switch (dtype) {
    case DType::kF16:
    case DType::kC32:
    case DType::kF8E5M2:
      return 0x1p-14;
    case DType::kBF16:
    case DType::kF32:
    case DType::kC64:
      return 0x1p-126;
    case DType::kF64:
    case DType::kC128:
      return 0x1p-1022;
    case DType::kF8E4M3:
      return 0x1p-6;
    case DType::kF8E5M2FNUZ:
      return 0x1p-15;
    case DType::kF8E4M3FNUZ:
      return 0x1p-7;
    default:  // F8E8M0 has neither zero nor denormals, integers have no denormals
      return 0;
  }
}

const BlockKernels<float>& kernels_of(float) {
  static const BlockKernels<float>& kernels = float_kernels();
  return kernels;
}
const BlockKernels<double>& kernels_of(double) {
  static const BlockKernels<double>& kernels = double_kernels();
  return kernels;
}

/// Counts elements by sign and power of two. Four tables, so that equal neighbours do not wait for each other.
class Histogram {
 public:
  void add(std::span<const float> values) { add_each<std::uint32_t, 23>(values); }
  void add(std::span<const double> values) { add_each<std::uint64_t, 52>(values); }

  std::vector<HistogramBin> bins() const {
    std::vector<HistogramBin> result;
    for (int code = -kHistogramMost; code <= kHistogramMost; ++code) {
      std::int64_t count = 0;
      for (const auto& table : tables_) count += table[static_cast<std::size_t>(code + kHistogramMost)];
      if (count != 0) result.push_back({static_cast<std::int16_t>(code), count});
    }
    return result;
  }

 private:
  template <typename Bits, int kMantissa, typename T>
  void add_each(std::span<const T> values) {
    for (std::size_t i = 0; i < values.size(); ++i) ++tables_[i % 4][slot_of<Bits, kMantissa>(values[i])];
  }

  template <typename Bits, int kMantissa, typename T>
  static std::size_t slot_of(T value) {
    constexpr int kWidth = static_cast<int>(sizeof(Bits)) * 8;
    constexpr int kExponentBias = (1 << (kWidth - 2 - kMantissa)) - 1;
    const auto bits = std::bit_cast<Bits>(value);
    const auto magnitude = static_cast<Bits>(bits << 1) >> 1;
    const int exponent = static_cast<int>(magnitude >> kMantissa) - kExponentBias;
    const int code = magnitude == 0 ? 0 : std::clamp(exponent, -127, 128) + kHistogramBias;
    return static_cast<std::size_t>(kHistogramMost + (bits >> (kWidth - 1) != 0 ? -code : code));
  }

  std::array<std::array<std::int64_t, 2 * kHistogramMost + 1>, 4> tables_{};
};

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

/// Statistics of one tensor, block by block; T is float or double.
template <typename T>
class Accumulator {
 public:
  Accumulator(DType dtype, StatisticSet wanted)
      : wanted_(wanted),
        may_be_nonfinite_(is_floating(dtype) || is_complex(dtype)),
        // Where there are no denormals, only zeros are below the threshold.
        threshold_(std::max(static_cast<T>(smallest_normal(dtype)), std::numeric_limits<T>::denorm_min())) {
    if ((wanted & kStatHistogram) != 0) histogram_.emplace();
  }

  /// Adds a block of at most kBlock elements, the first of which has row-major index `begin`.
  void add(std::int64_t begin, std::span<const T> block) {
    std::array<T, kBlock> compacted;
    std::span<const T> values = block;
    if (may_be_nonfinite_ && kernels_.has_nonfinite(block.data(), block.size())) {
      values = count_nonfinite(block, std::span<T>(compacted), stats_);
    }
    stats_.numel += static_cast<std::int64_t>(block.size());
    if (values.empty()) return;
    const bool first = finite_ == 0;
    if ((wanted_ & (kNeedsSums | kStatL2)) != 0) add_moments(values);
    if ((wanted_ & kNeedsExtremes) != 0) add_extremes(begin, block, values, first);
    if ((wanted_ & kNeedsCounts) != 0) add_counts(values);
    if (histogram_) histogram_->add(values);
    finite_ += static_cast<std::int64_t>(values.size());
  }

  TensorStats finish() {
    if (histogram_) stats_.histogram = histogram_->bins();
    stats_.min += 0.0;  // -0 becomes +0: which of the two came first is no fact of the set of values
    stats_.max += 0.0;
    return std::move(stats_);
  }

 private:
  BlockMoments moments_of(std::span<const T> values) const {
    if ((wanted_ & kStatL2) == 0) return kernels_.sums(values.data(), values.size());
    if ((wanted_ & kNeedsSums) == 0) return kernels_.squares(values.data(), values.size());
    return kernels_.sums_and_squares(values.data(), values.size());
  }

  /// Deviations by blocks: Chan, Golub, LeVeque, Updating formulae and a pairwise algorithm for computing sample
  /// variances, 1979.
  void add_moments(std::span<const T> values) {
    const auto block = moments_of(values);
    if ((wanted_ & kStatStd) != 0) {
      const auto before = static_cast<double>(finite_);
      const auto count = static_cast<double>(values.size());
      const double mean = block.sum / count;
      const double shift = finite_ == 0 ? 0 : mean - stats_.sum / before;
      stats_.sum_sq_dev += kernels_.squared_deviations(values.data(), values.size(), mean) +
                           shift * shift * (before * count / (before + count));
    }
    stats_.sum += block.sum;
    stats_.abs_sum += block.abs_sum;
    stats_.sum_sq += block.sum_sq;
  }

  void add_extremes(std::int64_t begin, std::span<const T> block, std::span<const T> values, bool first) {
    const auto found = kernels_.extremes(values.data(), values.size());
    if (first || static_cast<double>(found.min) < stats_.min) {
      stats_.argmin = begin + index_of(block, found.min);
      stats_.min = static_cast<double>(found.min);
    }
    if (first || static_cast<double>(found.max) > stats_.max) {
      stats_.argmax = begin + index_of(block, found.max);
      stats_.max = static_cast<double>(found.max);
    }
  }

  void add_counts(std::span<const T> values) {
    const auto found = kernels_.counts(values.data(), values.size(), threshold_);
    stats_.zeros += found.zeros;
    stats_.denormals += found.small - found.zeros;
  }

  StatisticSet wanted_;
  bool may_be_nonfinite_;
  T threshold_;
  const BlockKernels<T>& kernels_ = kernels_of(T{});
  std::int64_t finite_ = 0;
  TensorStats stats_;
  std::optional<Histogram> histogram_;
};

/// The elements as T where they lie as such, aligned and in order; else empty.
template <typename T>
std::span<const T> stored_values(DType dtype, std::span<const std::byte> packed) {
  constexpr DType kStored = sizeof(T) == 4 ? DType::kF32 : DType::kF64;
  if (dtype != kStored || reinterpret_cast<std::uintptr_t>(packed.data()) % alignof(T) != 0) return {};
  return {reinterpret_cast<const T*>(packed.data()), packed.size() / sizeof(T)};
}

/// Calls visit(begin, values) for the elements of `tensor`, decoded by `decode`, in blocks of kBlock.
template <typename T, typename Decode, typename Visit>
void for_each_decoded_block(const HostTensor& tensor, Decode decode, Visit visit) {
  const std::size_t item = item_bytes(tensor.dtype);
  std::array<T, kBlock> values;
  for_each_packed_block(tensor, kCopied, [&](std::int64_t begin, std::span<const std::byte> packed) {
    auto stored = stored_values<T>(tensor.dtype, packed);
    const bool in_place = !stored.empty();
    while (!packed.empty()) {
      const std::size_t count = std::min(kBlock, packed.size() / item);
      if (in_place) {
        visit(begin, stored.first(count));
        stored = stored.subspan(count);
      } else {
        decode(tensor.dtype, packed, std::span(values).first(count));
        visit(begin, std::span<const T>(values).first(count));
      }
      packed = packed.subspan(count * item);
      begin += static_cast<std::int64_t>(count);
    }
  });
}

/// Replaces the extremes of 64-bit integers, which double rounds, by exact ones.
template <typename Integer>
void add_exact_extremes(const HostTensor& tensor, TensorStats& stats) {
  std::array<Integer, kBlock> block;
  Integer least = 0;
  Integer most = 0;
  stats.argmin = stats.argmax = -1;
  for_each_packed_block(tensor, kBlock, [&](std::int64_t begin, std::span<const std::byte> packed) {
    std::memcpy(block.data(), packed.data(), packed.size());
    const auto values = std::span<const Integer>(block).first(packed.size() / sizeof(Integer));
    const auto [low, high] = std::ranges::minmax(values);
    if (stats.argmin < 0 || low < least) {
      least = low;
      stats.argmin = begin + index_of(values, low);
    }
    if (stats.argmax < 0 || high > most) {
      most = high;
      stats.argmax = begin + index_of(values, high);
    }
  });
  stats.exact_min = static_cast<std::int64_t>(least);
  stats.exact_max = static_cast<std::int64_t>(most);
}

template <typename T, typename Decode>
TensorStats accumulate(const HostTensor& tensor, Decode decode, StatisticSet wanted) {
  Accumulator<T> accumulator(tensor.dtype, wanted);
  for_each_decoded_block<T>(tensor, decode,
                            [&](std::int64_t begin, std::span<const T> values) { accumulator.add(begin, values); });
  return accumulator.finish();
}

double ratio(double sum, std::int64_t count) {
  return count > 0 ? sum / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

double TensorStats::mean() const { return ratio(sum, finite()); }
double TensorStats::abs_mean() const { return ratio(abs_sum, finite()); }
double TensorStats::stddev() const { return std::sqrt(ratio(sum_sq_dev, finite())); }
double TensorStats::l2() const { return std::sqrt(sum_sq); }

TensorStats compute_stats(const HostTensor& tensor, StatisticSet wanted) {
  if (exact_in_float(tensor.dtype)) return accumulate<float>(tensor, decode_floats, wanted);
  auto stats = accumulate<double>(tensor, decode_doubles, wanted);
  if ((wanted & kNeedsExtremes) != 0 && tensor.dtype == DType::kI64) add_exact_extremes<std::int64_t>(tensor, stats);
  if ((wanted & kNeedsExtremes) != 0 && tensor.dtype == DType::kU64) add_exact_extremes<std::uint64_t>(tensor, stats);
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
