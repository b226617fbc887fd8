#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/host_tensor.h"

namespace tl {

/// What `--random name:f32[2,3]` asks for. `name:i64[2,3]<100` bounds integers from above.
struct RandomSpec {
  std::string name;
  DType dtype = DType::kNone;
  std::vector<std::int64_t> sizes;
  std::optional<std::int64_t> bound;  ///< integers are drawn from 0 .. bound-1; kDefaultIntegerBound without
};

/// Integers stay below this where nothing else is said: small enough to index most embeddings and to count as classes.
inline constexpr std::int64_t kDefaultIntegerBound = 10;

/// Throws Error(kUsage) that shows the expected form.
RandomSpec parse_random_spec(std::string_view text);

/// A contiguous tensor of pseudo-random elements: floating and complex ones standard normal, integers uniform below the
/// bound, bool a fair coin. The same spec and seed give the same bytes; the stream depends on the seed and the name,
/// not on the order in which inputs are given. Generator: xoshiro256++ (Blackman, Vigna 2019), its state filled by
/// splitmix64 from seed XOR FNV-1a-64(name); uniforms are the upper 53 bits / 2^53; normals by Box-Muller in double,
/// cosine then sine, rounded to nearest even. Throws Error(kUsage) for a dtype without a rule or a tensor over 16 GiB.
HostTensor make_random_tensor(const RandomSpec& spec, std::uint64_t seed);

}  // namespace tl
