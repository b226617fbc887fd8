// Statistics of adversarial tensors of every dtype against NumPy in float64 (data/make_statistics.py).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "data_files.h"
#include "tensor/statistics.h"

namespace tl {
namespace {

using test::data_path;
using test::tensor_of;

const SafetensorsFile& data() {
  static const auto file = SafetensorsFile::open(data_path("statistics.safetensors"));
  return file;
}

template <typename T>
std::vector<T> values_of(const std::string& name) {
  const auto tensor = tensor_of(data(), name);
  std::vector<T> values(tensor.storage.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor.storage.data(), values.size() * sizeof(T));
  return values;
}

/// Equal, where both are infinite or NaN; else within `tolerance` of `scale`.
void expect_close(double got, double expected, double scale, double tolerance = 1e-13) {
  if (std::isfinite(expected) && std::isfinite(scale)) {
    EXPECT_NEAR(got, expected, tolerance * scale);
  } else {
    EXPECT_FALSE(std::isfinite(got)) << got << " where NumPy has " << expected;
  }
}

void expect_equal(const TensorStats& stats, const std::string& name) {
  const auto row = values_of<double>(name + ".numbers");
  ASSERT_EQ(row.size(), 14U);
  EXPECT_EQ(stats.numel, row[0]);
  EXPECT_EQ(stats.nan, row[1]);
  EXPECT_EQ(stats.posinf, row[2]);
  EXPECT_EQ(stats.neginf, row[3]);
  EXPECT_EQ(stats.zeros, row[4]);
  EXPECT_EQ(stats.denormals, row[5]);
  if (name.starts_with("c")) {  // two ways to round an absolute value
    EXPECT_DOUBLE_EQ(stats.min, row[6]);
    EXPECT_DOUBLE_EQ(stats.max, row[7]);
  } else {
    EXPECT_EQ(stats.min, row[6]);
    EXPECT_EQ(stats.max, row[7]);
  }
  EXPECT_FALSE(stats.min == 0 && std::signbit(stats.min));
  expect_close(stats.sum, row[8], row[9]);
  expect_close(stats.abs_sum, row[9], row[9]);
  expect_close(stats.sum_sq, row[10], row[10]);
  if (stats.has_finite()) {
    expect_close(stats.stddev(), row[11], row[11], 1e-12);
  } else {
    EXPECT_TRUE(std::isnan(stats.stddev()));
    EXPECT_TRUE(std::isnan(stats.mean()));
    EXPECT_TRUE(std::isnan(stats.abs_mean()));
  }
  EXPECT_EQ(stats.argmin, row[12]);
  EXPECT_EQ(stats.argmax, row[13]);
  std::vector<std::int64_t> bins;
  for (const auto& bin : stats.histogram) {
    bins.push_back(bin.code);
    bins.push_back(bin.count);
  }
  EXPECT_EQ(bins, values_of<std::int64_t>(name + ".histogram"));
}

HostTensor case_of(const std::string& name) {
  auto tensor = tensor_of(data(), name);
  if (name != "c128") return tensor;
  tensor.dtype = DType::kC128;
  tensor.sizes.pop_back();
  tensor.strides = contiguous_strides(tensor.sizes);
  return tensor;
}

class StatisticsEdges : public testing::TestWithParam<const char*> {};

TEST_P(StatisticsEdges, EqualNumPy) {
  const std::string name = GetParam();
  const auto stats = compute_stats(case_of(name), kAllStatistics);
  expect_equal(stats, name);
  if (!data().find(name + ".exact")) return;
  const auto exact = values_of<std::int64_t>(name + ".exact");
  EXPECT_EQ(stats.exact_min, exact[0]);
  EXPECT_EQ(stats.exact_max, exact[1]);
}

/// What is asked for does not depend on what else is.
TEST_P(StatisticsEdges, EachAloneIsTheSame) {
  const auto tensor = case_of(GetParam());
  const auto all = compute_stats(tensor, kAllStatistics);
  const auto same = [](double left, double right) {
    EXPECT_EQ(std::memcmp(&left, &right, sizeof(double)), 0) << left << " and " << right;
  };
  same(compute_stats(tensor, kStatSum).sum, all.sum);
  same(compute_stats(tensor, kStatAbsMean).abs_mean(), all.abs_mean());
  same(compute_stats(tensor, kStatMean).mean(), all.mean());
  same(compute_stats(tensor, kStatStd).stddev(), all.stddev());
  same(compute_stats(tensor, kStatL2).l2(), all.l2());
  same(compute_stats(tensor, kStatMin).min, all.min);
  same(compute_stats(tensor, kStatMax).max, all.max);
  EXPECT_EQ(compute_stats(tensor, kStatArgmin).argmin, all.argmin);
  EXPECT_EQ(compute_stats(tensor, kStatArgmax).argmax, all.argmax);
  EXPECT_EQ(compute_stats(tensor, kStatZeros).zeros, all.zeros);
  EXPECT_EQ(compute_stats(tensor, kStatDenormals).denormals, all.denormals);
  EXPECT_EQ(compute_stats(tensor, kStatHistogram).histogram, all.histogram);
  const auto none = compute_stats(tensor, 0);
  EXPECT_EQ(none.nan, all.nan);
  EXPECT_EQ(none.posinf + none.neginf, all.posinf + all.neginf);
  EXPECT_EQ(none.numel, all.numel);
}

INSTANTIATE_TEST_SUITE_P(Cases, StatisticsEdges,
                         testing::Values("f32", "f32_denormals", "f32_odd_length", "f32_mask", "f32_nan_only",
                                         "f32_last_is_least", "f16_overflow", "f16_denormals", "bf16", "f64",
                                         "f64_denormals", "f64_huge", "f8_e5m2", "f8_e4m3", "f8_e5m2fnuz",
                                         "f8_e4m3fnuz", "f8_e8m0", "bool", "bool_false", "i8", "u8", "i16", "u16",
                                         "i32", "u32", "i64", "u64", "c64", "c128", "scalar", "scalar_nan", "empty",
                                         "empty_i64"));

TEST(StatisticsLayouts, Transposed) {
  auto tensor = case_of("f32_odd_length");
  tensor.sizes = {48, 64};
  tensor.strides = {1, 48};
  expect_equal(compute_stats(tensor, kAllStatistics), "transposed");
}

TEST(StatisticsLayouts, Expanded) {
  auto tensor = case_of("f32_odd_length");
  tensor.sizes = {40, 48};
  tensor.strides = {0, 1};
  expect_equal(compute_stats(tensor, kAllStatistics), "expanded");
}

TEST(StatisticsLayouts, Unaligned) {
  const auto packed = case_of("f32_odd_length");
  std::vector<std::byte> bytes(packed.storage.size() + 1);
  std::memcpy(bytes.data() + 1, packed.storage.data(), packed.storage.size());
  auto tensor = packed;
  tensor.storage = std::span<const std::byte>(bytes).subspan(1);
  expect_equal(compute_stats(tensor, kAllStatistics), "f32_odd_length");
}

/// Quantised tensors count by stored integer.
TEST(StatisticsLayouts, QuantisedAsIntegers) {
  auto signed_bytes = case_of("i8");
  signed_bytes.dtype = DType::kQI8;
  expect_equal(compute_stats(signed_bytes, kAllStatistics), "i8");
  auto bytes = case_of("u8");
  bytes.dtype = DType::kQU8;
  expect_equal(compute_stats(bytes, kAllStatistics), "u8");
  auto words = case_of("i32");
  words.dtype = DType::kQI32;
  expect_equal(compute_stats(words, kAllStatistics), "i32");
}

}  // namespace
}  // namespace tl
