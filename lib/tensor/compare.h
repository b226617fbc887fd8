#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tensor/host_tensor.h"
#include "tensor/statistics.h"

namespace tl {

/// How the integers of a quantised tensor become values: (q - zero_point) * scale, in double. One scale and zero point,
/// or one a channel along `axis`.
struct Quantiser {
  std::vector<double> scales = {};
  std::vector<double> zero_points = {};  ///< as many as scales
  std::int64_t axis = -1;                ///< -1: one scale for the whole tensor
};

struct CompareOptions {
  /// A pair of finite elements mismatches if |s - r| > atol + rtol * |r| (r reference, s subject; the rule of
  /// numpy.isclose). Both must be finite and not negative.
  double rtol = 0;
  double atol = 0;
  bool equal_nan = true;  ///< NaN equals NaN, whatever the payload bits
  bool equal_inf = true;  ///< an infinity equals the infinity of the same sign
  /// If set, the integers of that side are compared by the values they stand for.
  const Quantiser* reference_quantiser = nullptr;
  const Quantiser* subject_quantiser = nullptr;
};

/// Differences of two tensors, r the reference's elements and s the subject's, d = s - r. Computed in one pass, in
/// double or wider; d is that of the exact values also for 64-bit integers. Sums, means, maxima and quotients are over
/// the pairs of finite elements; a pair with a NaN or an infinity is equal by the options or a disagreement, which is
/// counted, is a mismatch, and must fail a verdict by itself (nonfinite_disagreements). No field is NaN.
///
/// Complex elements: |d|, |r| and |s| are absolute values, the cosine is that of the real and imaginary parts as one
/// vector, an element is NaN if a part is, else infinite if a part is. Dtypes of several values a byte (bits, f4x2,
/// quint4x2) are compared as raw bytes: equal or not is all their metrics can tell.
///
/// The result depends on elements and order alone, not on strides, threads or the processor's vector width.
struct TensorComparison {
  std::int64_t numel = 0;
  std::int64_t compared = 0;    ///< pairs of finite elements; numel less all pairs with a NaN or an infinity
  bool bitwise_equal = false;   ///< same dtype, same quantiser, same bytes (strides aside)
  std::int64_t differing = 0;   ///< pairs of different values, +0 and -0 being equal; disagreements included
  std::int64_t mismatched = 0;  ///< pairs out of tolerance; disagreements included

  double max_abs = 0;   ///< max |d|; 0 without pairs, as all below unless said otherwise
  double mean_abs = 0;  ///< Σ|d| / compared
  double mse = 0;       ///< Σ d² / compared
  /// |d| / max(|r|, |s|), where 0/0 is 0: at most 2, whichever side is the reference, and defined beside zeros.
  double max_rel = 0;
  double mean_rel = 0;
  double reference_l2 = 0;   ///< √Σr²
  double subject_l2 = 0;     ///< √Σs²
  double reference_max = 0;  ///< max |r|
  double rel_l2 = 0;         ///< √Σd² / √Σr²; 0/0 is 0, x/0 is infinite
  /// 20 log10(√Σr² / √Σd²), the ratio of signal to (quantisation) noise; +infinite where all d are 0, -infinite where
  /// all r are 0 and some d is not. Larger is better.
  double sqnr_db = 0;
  /// Σrs / (√Σr² √Σs²), in [-1, 1]; 1 where both are all zeros, 0 where one is.
  double cosine = 1;
  /// The most representable numbers between r and s; +0 and -0 are none apart. Only for two tensors of the same real
  /// floating dtype.
  std::optional<std::uint64_t> max_ulp = {};

  std::int64_t nan_only_reference = 0;
  std::int64_t nan_only_subject = 0;
  std::int64_t nan_both = 0;
  std::int64_t inf_disagreements = 0;   ///< an infinity against a finite number or against the other infinity
  std::int64_t inf_both = 0;            ///< the same infinity on both sides
  std::int64_t sign_disagreements = 0;  ///< finite real pairs of opposite sign, neither being zero
  /// Pairs with a NaN or an infinity that the options do not call equal.
  std::int64_t nonfinite_disagreements = 0;

  /// Row-major index of the first disagreement, else of the first greatest |d|; -1 where no pair differs.
  std::int64_t worst_index = -1;
  /// The least atol with which all finite pairs match at the given rtol, and the least rtol at the given atol (infinite
  /// if a reference element is 0 where |d| > atol). They cannot mend disagreements. 0 where a tolerance of 0 will do.
  double needed_atol = 0;
  double needed_rtol = 0;

  double mismatch_share() const {
    return numel == 0 ? 0 : static_cast<double>(mismatched) / static_cast<double>(numel);
  }
  /// Every pair has the same value.
  bool equal() const { return differing == 0; }
};

/// Compares element by element in row-major order. The tensors must hold the same number of elements (TL_CHECK);
/// whether different shapes may be compared is the caller's business. Sparse tensors are compared by their parts.
TensorComparison compare_tensors(const HostTensor& reference, const HostTensor& subject,
                                 const CompareOptions& options = {});

/// The index of each axis for a row-major index into `sizes`; empty for a 0-d tensor.
std::vector<std::int64_t> coordinates_of(std::int64_t linear_index, const std::vector<std::int64_t>& sizes);

/// Compares where a side has only samples. Each side holds either all `numel` elements or, 1-d, the first k of
/// sample_positions(numel, …); sequences of different length are compared at the positions of the shorter one. A
/// quantiser with an axis is refused (TL_CHECK), as samples have no axes. `worst_index` is the index in the full
/// tensor; `numel` is that of what was compared.
TensorComparison compare_samples(const HostTensor& reference, const HostTensor& subject, std::int64_t numel,
                                 const CompareOptions& options = {});

/// Agreement of the k largest elements of each row, a row being a stretch along the last axis (the classes of a
/// classifier, the vocabulary of a language model). Of equal elements the earlier one counts as larger; NaN is left
/// out.
struct TopKAgreement {
  std::int64_t k = 0;  ///< as asked, at most the row's length
  std::int64_t rows = 0;
  std::int64_t top1_agree = 0;   ///< rows with the same largest element
  std::int64_t order_agree = 0;  ///< rows whose k largest elements are the same in the same order
  double mean_overlap = 1;       ///< mean share of the reference's k largest that the subject has too; 1 without rows

  double top1_share() const { return rows == 0 ? 1 : static_cast<double>(top1_agree) / static_cast<double>(rows); }
};

/// nullopt where there is nothing to rank: 0-d tensors, rows shorter than 2, complex or bool tensors, different sizes.
std::optional<TopKAgreement> compare_top_k(const HostTensor& reference, const HostTensor& subject, std::int64_t k);

/// What is known of one side by statistics; a foreign recording may have some only. Over the finite elements.
struct KnownStats {
  std::optional<std::int64_t> numel = {};
  std::optional<std::int64_t> nan = {};
  std::optional<std::int64_t> inf = {};  ///< of either sign
  std::optional<double> min = {};
  std::optional<double> max = {};
  std::optional<double> mean = {};
  std::optional<double> abs_mean = {};
  std::optional<double> stddev = {};  ///< of the population
  std::optional<double> l2 = {};
};

KnownStats known_stats(const TensorStats& stats);

/// What statistics tell about d = s - r. They can show a difference but never its absence: permuted elements have equal
/// statistics. Every bound holds whatever the elements are; one is 0 where the statistics it needs are missing.
struct StatsComparison {
  bool any = false;              ///< a statistic is known on both sides
  bool same_counts = true;       ///< numel, NaN and infinities agree where both sides know them
  double max_abs_at_least = 0;   ///< max(|Δmin|, |Δmax|, |Δmean|): max |d| cannot be less
  double mean_abs_at_least = 0;  ///< max(|Δmean|, |Δabs_mean|), by the triangle inequality
  /// max(|Δl2|, √n·√(Δmean² + Δstddev²)) / l2 of the reference, by the reverse triangle inequality applied to the whole
  /// vectors or to their parts along and across (1, …, 1); 0/0 is 0, x/0 infinite.
  double rel_l2_at_least = 0;
  /// The greatest |Δ| / max(|a|, |b|) of abs_mean, l2 and stddev, 0/0 being 0: the drift that recorders of statistics
  /// go by.
  double drift = 0;
};

/// Bounds other than of counts need both sides free of NaN and infinities, or not known to have any.
StatsComparison compare_statistics(const KnownStats& reference, const KnownStats& subject);

}  // namespace tl
