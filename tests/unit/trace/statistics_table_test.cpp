#include "trace/statistics_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "support/trace_fixtures.h"
#include "tensor/host_tensor.h"
#include "trace/statistics_recorder.h"

namespace tl {
namespace {

template <typename T>
HostTensor tensor(DType dtype, const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return make_host_tensor(dtype, {static_cast<std::int64_t>(values.size())}, bytes);
}

StatisticsTable sample(StatisticSet wanted) {
  StatisticsRecorder recorder(wanted);
  recorder.on_value(1, tensor<float>(DType::kF32, {1, -3, 0, NAN}));
  recorder.on_value(4, tensor<std::int64_t>(DType::kI64, {std::numeric_limits<std::int64_t>::max(), 7}));
  recorder.on_value(5, tensor<float>(DType::kF32, {}));
  return recorder.take();
}

// Values by hand.
TEST(StatisticsTable, HasOneRowAValue) {
  const auto table = sample(kAllStatistics);
  EXPECT_EQ(test::rows(table.op), (std::vector<std::int32_t>{1, 4, 5}));
  EXPECT_EQ(table.sum[0], -2);
  EXPECT_EQ(table.abs_mean[0], 4.0 / 3);
  EXPECT_EQ(table.min[0], -3);
  EXPECT_EQ(table.argmax[0], 0);
  EXPECT_EQ(table.l2[0], std::sqrt(10.0));
  EXPECT_EQ(test::rows(table.nan), (std::vector<std::int64_t>{1, 0, 0}));
  EXPECT_EQ(test::rows(table.zeros), (std::vector<std::int64_t>{1, 0, 0}));
  EXPECT_TRUE(std::isnan(table.min[2])) << "an empty tensor has no minimum";
  EXPECT_TRUE(std::isnan(table.mean[2]));
  EXPECT_EQ(table.argmin[2], -1);
  EXPECT_EQ(test::rows(table.exact_op), (std::vector<std::int32_t>{4}));
  EXPECT_EQ(table.exact_max[0], std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(test::rows(table.histogram_begin), (std::vector<std::int64_t>{0, 3, 5, 5}));
  EXPECT_EQ(test::rows(table.histogram_code), (std::vector<std::int16_t>{-129, 0, 128, 130, 191}))
      << "-2^1, 0, 2^0; 2^2, 2^63: the largest i64 rounds up";
}

TEST(StatisticsTable, HasNoColumnsThatWereNotAskedFor) {
  const auto table = sample(kStatSum | kStatNan);
  EXPECT_EQ(table.size(), 3U);
  EXPECT_EQ(table.sum.size(), 3U);
  EXPECT_EQ(table.nan.size(), 3U);
  EXPECT_TRUE(table.min.empty());
  EXPECT_TRUE(table.posinf.empty());
  EXPECT_TRUE(table.exact_op.empty());
  EXPECT_TRUE(table.histogram_begin.empty());
}

TEST(StatisticsTable, FindsRows) {
  const auto table = sample(kUsualStatistics);
  EXPECT_EQ(table.find(4), 1U);
  EXPECT_EQ(table.find(5), 2U);
  EXPECT_FALSE(table.find(0));
  EXPECT_FALSE(table.find(3));
  EXPECT_FALSE(table.find(6));
  EXPECT_EQ(table.find_exact(4), 0U);
  EXPECT_FALSE(table.find_exact(1));
}

TEST(StatisticsTable, CopiesRowsOfItself) {
  auto table = sample(kAllStatistics);
  table.append_copy(9, table, 1);
  table.append_copy(10, table, 0);
  EXPECT_EQ(table.size(), 5U);
  EXPECT_EQ(table.max[3], table.max[1]);
  EXPECT_EQ(table.sum[4], -2);
  EXPECT_EQ(test::rows(table.exact_op), (std::vector<std::int32_t>{4, 9}));
  EXPECT_EQ(table.exact_max[1], table.exact_max[0]);
  EXPECT_EQ(test::rows(table.histogram_begin), (std::vector<std::int64_t>{0, 3, 5, 5, 7, 10}));
}

TEST(StatisticsRecorder, LeavesNothing) {
  StatisticsRecorder recorder(kStatSum);
  recorder.on_value(0, tensor<float>(DType::kF32, {1}));
  EXPECT_EQ(recorder.take().size(), 1U);
  EXPECT_EQ(recorder.take().size(), 0U);
}

}  // namespace
}  // namespace tl
