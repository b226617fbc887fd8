#include "tensor/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "data_files.h"

namespace tl {
namespace {

using test::data_path;
using test::tensor_of;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pair;

template <typename T>
std::vector<T> values_of(const HostTensor& tensor) {
  std::vector<T> values(tensor.storage.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor.storage.data(), values.size() * sizeof(T));
  return values;
}

/// Holds stats against a row of make_data.py's expected_stats.
void expect_stats(const TensorStats& stats, const std::vector<double>& row) {
  ASSERT_EQ(row.size(), 13U);
  EXPECT_EQ(stats.numel, row[0]);
  EXPECT_EQ(stats.nan, row[1]);
  EXPECT_EQ(stats.posinf, row[2]);
  EXPECT_EQ(stats.neginf, row[3]);
  EXPECT_EQ(stats.zeros, row[4]);
  EXPECT_EQ(stats.min, row[5]);
  EXPECT_EQ(stats.max, row[6]);
  EXPECT_NEAR(stats.sum, row[7], 1e-13 * row[8]) << "relative to the sum of absolute values";
  EXPECT_NEAR(stats.abs_sum, row[8], 1e-13 * row[8]);
  EXPECT_NEAR(stats.sum_sq, row[9], 1e-13 * row[9]);
  EXPECT_NEAR(stats.l2(), std::sqrt(row[9]), 1e-13 * std::sqrt(row[9]));
  EXPECT_EQ(stats.argmin, row[11]);
  EXPECT_EQ(stats.argmax, row[12]);
  EXPECT_EQ(stats.has_finite(), row[11] >= 0);
  if (stats.has_finite()) {
    EXPECT_NEAR(stats.stddev(), row[10], 1e-12 * row[10]);
    EXPECT_NEAR(stats.mean(), row[7] / static_cast<double>(stats.finite()), 1e-13 * row[8]);
  } else {
    EXPECT_TRUE(std::isnan(stats.mean()));
    EXPECT_TRUE(std::isnan(stats.abs_mean()));
    EXPECT_TRUE(std::isnan(stats.stddev()));
  }
}

class StatisticsTest : public testing::TestWithParam<const char*> {};

TEST_P(StatisticsTest, EqualNumPy) {
  const auto file = SafetensorsFile::open(data_path("stats.safetensors"));
  const std::string name = GetParam();
  expect_stats(compute_stats(tensor_of(file, name)), values_of<double>(tensor_of(file, name + ".expected")));
}

INSTANTIATE_TEST_SUITE_P(Cases, StatisticsTest,
                         testing::Values("f32", "f16", "bf16", "f64", "f32_holes", "f64_holes", "f16_holes",
                                         "f32_none_finite", "f32_constant", "f32_offset", "f32_zeros", "f16_large",
                                         "i8", "u8", "i16", "i32", "i64", "bool", "c64", "scalar", "empty"));

TEST(StatisticsTest, StridesOnlyChangeTheOrder) {
  const auto file = SafetensorsFile::open(data_path("stats.safetensors"));
  HostTensor tensor = tensor_of(file, "f32");
  ASSERT_THAT(tensor.sizes, ElementsAre(3, 5, 211));
  tensor.sizes = {211, 3, 5};
  tensor.strides = {1, 1055, 211};
  const TensorStats strided = compute_stats(tensor);
  expect_stats(strided, values_of<double>(tensor_of(file, "f32.permuted.expected")));
  const TensorStats packed = compute_stats(to_contiguous(tensor));
  EXPECT_EQ(strided.sum, packed.sum) << "bit for bit";
  EXPECT_EQ(strided.sum_sq_dev, packed.sum_sq_dev);
}

TEST(StatisticsTest, ConstantsHaveNoDeviation) {
  const auto file = SafetensorsFile::open(data_path("stats.safetensors"));
  EXPECT_EQ(compute_stats(tensor_of(file, "f32_constant")).stddev(), 0);
  EXPECT_EQ(compute_stats(tensor_of(file, "f16_large")).stddev(), 0);
}

// numpy.abs: |3 - 4j| = 5.
TEST(StatisticsTest, ComplexCountsByAbsoluteValue) {
  const std::vector<float> parts = {3, -4, 0, 0, -6, 8};
  std::vector<std::byte> bytes(24);
  std::memcpy(bytes.data(), parts.data(), 24);
  const TensorStats stats = compute_stats(make_host_tensor(DType::kC64, {3}, bytes));
  EXPECT_EQ(stats.min, 0);
  EXPECT_EQ(stats.max, 10);
  EXPECT_EQ(stats.sum, 15);
  EXPECT_EQ(stats.zeros, 1);
}

TEST(StatisticsTest, TopValuesEqualTorch) {
  const auto file = SafetensorsFile::open(data_path("stats.safetensors"));
  const auto values = values_of<float>(tensor_of(file, "f32.top_values"));
  const auto indices = values_of<std::int64_t>(tensor_of(file, "f32.top_indices"));
  const auto top = top_k(tensor_of(file, "f32"), 5);
  ASSERT_EQ(top.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(top[i].first, indices[i]);
    EXPECT_EQ(top[i].second, static_cast<double>(values[i]));
  }
}

TEST(StatisticsTest, TopOfFewTiesAndNan) {
  const std::vector<float> values = {2, NAN, 5, 2, 5, -INFINITY};
  std::vector<std::byte> bytes(24);
  std::memcpy(bytes.data(), values.data(), 24);
  const HostTensor tensor = make_host_tensor(DType::kF32, {6}, bytes);
  EXPECT_THAT(top_k(tensor, 3), ElementsAre(Pair(2, 5.0), Pair(4, 5.0), Pair(0, 2.0)));
  EXPECT_EQ(top_k(tensor, 100).size(), 5U);
  EXPECT_TRUE(top_k(tensor, 0).empty());
}

TEST(StatisticsTest, FirstValues) {
  const auto file = SafetensorsFile::open(data_path("dtypes.safetensors"));
  EXPECT_THAT(first_values(tensor_of(file, "f32"), 4), ElementsAre(-2.5, -1.5, -0.5, 0.5));
  EXPECT_THAT(first_values(tensor_of(file, "bool"), 9), ElementsAre(1, 0, 1));
  EXPECT_TRUE(first_values(tensor_of(file, "empty"), 9).empty());
  EXPECT_THAT(first_values(tensor_of(file, "scalar"), 1), ElementsAre(7));
}

}  // namespace
}  // namespace tl
