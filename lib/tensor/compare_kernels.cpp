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
                                                      double rtol) {
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
    const Doubles allowed = rtol * abs_r;
    raise(at.needed_atol, abs_d - allowed);
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
[[gnu::always_inline]] inline std::int64_t count_mismatched_lanes(const T* reference, const T* subject,
                                                                  std::size_t count, const Limits& limits) {
  Masks mismatched{};
  for (std::size_t i = 0; i < count; i += kLanes) {
    Doubles abs_d;
    Doubles abs_r;
    load_magnitudes(abs_d, abs_r, reference + i, subject + i);
    mismatched += abs_d - limits.rtol * abs_r > limits.atol;
  }
  return count_of(mismatched);
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

/// The bits of a float as an integer that grows by one from each number to the next, 0 for both zeros.
template <typename Signed, typename Bits>
[[gnu::always_inline]] inline Signed ordered(Bits bits) {
  constexpr auto kTop = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  const auto magnitude = static_cast<Signed>(bits & static_cast<Bits>(~kTop));
  return (bits & kTop) != 0 ? static_cast<Signed>(-magnitude) : magnitude;
}

/// `Signed` holds every ordered(); `Distance` every difference of two.
template <typename Bits, typename Signed, typename Distance>
[[gnu::always_inline]] inline std::uint64_t max_distance(const std::byte* reference, const std::byte* subject,
                                                         std::size_t count) {
  Distance most = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Bits r;
    Bits s;
    std::memcpy(&r, reference + i * sizeof(Bits), sizeof(Bits));
    std::memcpy(&s, subject + i * sizeof(Bits), sizeof(Bits));
    const auto a = ordered<Signed>(r);
    const auto b = ordered<Signed>(s);
    const Distance distance = a > b ? static_cast<Distance>(static_cast<Distance>(a) - static_cast<Distance>(b))
                                    : static_cast<Distance>(static_cast<Distance>(b) - static_cast<Distance>(a));
    most = distance > most ? distance : most;
  }
  return most;
}

TL_VECTOR_CLONES std::uint64_t max_ulp_8(const std::byte* r, const std::byte* s, std::size_t count) {
  return max_distance<std::uint8_t, std::int16_t, std::uint16_t>(r, s, count);
}
TL_VECTOR_CLONES std::uint64_t max_ulp_16(const std::byte* r, const std::byte* s, std::size_t count) {
  return max_distance<std::uint16_t, std::int16_t, std::uint16_t>(r, s, count);
}
TL_VECTOR_CLONES std::uint64_t max_ulp_32(const std::byte* r, const std::byte* s, std::size_t count) {
  return max_distance<std::uint32_t, std::int32_t, std::uint32_t>(r, s, count);
}
TL_VECTOR_CLONES std::uint64_t max_ulp_64(const std::byte* r, const std::byte* s, std::size_t count) {
  return max_distance<std::uint64_t, std::int64_t, std::uint64_t>(r, s, count);
}

}  // namespace

TL_VECTOR_CLONES PairSums sum_pairs(const float* reference, const float* subject, std::size_t count, double rtol) {
  return sum_pair_lanes(reference, subject, count, rtol);
}
TL_VECTOR_CLONES PairSums sum_pairs(const double* reference, const double* subject, std::size_t count, double rtol) {
  return sum_pair_lanes(reference, subject, count, rtol);
}

TL_VECTOR_CLONES PairSums sum_equal(const float* values, std::size_t count) { return sum_equal_lanes(values, count); }
TL_VECTOR_CLONES PairSums sum_equal(const double* values, std::size_t count) { return sum_equal_lanes(values, count); }

TL_VECTOR_CLONES std::int64_t count_mismatched(const float* reference, const float* subject, std::size_t count,
                                               const Limits& limits) {
  return count_mismatched_lanes(reference, subject, count, limits);
}
TL_VECTOR_CLONES std::int64_t count_mismatched(const double* reference, const double* subject, std::size_t count,
                                               const Limits& limits) {
  return count_mismatched_lanes(reference, subject, count, limits);
}

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
