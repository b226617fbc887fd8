#include "tensor/block_kernels.h"

#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#if defined(__x86_64__)
#define TL_KERNELS_X86 1
#else
#define TL_KERNELS_X86 0
#endif

namespace tl {
namespace {

constexpr std::size_t kLanes = 16;

template <typename T, std::size_t kWidth>
struct VectorOf {
  typedef T Type __attribute__((vector_size(sizeof(T) * kWidth)));
};

/// The lanes as vectors of kWidth, which is what one register holds: 8 doubles with AVX-512, 4 with AVX, 2 with
/// SSE2. The loops over parts are unrolled, so that the accumulators stay in registers.
template <typename T, std::size_t kWidth>
struct Lanes {
  static constexpr std::size_t kParts = kLanes / kWidth;
  using Bits = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  using Values = typename VectorOf<T, kWidth>::Type;
  using Doubles = typename VectorOf<double, kWidth>::Type;
  using DoubleBits = typename VectorOf<std::int64_t, kWidth>::Type;
  using ValueBits = typename VectorOf<Bits, kWidth>::Type;
  static constexpr Bits kMagnitude = std::numeric_limits<Bits>::max();
  static constexpr Bits kInfinity = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
};

/// Calls visit(values) for stretches of kLanes; the last one is filled up with `fill`.
template <typename T, typename Visit>
[[gnu::always_inline]] inline void for_each_row(const T* values, std::size_t count, T fill, Visit visit) {
  const std::size_t whole = count - count % kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) visit(values + i);
  if (whole == count) return;
  T last[kLanes];
  for (std::size_t lane = 0; lane < kLanes; ++lane) last[lane] = whole + lane < count ? values[whole + lane] : fill;
  visit(static_cast<const T*>(last));
}

template <std::size_t kWidth, typename T>
[[gnu::always_inline]] inline bool find_nonfinite(const T* values, std::size_t count) {
  using L = Lanes<T, kWidth>;
  typename L::ValueBits most[L::kParts] = {};
  for_each_row(
      values, count, T{0}, [&](const T* at) __attribute__((always_inline)) {
#pragma GCC unroll 16
        for (std::size_t part = 0; part < L::kParts; ++part) {
          typename L::ValueBits bits;
          std::memcpy(&bits, at + part * kWidth, sizeof(bits));
          bits &= L::kMagnitude;
          most[part] = bits > most[part] ? bits : most[part];
        }
      });
  bool found = false;
  for (std::size_t lane = 0; lane < kLanes; ++lane) found |= most[lane / kWidth][lane % kWidth] >= L::kInfinity;
  return found;
}

template <std::size_t kWidth, bool kSums, bool kSquares, typename T>
[[gnu::always_inline]] inline BlockMoments add_moments(const T* values, std::size_t count) {
  using L = Lanes<T, kWidth>;
  typename L::Doubles sum[L::kParts] = {};
  typename L::Doubles abs_sum[L::kParts] = {};
  typename L::Doubles sum_sq[L::kParts] = {};
  for_each_row(
      values, count, T{0}, [&](const T* at) __attribute__((always_inline)) {
#pragma GCC unroll 16
        for (std::size_t part = 0; part < L::kParts; ++part) {
          typename L::Values value;
          std::memcpy(&value, at + part * kWidth, sizeof(value));
          const auto wide = __builtin_convertvector(value, typename L::Doubles);
          if constexpr (kSums) {
            constexpr auto kMagnitude = std::numeric_limits<std::int64_t>::max();
            sum[part] += wide;
            abs_sum[part] +=
                reinterpret_cast<typename L::Doubles>(reinterpret_cast<typename L::DoubleBits>(wide) & kMagnitude);
          }
          if constexpr (kSquares) sum_sq[part] += wide * wide;
        }
      });
  BlockMoments total;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    total.sum += sum[lane / kWidth][lane % kWidth];
    total.abs_sum += abs_sum[lane / kWidth][lane % kWidth];
    total.sum_sq += sum_sq[lane / kWidth][lane % kWidth];
  }
  return total;
}

template <std::size_t kWidth, typename T>
[[gnu::always_inline]] inline BlockExtremes<T> find_extremes(const T* values, std::size_t count) {
  using L = Lanes<T, kWidth>;
  typename L::Values low[L::kParts];
  typename L::Values high[L::kParts];
  for (std::size_t part = 0; part < L::kParts; ++part) high[part] = low[part] = typename L::Values{} + values[0];
  for_each_row(
      values, count, values[0], [&](const T* at) __attribute__((always_inline)) {
#pragma GCC unroll 16
        for (std::size_t part = 0; part < L::kParts; ++part) {
          typename L::Values value;
          std::memcpy(&value, at + part * kWidth, sizeof(value));
          low[part] = value < low[part] ? value : low[part];
          high[part] = value > high[part] ? value : high[part];
        }
      });
  BlockExtremes<T> found{values[0], values[0]};
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const T lowest = low[lane / kWidth][lane % kWidth];
    const T highest = high[lane / kWidth][lane % kWidth];
    if (lowest < found.min) found.min = lowest;
    if (highest > found.max) found.max = highest;
  }
  return found;
}

template <std::size_t kWidth, typename T>
[[gnu::always_inline]] inline BlockCounts count_small(const T* values, std::size_t count, T threshold) {
  using L = Lanes<T, kWidth>;
  const auto limit = std::bit_cast<typename L::Bits>(threshold);
  typename L::ValueBits zeros[L::kParts] = {};
  typename L::ValueBits small[L::kParts] = {};
  for_each_row(
      values, count, std::numeric_limits<T>::max(), [&](const T* at) __attribute__((always_inline)) {
#pragma GCC unroll 16
        for (std::size_t part = 0; part < L::kParts; ++part) {
          typename L::ValueBits bits;
          std::memcpy(&bits, at + part * kWidth, sizeof(bits));
          bits &= L::kMagnitude;
          zeros[part] -= bits == 0;
          small[part] -= bits < limit;
        }
      });
  BlockCounts total;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    total.zeros += zeros[lane / kWidth][lane % kWidth];
    total.small += small[lane / kWidth][lane % kWidth];
  }
  return total;
}

template <std::size_t kWidth, typename T>
[[gnu::always_inline]] inline double add_deviations(const T* values, std::size_t count, double mean) {
  using L = Lanes<T, kWidth>;
  typename L::Doubles sum[L::kParts] = {};
  const std::size_t whole = count - count % kLanes;
  for_each_row(
      values, whole, T{0}, [&](const T* at) __attribute__((always_inline)) {
#pragma GCC unroll 16
        for (std::size_t part = 0; part < L::kParts; ++part) {
          typename L::Values value;
          std::memcpy(&value, at + part * kWidth, sizeof(value));
          const auto deviation = __builtin_convertvector(value, typename L::Doubles) - mean;
          sum[part] += deviation * deviation;
        }
      });
  double total = 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) total += sum[lane / kWidth][lane % kWidth];
  for (std::size_t i = whole; i < count; ++i) {
    const double deviation = static_cast<double>(values[i]) - mean;
    total += deviation * deviation;
  }
  return total;
}

/// Calls convert(bits) for stretches of kWidth 16-bit codes, widened to 32 bits, and stores the floats it gives.
template <std::size_t kWidth, typename Convert>
[[gnu::always_inline]] inline void widen_codes(const std::byte* packed, float* values, std::size_t count,
                                               Convert convert) {
  using Codes = typename VectorOf<std::uint16_t, kWidth>::Type;
  using Wide = typename VectorOf<std::uint32_t, kWidth>::Type;
  std::size_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    Codes codes;
    std::memcpy(&codes, packed + i * 2, sizeof(codes));
    Wide bits = __builtin_convertvector(codes, Wide);
    convert(bits);
    std::memcpy(values + i, &bits, sizeof(bits));
  }
  if (i == count) return;
  Codes codes{};
  std::memcpy(&codes, packed + i * 2, (count - i) * 2);
  Wide bits = __builtin_convertvector(codes, Wide);
  convert(bits);
  std::memcpy(values + i, &bits, (count - i) * sizeof(float));
}

/// Of halves: subnormals by a subtraction of normal numbers, so that a thread that flushes subnormals to zero gets the
/// same values.
template <std::size_t kWidth>
[[gnu::always_inline]] inline void widen_halves(const std::byte* packed, float* values, std::size_t count) {
  using Wide = typename VectorOf<std::uint32_t, kWidth>::Type;
  using Floats = typename VectorOf<float, kWidth>::Type;
  static constexpr std::uint32_t kRebias = 112U << 23;
  static constexpr std::uint32_t kSmallestNormal = 113U << 23;
  widen_codes<kWidth>(
      packed, values, count, [](Wide & bits) __attribute__((always_inline)) {
        const Wide sign = (bits & 0x8000U) << 16;
        const Wide magnitude = (bits & 0x7fffU) << 13;
        const Wide exponent = bits & 0x7c00U;
        const auto shifted = reinterpret_cast<Floats>(magnitude + kSmallestNormal);
        const auto subnormal = reinterpret_cast<Wide>(shifted - std::bit_cast<float>(kSmallestNormal));
        const Wide special = reinterpret_cast<Wide>(exponent == 0x7c00U) & kRebias;
        const Wide normal = magnitude + kRebias + special;
        bits = sign | (exponent == 0 ? subnormal : normal);
      });
}

template <std::size_t kWidth>
[[gnu::always_inline]] inline void widen_brain_floats(const std::byte* packed, float* values, std::size_t count) {
  using Wide = typename VectorOf<std::uint32_t, kWidth>::Type;
  widen_codes<kWidth>(
      packed, values, count, [](Wide & bits) __attribute__((always_inline)) { bits <<= 16; });
}

// One set of functions an instruction set: NAME, its target attribute, doubles a register.
#define TL_KERNELS_OF(NAME, TARGET, WIDTH, T)                                                                      \
  TARGET bool has_nonfinite_##NAME(const T* v, std::size_t n) { return find_nonfinite<WIDTH>(v, n); }              \
  TARGET BlockMoments sums_##NAME(const T* v, std::size_t n) { return add_moments<WIDTH, true, false>(v, n); }     \
  TARGET BlockMoments squares_##NAME(const T* v, std::size_t n) { return add_moments<WIDTH, false, true>(v, n); }  \
  TARGET BlockMoments both_##NAME(const T* v, std::size_t n) { return add_moments<WIDTH, true, true>(v, n); }      \
  TARGET BlockExtremes<T> extremes_##NAME(const T* v, std::size_t n) { return find_extremes<WIDTH>(v, n); }        \
  TARGET BlockCounts counts_##NAME(const T* v, std::size_t n, T limit) { return count_small<WIDTH>(v, n, limit); } \
  TARGET double deviations_##NAME(const T* v, std::size_t n, double mean) { return add_deviations<WIDTH>(v, n, mean); }
#define TL_KERNEL_SET(NAME, TARGET, WIDTH)                                                                 \
  TL_KERNELS_OF(NAME, TARGET, WIDTH, float)                                                                \
  TL_KERNELS_OF(NAME, TARGET, WIDTH, double)                                                               \
  TARGET void bf16_##NAME(const std::byte* p, float* v, std::size_t n) { widen_brain_floats<8>(p, v, n); } \
  TARGET void f16_##NAME(const std::byte* p, float* v, std::size_t n) { widen_halves<8>(p, v, n); }        \
  constexpr BlockKernels<float> kFloat_##NAME = {has_nonfinite_##NAME, sums_##NAME,     squares_##NAME,    \
                                                 both_##NAME,          extremes_##NAME, counts_##NAME,     \
                                                 deviations_##NAME,    bf16_##NAME,     f16_##NAME};       \
  constexpr BlockKernels<double> kDouble_##NAME = {has_nonfinite_##NAME, sums_##NAME,     squares_##NAME,  \
                                                   both_##NAME,          extremes_##NAME, counts_##NAME,   \
                                                   deviations_##NAME,    nullptr,         nullptr};

TL_KERNEL_SET(portable, , 2)
#if TL_KERNELS_X86
TL_KERNEL_SET(avx2, __attribute__((target("avx2"))), 4)
TL_KERNEL_SET(avx512, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"))), 8)

bool can_run(KernelSet set) {
  if (set == KernelSet::kAvx2) return __builtin_cpu_supports("avx2") != 0;
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
}
#endif

template <typename Kernels>
const Kernels& choose(KernelSet set, const Kernels& portable, [[maybe_unused]] const Kernels& avx2,
                      [[maybe_unused]] const Kernels& avx512) {
#if TL_KERNELS_X86
  if (set == KernelSet::kPortable) return portable;
  if (set != KernelSet::kAvx2 && can_run(KernelSet::kAvx512)) return avx512;
  if (set != KernelSet::kAvx512 && can_run(KernelSet::kAvx2)) return avx2;
#else
  static_cast<void>(set);
#endif
  return portable;
}

}  // namespace

#if TL_KERNELS_X86
const BlockKernels<float>& float_kernels(KernelSet set) {
  return choose(set, kFloat_portable, kFloat_avx2, kFloat_avx512);
}
const BlockKernels<double>& double_kernels(KernelSet set) {
  return choose(set, kDouble_portable, kDouble_avx2, kDouble_avx512);
}
#else
const BlockKernels<float>& float_kernels(KernelSet set) {
  return choose(set, kFloat_portable, kFloat_portable, kFloat_portable);
}
const BlockKernels<double>& double_kernels(KernelSet set) {
  return choose(set, kDouble_portable, kDouble_portable, kDouble_portable);
}
#endif

}  // namespace tl
