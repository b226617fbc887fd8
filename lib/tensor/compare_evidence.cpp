#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <span>
#include <utility>

#include "core/error.h"
#include "tensor/compare.h"
#include "tensor/decode.h"
#include "tensor/sample.h"
#include "tensor/strided_copy.h"

namespace tl {
namespace {

/// The first `k` samples of a side that holds all `numel` elements or at least k samples.
HostTensor first_samples(const HostTensor& side, std::int64_t numel, std::int64_t k) {
  if (side.numel() == numel) return sample_elements(side, k);
  TL_CHECK(side.sizes.size() == 1, "samples are one-dimensional");
  HostTensor first = side;
  first.sizes = {k};
  return first;
}

/// Indices of the k largest values, largest first, of equal ones the earlier first; fewer where values are NaN.
void find_largest(std::span<const double> values, std::size_t k, std::vector<std::uint32_t>& largest) {
  largest.clear();
  const auto before = [&](std::uint32_t a, std::uint32_t b) {
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  };
  for (std::uint32_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) continue;
    if (largest.size() == k) {
      if (values[i] <= values[largest.back()]) continue;
      largest.pop_back();
    }
    largest.insert(std::ranges::upper_bound(largest, i, before), i);
  }
}

std::vector<double> row_values(const HostTensor& tensor, std::int64_t row, std::int64_t length) {
  const auto count = static_cast<std::size_t>(length);
  std::vector<std::byte> packed(count * item_bytes(tensor.dtype));
  std::vector<double> values(count);
  copy_elements(tensor, row * length, length, packed);
  decode_doubles(tensor.dtype, packed, values);
  return values;
}

bool can_be_ranked(const HostTensor& tensor) {
  return !tensor.sizes.empty() && tensor.sizes.back() >= 2 &&
         tensor.sizes.back() <= std::numeric_limits<std::uint32_t>::max() && !is_complex(tensor.dtype) &&
         tensor.dtype != DType::kBool;
}

using Known = std::optional<double>;

bool usable(const Known& a, const Known& b) { return a && b && std::isfinite(*a) && std::isfinite(*b); }
double gap(const Known& a, const Known& b) { return usable(a, b) ? std::fabs(*b - *a) : 0; }

double drift(const Known& a, const Known& b) {
  if (!usable(a, b) || *a == *b) return 0;
  return std::fabs(*b - *a) / std::max(std::fabs(*a), std::fabs(*b));
}

/// Both unknown, or equal, or not both known.
template <typename T>
bool compatible(const std::optional<T>& a, const std::optional<T>& b) {
  return !a || !b || *a == *b;
}

/// False if one is finite and the other not: foreign recorders let NaN into their sums.
bool same_finiteness(const Known& a, const Known& b) { return !a || !b || std::isfinite(*a) == std::isfinite(*b); }

/// A bound on the norm of d divided by that of the reference; the reference's l2 is derived where it is missing.
double l2_bound(const KnownStats& reference, const KnownStats& subject) {
  Known reference_l2 = reference.l2;
  const bool moments = usable(reference.mean, subject.mean) && usable(reference.stddev, subject.stddev);
  double bound = gap(reference.l2, subject.l2);
  if (reference.numel && reference.numel == subject.numel && moments) {
    const double root = std::sqrt(static_cast<double>(*reference.numel));
    bound =
        std::max(bound, root * std::hypot(gap(reference.mean, subject.mean), gap(reference.stddev, subject.stddev)));
    if (!reference_l2) reference_l2 = root * std::hypot(*reference.mean, *reference.stddev);
  }
  if (bound == 0 || !reference_l2 || !std::isfinite(*reference_l2)) return 0;
  return *reference_l2 == 0 ? std::numeric_limits<double>::infinity() : bound / *reference_l2;
}

}  // namespace

std::vector<std::int64_t> coordinates_of(std::int64_t linear_index, const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> coordinates(sizes.size());
  for (std::size_t i = sizes.size(); i-- > 0;) {
    TL_CHECK(sizes[i] > 0, "an empty tensor has no elements");
    coordinates[i] = linear_index % sizes[i];
    linear_index /= sizes[i];
  }
  TL_CHECK(linear_index == 0, "the index is within the tensor");
  return coordinates;
}

TensorComparison compare_samples(const HostTensor& reference, const HostTensor& subject, std::int64_t numel,
                                 const CompareOptions& options) {
  for (const Quantiser* quantiser : {options.reference_quantiser, options.subject_quantiser}) {
    TL_CHECK(quantiser == nullptr || quantiser->axis < 0, "samples have no axis to quantise along");
  }
  const std::int64_t k = std::min(reference.numel(), subject.numel());
  TL_CHECK(k <= numel, "there are no more samples than elements");
  if (k == numel) return compare_tensors(reference, subject, options);
  TensorComparison result =
      compare_tensors(first_samples(reference, numel, k), first_samples(subject, numel, k), options);
  if (result.worst_index >= 0) result.worst_index = sample_position(result.worst_index, numel);
  return result;
}

std::optional<TopKAgreement> compare_top_k(const HostTensor& reference, const HostTensor& subject, std::int64_t k) {
  if (!can_be_ranked(reference) || !can_be_ranked(subject) || reference.sizes != subject.sizes || k <= 0) return {};
  check_readable(reference);
  check_readable(subject);
  const std::int64_t length = reference.sizes.back();
  TopKAgreement agreement{.k = std::min(k, length), .rows = reference.numel() / length};
  const auto ranked = static_cast<std::size_t>(agreement.k);
  std::vector<std::uint32_t> expected;
  std::vector<std::uint32_t> found;
  double overlap = 0;
  for (std::int64_t row = 0; row < agreement.rows; ++row) {
    find_largest(row_values(reference, row, length), ranked, expected);
    find_largest(row_values(subject, row, length), ranked, found);
    if (expected.empty() ? found.empty() : !found.empty() && expected.front() == found.front()) ++agreement.top1_agree;
    if (expected == found) ++agreement.order_agree;
    std::ranges::sort(found);
    const auto shared =
        std::ranges::count_if(expected, [&](std::uint32_t i) { return std::ranges::binary_search(found, i); });
    overlap +=
        expected.empty() ? (found.empty() ? 1 : 0) : static_cast<double>(shared) / static_cast<double>(expected.size());
  }
  if (agreement.rows > 0) agreement.mean_overlap = overlap / static_cast<double>(agreement.rows);
  return agreement;
}

KnownStats known_stats(const TensorStats& stats) {
  KnownStats known{.numel = stats.numel, .nan = stats.nan, .inf = stats.posinf + stats.neginf};
  if (!stats.has_finite()) return known;
  known.min = stats.min;
  known.max = stats.max;
  known.mean = stats.mean();
  known.abs_mean = stats.abs_mean();
  known.stddev = stats.stddev();
  known.l2 = stats.l2();
  return known;
}

StatsComparison compare_statistics(const KnownStats& reference, const KnownStats& subject) {
  StatsComparison result;
  const auto both = [&](auto KnownStats::*field) { return reference.*field && subject.*field; };
  result.any = both(&KnownStats::numel) || both(&KnownStats::nan) || both(&KnownStats::inf);
  result.same_counts = compatible(reference.numel, subject.numel) && compatible(reference.nan, subject.nan) &&
                       compatible(reference.inf, subject.inf);
  for (auto field : {&KnownStats::min, &KnownStats::max, &KnownStats::mean, &KnownStats::abs_mean, &KnownStats::stddev,
                     &KnownStats::l2}) {
    result.any = result.any || both(field);
    result.same_counts = result.same_counts && same_finiteness(reference.*field, subject.*field);
  }
  for (auto field : {&KnownStats::abs_mean, &KnownStats::stddev, &KnownStats::l2}) {
    result.drift = std::max(result.drift, drift(reference.*field, subject.*field));
  }
  // Statistics of finite elements alone bound nothing where each side may have left out others.
  if (reference.nan.value_or(0) != 0 || reference.inf.value_or(0) != 0 || !result.same_counts) return result;
  result.mean_abs_at_least = std::max(gap(reference.mean, subject.mean), gap(reference.abs_mean, subject.abs_mean));
  result.max_abs_at_least =
      std::max({gap(reference.min, subject.min), gap(reference.max, subject.max), result.mean_abs_at_least});
  result.rel_l2_at_least = l2_bound(reference, subject);
  return result;
}

}  // namespace tl
