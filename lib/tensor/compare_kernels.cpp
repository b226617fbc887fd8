#include "tensor/compare_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/error.h"
#include "tensor/vector_clones.h"

namespace tl::compare {
namespace {

// GCC's and Clang's vector types: one register with AVX2, two with SSE2 or NEON, and independent of what the optimiser
// makes of a loop.
template <typename T>
using Lanes __attribute__((vector_size(kLanes * sizeof(T)))) = T;
using Doubles = Lanes<double>;
using Masks = Lanes<std::int64_t>;

[[gnu::always_inline]] inline void load(Doubles& lanes, const double* values) {
  std::memcpy(&lanes, values, sizeof(lanes));
}

[[gnu::always_inline]] inline void load(Doubles& lanes, const float* values) {
  // Not __builtin_convertvector, which GCC 12 splits in two halves that pass through memory.
  lanes = Doubles{values[0], values[1], values[2], values[3]};
}

[[gnu::always_inline]] inline void make_absolute(Doubles& lanes) {
  lanes = reinterpret_cast<Doubles>(reinterpret_cast<Masks>(lanes) & std::numeric_limits<std::int64_t>::max());
}

/// NaN never enters the maximum.
[[gnu::always_inline]] inline void raise(Doubles& maximum, const Doubles& lanes) {
  maximum = lanes > maximum ? lanes : maximum;
}

double sum_of(const Doubles& lanes) { return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]); }
double max_of(const Doubles& lanes) { return std::max(std::max(lanes[0], lanes[1]), std::max(lanes[2], lanes[3])); }
std::int64_t count_of(const Masks& lanes) { return -(lanes[0] + lanes[1] + lanes[2] + lanes[3]); }

/// The larger of two magnitudes as a divisor of their difference, which is 0 where it is 0.
template <typename T>
[[gnu::always_inline]] inline void make_divisor(Doubles& larger) {
  if constexpr (std::is_same_v<T, float>) {
    raise(larger, Doubles{} + std::numeric_limits<double>::min());  // far below every float but 0
  } else {
    larger = larger == 0.0 ? Doubles{} + 1.0 : larger;
  }
}

struct PairLanes {
  Doubles diff_sq{}, reference_sq{}, subject_sq{}, dot{}, abs{}, rel{};
  Doubles max_abs{}, max_rel{}, reference_max{}, subject_max{}, needed_atol{};
  Masks mismatched{}, differing{}, signs{};
};

template <typename T>
[[gnu::always_inline]] inline PairSums sum_pair_lanes(const T* reference, const T* subject, std::size_t count,
                                                      const Limits& limits) {
  constexpr bool kWide = std::is_same_v<T, double>;
  PairLanes at;
  for (std::size_t i = 0; i < count; i += kLanes) {
    Doubles r;
    Doubles s;
    load(r, reference + i);
    load(s, subject + i);
    const Doubles d = s - r;
    at.diff_sq += d * d;
    at.reference_sq += r * r;
    at.subject_sq += s * s;
    const Doubles product = r * s;
    at.dot += product;
    at.differing += r != s;
    if constexpr (!kWide) {
      at.signs += product < 0.0;
    } else {
      at.signs += ((r < 0.0) & (s > 0.0)) | ((r > 0.0) & (s < 0.0));  // the product may underflow
    }
    Doubles abs_d = d;
    Doubles abs_r = r;
    Doubles abs_s = s;
    make_absolute(abs_d);
    make_absolute(abs_r);
    make_absolute(abs_s);
    at.abs += abs_d;
    raise(at.max_abs, abs_d);
    raise(at.reference_max, abs_r);
    if constexpr (kWide) raise(at.subject_max, abs_s);
    Doubles larger = abs_r > abs_s ? abs_r : abs_s;
    make_divisor<T>(larger);
    const Doubles rel = abs_d / larger;
    at.rel += rel;
    raise(at.max_rel, rel);
    const Doubles allowed = limits.rtol * abs_r;
    const Doubles beyond = abs_d - allowed;
    raise(at.needed_atol, beyond);
    at.mismatched += beyond > limits.atol;
  }
  return {.diff_sq = sum_of(at.diff_sq),
          .reference_sq = sum_of(at.reference_sq),
          .subject_sq = sum_of(at.subject_sq),
          .dot = sum_of(at.dot),
          .abs = sum_of(at.abs),
          .rel = sum_of(at.rel),
          .max_abs = max_of(at.max_abs),
          .max_rel = max_of(at.max_rel),
          .reference_max = max_of(at.reference_max),
          .subject_max = max_of(at.subject_max),
          .needed_atol = max_of(at.needed_atol),
          .mismatched = count_of(at.mismatched),
          .differing = count_of(at.differing),
          .signs = count_of(at.signs)};
}

template <typename T>
[[gnu::always_inline]] inline PairSums sum_equal_lanes(const T* values, std::size_t count) {
  Doubles squares{};
  Doubles maximum{};
  for (std::size_t i = 0; i < count; i += kLanes) {
    Doubles v;
    load(v, values + i);
    squares += v * v;
    make_absolute(v);
    raise(maximum, v);
  }
  PairSums sums;
  sums.reference_sq = sums.subject_sq = sums.dot = sum_of(squares);
  sums.reference_max = sums.subject_max = max_of(maximum);
  return sums;
}

/// |d| and |r| of the next pairs.
template <typename T>
[[gnu::always_inline]] inline void load_magnitudes(Doubles& abs_d, Doubles& abs_r, const T* reference,
                                                   const T* subject) {
  load(abs_r, reference);
  load(abs_d, subject);
  abs_d -= abs_r;
  make_absolute(abs_d);
  make_absolute(abs_r);
}

template <typename T>
[[gnu::always_inline]] inline bool exceeds_rtol_lanes(const T* reference, const T* subject, std::size_t count,
                                                      const Limits& limits) {
  Masks exceeding{};
  for (std::size_t i = 0; i < count; i += kLanes) {
    Doubles abs_d;
    Doubles abs_r;
    load_magnitudes(abs_d, abs_r, reference + i, subject + i);
    exceeding |= abs_d - limits.atol > limits.rtol * abs_r;
  }
  return count_of(exceeding) != 0;
}

/// Bytes of a vector of bits: a register with AVX2.
constexpr std::size_t kRegister = 32;

/// The bits of floats as integers that grow by one from each number to the next, 0 for both zeros.
template <typename Vector>
[[gnu::always_inline]] inline void order(Vector& bits) {
  using Element = std::remove_reference_t<decltype(bits[0])>;
  const Vector negative = bits < 0;
  bits &= std::numeric_limits<Element>::max();
  bits = (bits ^ negative) - negative;
}

/// `Signed` has the size of the floats.
template <typename Signed>
[[gnu::always_inline]] inline std::uint64_t max_distance(const std::byte* reference, const std::byte* subject,
                                                         std::size_t count) {
  using Unsigned = std::make_unsigned_t<Signed>;
  using Ordered __attribute__((vector_size(kRegister))) = Signed;
  using Distances __attribute__((vector_size(kRegister))) = Unsigned;
  constexpr std::size_t kElements = kRegister / sizeof(Signed);
  Distances most{};
  for (std::size_t i = 0; i < count; i += kElements) {
    const std::size_t bytes = std::min(kElements, count - i) * sizeof(Signed);
    Ordered r{};
    Ordered s{};
    if (bytes == kRegister) {
      std::memcpy(&r, reference + i * sizeof(Signed), kRegister);
      std::memcpy(&s, subject + i * sizeof(Signed), kRegister);
    } else {
      std::memcpy(&r, reference + i * sizeof(Signed), bytes);
      std::memcpy(&s, subject + i * sizeof(Signed), bytes);
    }
    order(r);
    order(s);
    const auto up = reinterpret_cast<Distances>(s) - reinterpret_cast<Distances>(r);
    const Distances distance = r > s ? -up : up;
    most = distance > most ? distance : most;
  }
  Unsigned greatest = 0;
  for (std::size_t lane = 0; lane < kElements; ++lane) greatest = std::max<Unsigned>(greatest, most[lane]);
  return greatest;
}

TL_VECTOR_CLONES std::uint64_t max_ulp_8(const std::byte* r, const std::byte* s, std::size_t count) {
  return max_distance<std::int8_t>(r, s, count);
}
TL_VECTOR_CLONES std::uint64_t max_ulp_16(const std::byte* r, const std::byte* s, std::size_t count) {
  return max_distance<std::int16_t>(r, s, count);
}
TL_VECTOR_CLONES std::uint64_t max_ulp_32(const std::byte* r, const std::byte* s, std::size_t count) {
  return max_distance<std::int32_t>(r, s, count);
}
TL_VECTOR_CLONES std::uint64_t max_ulp_64(const std::byte* r, const std::byte* s, std::size_t count) {
  return max_distance<std::int64_t>(r, s, count);
}

}  // namespace

TL_VECTOR_CLONES PairSums sum_pairs(const float* reference, const float* subject, std::size_t count,
                                    const Limits& limits) {
  return sum_pair_lanes(reference, subject, count, limits);
}
TL_VECTOR_CLONES PairSums sum_pairs(const double* reference, const double* subject, std::size_t count,
                                    const Limits& limits) {
  return sum_pair_lanes(reference, subject, count, limits);
}

TL_VECTOR_CLONES PairSums sum_equal(const float* values, std::size_t count) { return sum_equal_lanes(values, count); }
TL_VECTOR_CLONES PairSums sum_equal(const double* values, std::size_t count) { return sum_equal_lanes(values, count); }

TL_VECTOR_CLONES bool exceeds_rtol(const float* reference, const float* subject, std::size_t count,
                                   const Limits& limits) {
  return exceeds_rtol_lanes(reference, subject, count, limits);
}
TL_VECTOR_CLONES bool exceeds_rtol(const double* reference, const double* subject, std::size_t count,
                                   const Limits& limits) {
  return exceeds_rtol_lanes(reference, subject, count, limits);
}

std::uint64_t max_ulp(const std::byte* reference, const std::byte* subject, std::size_t count, std::size_t item) {
  switch (item) {
    case 1:
      return max_ulp_8(reference, subject, count);
    case 2:
      return max_ulp_16(reference, subject, count);
    case 4:
      return max_ulp_32(reference, subject, count);
    case 8:
      return max_ulp_64(reference, subject, count);
    default:
      TL_CHECK(false, "a real floating dtype has 1, 2, 4 or 8 bytes");
  }
}

}  // namespace tl::compare
