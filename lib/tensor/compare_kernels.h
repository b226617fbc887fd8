#pragma once

#include <cstddef>
#include <cstdint>

namespace tl::compare {

/// Elements per partial sum, a multiple of kLanes.
inline constexpr std::size_t kBlock = 1024;
inline constexpr std::size_t kLanes = 4;

/// The tolerances of a comparison, as in CompareOptions.
struct Limits {
  double rtol = 0;
  double atol = 0;
};

/// Sums over pairs (r, s) of finite elements, d = s - r, as TensorComparison names them. NaN or infinite sums tell that
/// a pair was not finite or that squares overflowed.
struct PairSums {
  double diff_sq = 0;
  double reference_sq = 0;
  double subject_sq = 0;
  double dot = 0;
  double abs = 0;
  double rel = 0;
  double max_abs = 0;
  double max_rel = 0;
  double reference_max = 0;
  double subject_max = 0;  ///< of doubles only
  double needed_atol = 0;
  std::int64_t mismatched = 0;
  std::int64_t differing = 0;
  std::int64_t signs = 0;
};

/// `count` is a multiple of kLanes; the arrays are padded with zeros, which add nothing. The bits of the result do not
/// depend on the processor.
PairSums sum_pairs(const float* reference, const float* subject, std::size_t count, const Limits& limits);
PairSums sum_pairs(const double* reference, const double* subject, std::size_t count, const Limits& limits);

/// sum_pairs of an array with itself: reference_sq, subject_sq, dot and the maxima only.
PairSums sum_equal(const float* values, std::size_t count);
PairSums sum_equal(const double* values, std::size_t count);

/// Whether a pair has |d| - atol > rtol |r|, that is, needs a greater rtol.
bool exceeds_rtol(const float* reference, const float* subject, std::size_t count, const Limits& limits);
bool exceeds_rtol(const double* reference, const double* subject, std::size_t count, const Limits& limits);

/// The greatest distance in representable numbers between elements of a binary floating dtype with a sign bit on top,
/// `item` bytes (1, 2, 4 or 8) each; both arrays hold `count` elements and may be unaligned. Meaningless for NaN.
std::uint64_t max_ulp(const std::byte* reference, const std::byte* subject, std::size_t count, std::size_t item);

}  // namespace tl::compare
