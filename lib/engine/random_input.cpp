#include "engine/random_input.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <numbers>

#include "core/error.h"

namespace tl {
namespace {

constexpr std::size_t kMaxRandomBytes = std::size_t{16} << 30;

class Xoshiro256 {
 public:
  explicit Xoshiro256(std::uint64_t seed) {
    for (auto& word : state_) {  // splitmix64
      seed += 0x9e3779b97f4a7c15u;
      std::uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      word = z ^ (z >> 31);
    }
  }

  std::uint64_t next() {
    const std::uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// In [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  double normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    const double angle = 2.0 * std::numbers::pi * uniform();
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }

  /// In [0, bound), without bias: the tail that does not divide evenly is drawn again.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t limit = ~std::uint64_t{0} - ~std::uint64_t{0} % bound;
    std::uint64_t value = next();
    while (value >= limit) value = next();
    return value % bound;
  }

 private:
  std::uint64_t state_[4];
  double spare_ = 0;
  bool has_spare_ = false;
};

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

std::uint16_t bfloat16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// Finite input of moderate size only, which is all that a normal variate is.
std::uint16_t float16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const float magnitude = std::fabs(value);
  if (magnitude < 0x1.0p-14f) {  // subnormal half: multiples of 2^-24
    return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(std::nearbyint(magnitude * 0x1.0p24f)));
  }
  const std::uint32_t positive = std::bit_cast<std::uint32_t>(magnitude) - (std::uint32_t{112} << 23);
  return static_cast<std::uint16_t>(sign | ((positive + 0xfffu + ((positive >> 13) & 1u)) >> 13));
}

template <typename T>
void store(std::vector<std::byte>& bytes, std::size_t index, T value) {
  std::memcpy(bytes.data() + index * sizeof(T), &value, sizeof(T));
}

template <typename T>
void fill_normal(std::vector<std::byte>& bytes, Xoshiro256& generator) {
  const std::size_t count = bytes.size() / sizeof(T);
  for (std::size_t i = 0; i < count; ++i) store(bytes, i, static_cast<T>(generator.normal()));
}

template <typename T>
void fill_integers(std::vector<std::byte>& bytes, Xoshiro256& generator, std::uint64_t bound) {
  const std::size_t count = bytes.size() / sizeof(T);
  for (std::size_t i = 0; i < count; ++i) store(bytes, i, static_cast<T>(generator.below(bound)));
}

/// Largest value + 1 of an integer type of `bytes` bytes, as far as int64 holds it.
std::int64_t range_end(DType dtype) {
  switch (dtype) {
    case DType::kI8:
      return 1 << 7;
    case DType::kU8:
      return 1 << 8;
    case DType::kI16:
      return 1 << 15;
    case DType::kU16:
      return 1 << 16;
    case DType::kI32:
      return std::int64_t{1} << 31;
    case DType::kU32:
      return std::int64_t{1} << 32;
    default:
      return INT64_MAX;
  }
}

bool is_plain_integer(DType dtype) {
  switch (dtype) {
    case DType::kU8:
    case DType::kI8:
    case DType::kI16:
    case DType::kU16:
    case DType::kI32:
    case DType::kU32:
    case DType::kI64:
    case DType::kU64:
      return true;
    default:
      return false;
  }
}

void fill_bytes(std::vector<std::byte>& bytes, DType dtype, std::uint64_t bound, Xoshiro256& generator) {
  switch (dtype) {
    case DType::kF64:
    case DType::kC128:
      return fill_normal<double>(bytes, generator);
    case DType::kF32:
    case DType::kC64:
      return fill_normal<float>(bytes, generator);
    case DType::kF16:
    case DType::kBF16:
      for (std::size_t i = 0; i < bytes.size() / 2; ++i) {
        const auto value = static_cast<float>(generator.normal());
        store(bytes, i, dtype == DType::kF16 ? float16_bits(value) : bfloat16_bits(value));
      }
      return;
    case DType::kBool:
      return fill_integers<std::uint8_t>(bytes, generator, 2);
    case DType::kI8:
    case DType::kU8:
      return fill_integers<std::uint8_t>(bytes, generator, bound);
    case DType::kI16:
    case DType::kU16:
      return fill_integers<std::uint16_t>(bytes, generator, bound);
    case DType::kI32:
    case DType::kU32:
      return fill_integers<std::uint32_t>(bytes, generator, bound);
    case DType::kI64:
    case DType::kU64:
      return fill_integers<std::uint64_t>(bytes, generator, bound);
    default:
      break;
  }
  throw Error(ErrorCode::kUsage, "--random: no rule for random elements of type " + std::string(short_name(dtype)),
              "use f32, f64, f16, bf16, c64, c128, bool or an integer type");
}

[[noreturn]] void throw_bad_spec(std::string_view text, const std::string& reason) {
  throw Error(ErrorCode::kUsage, "--random '" + std::string(text) + "': " + reason,
              "write name:type[sizes], for example x:f32[2,3] or ids:i64[1,16]<100");
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::int64_t> parse_sizes(std::string_view text, std::string_view list) {
  std::vector<std::int64_t> sizes;
  while (!list.empty()) {
    const auto comma = list.find(',');
    auto item = list.substr(0, comma);
    while (!item.empty() && item.front() == ' ') item.remove_prefix(1);
    while (!item.empty() && item.back() == ' ') item.remove_suffix(1);
    const auto size = parse_integer(item);
    if (!size || *size < 0) throw_bad_spec(text, "'" + std::string(item) + "' is no size");
    sizes.push_back(*size);
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
    if (list.empty()) throw_bad_spec(text, "a size is missing after the last comma");
  }
  return sizes;
}

}  // namespace

RandomSpec parse_random_spec(std::string_view text) {
  RandomSpec spec;
  const auto bracket = text.find('[');
  const auto close = text.find(']', bracket == std::string_view::npos ? 0 : bracket);
  const auto colon = text.substr(0, bracket).rfind(':');
  if (bracket == std::string_view::npos || close == std::string_view::npos) throw_bad_spec(text, "no [sizes]");
  if (colon == std::string_view::npos || colon == 0) throw_bad_spec(text, "no name before ':'");
  spec.name = text.substr(0, colon);
  const auto type = text.substr(colon + 1, bracket - colon - 1);
  const auto dtype = dtype_from_name(type);
  if (!dtype) throw_bad_spec(text, "'" + std::string(type) + "' is no element type");
  spec.dtype = *dtype;
  spec.sizes = parse_sizes(text, text.substr(bracket + 1, close - bracket - 1));
  const auto rest = text.substr(close + 1);
  if (rest.empty()) return spec;
  if (rest.front() != '<') throw_bad_spec(text, "'" + std::string(rest) + "' after the sizes");
  const auto bound = parse_integer(rest.substr(1));
  if (!bound || *bound < 1) throw_bad_spec(text, "the bound after '<' must be a positive integer");
  if (!is_plain_integer(spec.dtype)) throw_bad_spec(text, "a bound fits integer types only");
  if (*bound > range_end(spec.dtype)) throw_bad_spec(text, "the bound exceeds the range of " + std::string(type));
  spec.bound = bound;
  return spec;
}

HostTensor make_random_tensor(const RandomSpec& spec, std::uint64_t seed) {
  const auto item = item_bytes(spec.dtype);
  std::size_t bytes = item;
  for (const auto size : spec.sizes) {
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(size), &bytes) || bytes > kMaxRandomBytes) {
      throw Error(ErrorCode::kUsage, "--random " + spec.name + ": a tensor of more than 16 GiB");
    }
  }
  std::vector<std::byte> data(bytes);
  Xoshiro256 generator(seed ^ fnv1a(spec.name));
  const auto bound = std::min(spec.bound.value_or(kDefaultIntegerBound), range_end(spec.dtype));
  fill_bytes(data, spec.dtype, static_cast<std::uint64_t>(bound), generator);
  return make_host_tensor(spec.dtype, spec.sizes, std::move(data));
}

}  // namespace tl
