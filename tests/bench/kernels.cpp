// Google Benchmark rows of the kernels that everything else waits for: bytes of tensors compared, summed up, digested
// and checked, selectors over many operations. scripts/bench runs them after its own table.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/digest.h"
#include "select/glob.h"
#include "tensor/compare.h"
#include "tensor/statistics.h"

namespace {

constexpr std::int64_t kElements = 4 << 20;

/// Normal numbers, cut to bf16 where asked for; `shift` is added to every element.
tl::HostTensor numbers(tl::DType dtype, float shift = 0) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  const auto item = dtype == tl::DType::kF32 ? sizeof(float) : sizeof(std::uint16_t);
  std::vector<std::byte> bytes(static_cast<std::size_t>(kElements) * item);
  for (std::size_t i = 0; i < static_cast<std::size_t>(kElements); ++i) {
    const float value = normal(random) + shift;
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    if (dtype != tl::DType::kF32) bits >>= 16;  // the upper half of an f32 is a bf16
    std::memcpy(bytes.data() + i * item, &bits, item);
  }
  return tl::make_host_tensor(dtype, {kElements}, std::move(bytes));
}

void compare(benchmark::State& state, tl::DType dtype, float shift) {
  const auto reference = numbers(dtype);
  const auto subject = numbers(dtype, shift);
  for (auto _ : state) benchmark::DoNotOptimize(tl::compare_tensors(reference, subject));
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * 2 * reference.nbytes()));
}
BENCHMARK_CAPTURE(compare, f32_equal, tl::DType::kF32, 0.0F);
BENCHMARK_CAPTURE(compare, f32_different, tl::DType::kF32, 1e-3F);
BENCHMARK_CAPTURE(compare, bf16_different, tl::DType::kBF16, 1e-1F);

void statistics(benchmark::State& state, tl::DType dtype) {
  const auto tensor = numbers(dtype);
  for (auto _ : state) benchmark::DoNotOptimize(tl::compute_stats(tensor));
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * tensor.nbytes()));
}
BENCHMARK_CAPTURE(statistics, f32, tl::DType::kF32);
BENCHMARK_CAPTURE(statistics, bf16, tl::DType::kBF16);

void digest(benchmark::State& state) {
  const auto tensor = numbers(tl::DType::kF32);
  for (auto _ : state) benchmark::DoNotOptimize(tl::digest_hex(tensor.storage));
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * tensor.nbytes()));
}
BENCHMARK(digest);

void glob(benchmark::State& state) {
  const std::string text = "model.layers.17.self_attn.q_proj";
  for (auto _ : state) benchmark::DoNotOptimize(tl::glob_matches("model.layers.*.self_attn.?_proj", text));
}
BENCHMARK(glob);

}  // namespace

BENCHMARK_MAIN();
