#include "tensor/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "core/error.h"
#include "tensor/compare_kernels.h"
#include "tensor/compare_side.h"

namespace tl {
namespace {

using compare::Exact;
using compare::ExactValue;
using compare::kBlock;
using compare::Limits;
using compare::PairSums;
using compare::Side;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// All integers below are doubles.
constexpr double kExactIntegers = 9007199254740992.0;

/// The square of the magnitude, and a sum of kBlock such squares, is a normal double or 0.
bool square_fits(double magnitude) { return magnitude == 0 || (magnitude >= 0x1p-480 && magnitude <= 0x1p480); }

bool is_nan(const ExactValue& value) { return std::isnan(value.real) || std::isnan(value.imaginary); }
bool is_finite(const ExactValue& value) { return std::isfinite(value.real) && std::isfinite(value.imaginary); }
bool same(const ExactValue& a, const ExactValue& b) { return a.real == b.real && a.imaginary == b.imaginary; }
bool is_nan(double value) { return std::isnan(value); }
bool is_finite(double value) { return std::isfinite(value); }
bool same(double a, double b) { return a == b; }

/// The least double that is not below.
double rounded_up(Exact value) {
  const auto nearest = static_cast<double>(value);
  return nearest < value ? std::nextafter(nearest, kInfinity) : nearest;
}

Exact magnitude(const ExactValue& value) {
  if (value.imaginary == 0) return std::fabs(value.real);
  return std::sqrt(value.real * value.real + value.imaginary * value.imaginary);
}

/// What |d| / |r| and |d| / |s| cannot exceed where |d| / max(|r|, |s|) is `rel`: |r| >= |s| - |d| and the other way
/// round. A little more than that, for what rounding took away.
double ratio_bound(double rel) { return rel < 1 ? rel / (1 - rel) * (1 + 0x1p-48) : kInfinity; }

/// 2^(bits of the fraction + 1) of a real floating dtype.
double fraction_scale(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 0x1p53;
    case DType::kF32:
      return 0x1p24;
    case DType::kF16:
      return 0x1p11;
    case DType::kBF16:
      return 0x1p8;
    default:
      return 0x1p4;  // e4m3; more than e5m2 needs
  }
}

/// One side of a block: its stored elements and their values, with zeros up to a whole number of lanes.
template <typename T>
class Values {
 public:
  void decode(const Side& side, std::int64_t begin, std::span<const std::byte> bytes, std::size_t count) {
    if (stored_as_values(side, bytes, count)) {
      values_ = reinterpret_cast<const T*>(bytes.data());
      return;
    }
    side.decode(begin, bytes, std::span(decoded_).first(count));
    std::fill(decoded_.begin() + static_cast<std::ptrdiff_t>(count),
              decoded_.begin() + static_cast<std::ptrdiff_t>(padded(count)), T{});
    values_ = decoded_.data();
  }
  static std::size_t padded(std::size_t count) {
    return (count + compare::kLanes - 1) / compare::kLanes * compare::kLanes;
  }
  const T* data() const { return values_; }
  const T& operator[](std::size_t i) const { return values_[i]; }
  /// The values as an own copy that may be changed.
  std::array<T, kBlock>& owned() {
    if (values_ != decoded_.data()) std::copy_n(values_, kBlock, decoded_.begin());
    values_ = decoded_.data();
    return decoded_;
  }

 private:
  /// A full block of floats or doubles is taken as it lies in memory.
  static bool stored_as_values(const Side& side, std::span<const std::byte> bytes, std::size_t count) {
    if constexpr (std::is_floating_point_v<T>) {
      constexpr DType kStored = std::is_same_v<T, float> ? DType::kF32 : DType::kF64;
      return side.dtype() == kStored && side.quantiser() == nullptr && count == kBlock &&
             reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(T) == 0;
    }
    return false;
  }

  const T* values_ = nullptr;
  std::array<T, kBlock> decoded_;
};

/// The stored elements of both sides, `count` from row-major index `begin` on.
struct Stretch {
  std::int64_t begin = 0;
  std::size_t count = 0;
  std::span<const std::byte> reference;
  std::span<const std::byte> subject;
};

template <typename T>
struct Pairs {
  Values<T> reference;
  Values<T> subject;
};

class Comparator {
 public:
  Comparator(const HostTensor& reference, const HostTensor& subject, const CompareOptions& options);
  TensorComparison run();

 private:
  template <typename T>
  void add_block(const Stretch& stretch, bool same_bytes);
  void add_exact_block(const Stretch& stretch);
  template <typename T>
  void take_out_nonfinite(const Stretch& stretch, Pairs<T>& pairs);
  template <typename T>
  void add_ulp(const Stretch& stretch, const Pairs<T>& pairs, double max_rel, bool cleaned);
  template <typename T>
  void count_nonfinite(std::int64_t index, const T& reference, const T& subject);
  template <typename T>
  void add_pairs(const Stretch& stretch, const Pairs<T>& pairs, const PairSums& sums);
  void add_exact_pair(std::int64_t index, const ExactValue& reference, const ExactValue& subject);
  void add_sums(const PairSums& sums);
  template <typename Real>
  void raise_needed_rtol(Real abs_d, Real abs_r);
  bool usable(const PairSums& sums) const;
  TensorComparison finished();

  Limits limits_;
  const CompareOptions& options_;
  Side reference_;
  Side subject_;
  bool complex_;
  bool counts_ulp_;
  std::vector<std::byte> cleaned_reference_;  ///< elements of a block, those of pairs that are not finite zeroed
  std::vector<std::byte> cleaned_subject_;
  std::uint64_t max_ulp_ = 0;
  std::int64_t first_disagreement_ = -1;
  Exact diff_sq_ = 0;
  Exact reference_sq_ = 0;
  Exact subject_sq_ = 0;
  Exact dot_ = 0;
  Exact abs_ = 0;
  Exact rel_ = 0;
  TensorComparison result_;
};

Comparator::Comparator(const HostTensor& reference, const HostTensor& subject, const CompareOptions& options)
    : limits_{.rtol = options.rtol, .atol = options.atol},
      options_(options),
      reference_(reference, options.reference_quantiser),
      subject_(subject, options.subject_quantiser),
      complex_(reference_.complex() || subject_.complex()),
      counts_ulp_(reference.dtype == subject.dtype && compare::has_ulp(reference.dtype) &&
                  options.reference_quantiser == nullptr && options.subject_quantiser == nullptr) {
  result_.numel = reference.numel();
  result_.compared = result_.numel;
  TL_CHECK(subject.numel() == result_.numel, "compared tensors hold the same number of elements");
  TL_CHECK(std::isfinite(options.rtol) && options.rtol >= 0 && std::isfinite(options.atol) && options.atol >= 0,
           "tolerances are finite and not negative");
}

TensorComparison Comparator::run() {
  const bool same_form =
      reference_.dtype() == subject_.dtype() && compare::same_quantiser(reference_.quantiser(), subject_.quantiser());
  const bool narrow = reference_.narrow() && subject_.narrow();
  result_.bitwise_equal = same_form;
  constexpr auto kStep = static_cast<std::int64_t>(kBlock);
  for (std::int64_t begin = 0; begin < result_.numel; begin += kStep) {
    const auto count = static_cast<std::size_t>(std::min(kStep, result_.numel - begin));
    const Stretch stretch{begin, count, reference_.block(begin, count), subject_.block(begin, count)};
    const bool same_bytes =
        same_form && std::memcmp(stretch.reference.data(), stretch.subject.data(), stretch.reference.size()) == 0;
    if (!same_bytes) result_.bitwise_equal = false;
    if (complex_) {
      add_exact_block(stretch);
    } else if (narrow) {
      add_block<float>(stretch, same_bytes);
    } else {
      add_block<double>(stretch, same_bytes);
    }
  }
  return finished();
}

template <typename T>
void Comparator::add_block(const Stretch& stretch, bool same_bytes) {
  const std::size_t padded = Values<T>::padded(stretch.count);
  Pairs<T> pairs;
  pairs.reference.decode(reference_, stretch.begin, stretch.reference, stretch.count);
  if (same_bytes) {
    const PairSums sums = compare::sum_equal(pairs.reference.data(), padded);
    if (usable(sums)) return add_sums(sums);
  }
  pairs.subject.decode(subject_, stretch.begin, stretch.subject, stretch.count);
  PairSums sums = compare::sum_pairs(pairs.reference.data(), pairs.subject.data(), padded, limits_);
  if (std::isfinite(sums.diff_sq + sums.reference_sq + sums.subject_sq)) {
    if (counts_ulp_ && sums.max_abs > 0) add_ulp(stretch, pairs, sums.max_rel, false);
    return usable(sums) ? add_pairs(stretch, pairs, sums) : add_exact_block(stretch);
  }
  const TensorComparison before = result_;
  take_out_nonfinite(stretch, pairs);
  sums = compare::sum_pairs(pairs.reference.data(), pairs.subject.data(), padded, limits_);
  if (counts_ulp_ && sums.max_abs > 0) add_ulp(stretch, pairs, sums.max_rel, true);
  if (usable(sums)) return add_pairs(stretch, pairs, sums);
  result_ = before;  // the exact sums count anew
  add_exact_block(stretch);
}

/// Whether sums in double hold what they say: nothing overflowed, underflowed or lost the last digits of an integer.
bool Comparator::usable(const PairSums& sums) const {
  if (reference_.narrow() && subject_.narrow()) return std::isfinite(sums.reference_sq);
  return square_fits(sums.max_abs) && square_fits(sums.reference_max) && square_fits(sums.subject_max) &&
         !(reference_.wide_integers() && sums.reference_max >= kExactIntegers) &&
         !(subject_.wide_integers() && sums.subject_max >= kExactIntegers);
}

/// Sets the pairs that hold a NaN or an infinity to 0 and counts them.
template <typename T>
void Comparator::take_out_nonfinite(const Stretch& stretch, Pairs<T>& pairs) {
  auto& reference = pairs.reference.owned();
  auto& subject = pairs.subject.owned();
  for (std::size_t i = 0; i < stretch.count; ++i) {
    if (is_finite(reference[i]) && is_finite(subject[i])) continue;
    count_nonfinite(stretch.begin + static_cast<std::int64_t>(i), reference[i], subject[i]);
    reference[i] = subject[i] = 0;
  }
}

template <typename T>
void Comparator::count_nonfinite(std::int64_t index, const T& reference, const T& subject) {
  --result_.compared;
  bool equal = false;
  if (is_nan(reference) && is_nan(subject)) {
    ++result_.nan_both;
    equal = options_.equal_nan;
  } else if (is_nan(reference)) {
    ++result_.nan_only_reference;
  } else if (is_nan(subject)) {
    ++result_.nan_only_subject;
  } else if (same(reference, subject)) {
    ++result_.inf_both;
    equal = options_.equal_inf;
  } else {
    ++result_.inf_disagreements;
  }
  if (equal) return;
  ++result_.nonfinite_disagreements;
  ++result_.differing;
  ++result_.mismatched;
  if (first_disagreement_ < 0) first_disagreement_ = index;
}

/// `cleaned`: pairs that hold a NaN or an infinity are 0 in the values; their bits count for nothing.
template <typename T>
void Comparator::add_ulp(const Stretch& stretch, const Pairs<T>& pairs, double max_rel, bool cleaned) {
  // Next to x numbers are more than |x| / fraction_scale apart, and no number between r and s is nearer to 0 than both.
  const double bound = ratio_bound(max_rel) * fraction_scale(reference_.dtype());
  if (bound < static_cast<double>(max_ulp_)) return;
  const std::size_t item = item_bytes(reference_.dtype());
  const std::byte* reference = stretch.reference.data();
  const std::byte* subject = stretch.subject.data();
  if (cleaned) {
    cleaned_reference_.assign(stretch.reference.begin(), stretch.reference.end());
    cleaned_subject_.assign(stretch.subject.begin(), stretch.subject.end());
    for (std::size_t i = 0; i < stretch.count; ++i) {
      if (pairs.reference[i] != 0 || pairs.subject[i] != 0) continue;
      std::memset(cleaned_reference_.data() + i * item, 0, item);
      std::memset(cleaned_subject_.data() + i * item, 0, item);
    }
    reference = cleaned_reference_.data();
    subject = cleaned_subject_.data();
  }
  max_ulp_ = std::max(max_ulp_, compare::max_ulp(reference, subject, stretch.count, item));
}

template <typename T>
void Comparator::add_pairs(const Stretch& stretch, const Pairs<T>& pairs, const PairSums& sums) {
  const std::size_t padded = Values<T>::padded(stretch.count);
  const T* r = pairs.reference.data();
  const T* s = pairs.subject.data();
  const auto difference = [&](std::size_t i) {
    return std::fabs(static_cast<double>(s[i]) - static_cast<double>(r[i]));
  };
  add_sums(sums);
  if (sums.max_abs > result_.max_abs) {
    std::size_t i = 0;
    while (difference(i) != sums.max_abs) ++i;
    result_.max_abs = sums.max_abs;
    result_.worst_index = stretch.begin + static_cast<std::int64_t>(i);
  }
  const double rel_bound = ratio_bound(sums.max_rel);  // most blocks need no closer look
  const Limits known{.rtol = result_.needed_rtol, .atol = limits_.atol};
  if (sums.max_abs <= limits_.atol || rel_bound < result_.needed_rtol) return;
  if (result_.needed_rtol == kInfinity || !compare::exceeds_rtol(r, s, padded, known)) return;
  for (std::size_t i = 0; i < stretch.count; ++i)
    raise_needed_rtol(difference(i), std::fabs(static_cast<double>(r[i])));
}

void Comparator::add_sums(const PairSums& sums) {
  diff_sq_ += sums.diff_sq;
  reference_sq_ += sums.reference_sq;
  subject_sq_ += sums.subject_sq;
  dot_ += sums.dot;
  abs_ += sums.abs;
  rel_ += sums.rel;
  result_.max_rel = std::max(result_.max_rel, sums.max_rel);
  result_.reference_max = std::max(result_.reference_max, sums.reference_max);
  result_.needed_atol = std::max(result_.needed_atol, sums.needed_atol);
  result_.differing += sums.differing;
  result_.mismatched += sums.mismatched;
  result_.sign_disagreements += sums.signs;
}

template <typename Real>
void Comparator::raise_needed_rtol(Real abs_d, Real abs_r) {
  double& needed = result_.needed_rtol;
  if (!(abs_d - limits_.atol > needed * abs_r)) return;
  needed = abs_r == 0 ? kInfinity : std::max(needed, static_cast<double>((abs_d - limits_.atol) / abs_r));
  // The quotient is rounded; make it one that passes.
  while (needed != kInfinity && abs_d - needed * abs_r > limits_.atol) needed = std::nextafter(needed, kInfinity);
}

void Comparator::add_exact_block(const Stretch& stretch) {
  Pairs<ExactValue> pairs;
  pairs.reference.decode(reference_, stretch.begin, stretch.reference, stretch.count);
  pairs.subject.decode(subject_, stretch.begin, stretch.subject, stretch.count);
  for (std::size_t i = 0; i < stretch.count; ++i) {
    const ExactValue& r = pairs.reference[i];
    const ExactValue& s = pairs.subject[i];
    const std::int64_t index = stretch.begin + static_cast<std::int64_t>(i);
    if (is_finite(r) && is_finite(s)) {
      add_exact_pair(index, r, s);
    } else {
      count_nonfinite(index, r, s);
    }
  }
}

void Comparator::add_exact_pair(std::int64_t index, const ExactValue& reference, const ExactValue& subject) {
  const Exact abs_d = magnitude({subject.real - reference.real, subject.imaginary - reference.imaginary});
  const Exact abs_r = magnitude(reference);
  const Exact abs_s = magnitude(subject);
  const Exact rel = abs_d == 0 ? 0 : abs_d / std::max(abs_r, abs_s);
  diff_sq_ += abs_d * abs_d;
  reference_sq_ += abs_r * abs_r;
  subject_sq_ += abs_s * abs_s;
  dot_ += reference.real * subject.real + reference.imaginary * subject.imaginary;
  abs_ += abs_d;
  rel_ += rel;
  result_.max_rel = std::max(result_.max_rel, static_cast<double>(rel));
  result_.reference_max = std::max(result_.reference_max, static_cast<double>(abs_r));
  if (abs_d != 0) ++result_.differing;
  if (!complex_ && reference.real * subject.real < 0) ++result_.sign_disagreements;
  const Exact beyond = abs_d - limits_.rtol * abs_r;
  if (beyond > limits_.atol) ++result_.mismatched;
  if (beyond > result_.needed_atol) result_.needed_atol = rounded_up(beyond);
  raise_needed_rtol(abs_d, abs_r);
  const auto d = static_cast<double>(abs_d);
  if (d > result_.max_abs) {
    result_.max_abs = d;
    result_.worst_index = index;
  }
}

TensorComparison Comparator::finished() {
  const auto pairs = static_cast<Exact>(result_.compared);
  const Exact diff = std::sqrt(diff_sq_);
  const Exact reference = std::sqrt(reference_sq_);
  const Exact subject = std::sqrt(subject_sq_);
  if (result_.compared > 0) {
    result_.mean_abs = static_cast<double>(abs_ / pairs);
    result_.mean_rel = static_cast<double>(rel_ / pairs);
    result_.mse = static_cast<double>(diff_sq_ / pairs);
  }
  result_.reference_l2 = static_cast<double>(reference);
  result_.subject_l2 = static_cast<double>(subject);
  if (diff == 0) {
    result_.sqnr_db = kInfinity;
  } else if (reference == 0) {
    result_.rel_l2 = kInfinity;
    result_.sqnr_db = -kInfinity;
  } else {
    result_.rel_l2 = static_cast<double>(diff / reference);
    result_.sqnr_db = static_cast<double>(20 * std::log10(reference / diff));
  }
  if (reference == 0 || subject == 0) {
    result_.cosine = reference == subject ? 1 : 0;
  } else {
    result_.cosine = std::clamp(static_cast<double>(dot_ / reference / subject), -1.0, 1.0);
  }
  if (counts_ulp_) result_.max_ulp = max_ulp_;
  if (first_disagreement_ >= 0) result_.worst_index = first_disagreement_;
  return result_;
}

}  // namespace

TensorComparison compare_tensors(const HostTensor& reference, const HostTensor& subject,
                                 const CompareOptions& options) {
  return Comparator(reference, subject, options).run();
}

}  // namespace tl
