#include "diff/weight_relation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "diff_fixtures.h"

namespace tl {
namespace {

using Sizes = std::vector<std::int64_t>;

HostTensor matrix(Sizes sizes, const std::vector<float>& values) {
  return test::tensor_of(DType::kF32, std::move(sizes), values);
}

/// Different numbers, none of them small.
std::vector<float> numbers(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = 1.0F + 0.37F * static_cast<float>(i);
  return values;
}

/// The rows of `values` in another order.
std::vector<float> rows_in(const std::vector<float>& values, std::size_t width, const std::vector<std::size_t>& order) {
  std::vector<float> result;
  for (const auto row : order) {
    for (std::size_t i = 0; i < width; ++i) result.push_back(values[row * width + i]);
  }
  return result;
}

std::string words(const WeightDifference& difference, std::size_t rank = 2) { return words_of(difference, rank); }

TEST(WeightRelation, BlocksOfRowsInAnotherOrder) {
  const auto values = numbers(24);
  const auto moved = rows_in(values, 3, {0, 1, 4, 5, 2, 3, 6, 7});
  const auto found = relate_weights(matrix({8, 3}, values), matrix({8, 3}, moved));
  EXPECT_EQ(found.relation, WeightRelation::kReordered);
  EXPECT_EQ(found.axis, 0);
  EXPECT_EQ(found.block, 2);
  EXPECT_THAT(found.order, testing::ElementsAre(0, 2, 1, 3));
  EXPECT_EQ(words(found), "blocks of 2 rows in another order: 0 2 1 3");
}

TEST(WeightRelation, TheFewestBlocksUnlessAHintSaysWhatTheyAre) {
  const auto values = numbers(24);
  const auto moved = rows_in(values, 3, {4, 5, 6, 7, 0, 1, 2, 3});
  const auto plain = relate_weights(matrix({8, 3}, values), matrix({8, 3}, moved));
  EXPECT_THAT(plain.order, testing::ElementsAre(1, 0));
  const std::vector<BlockHint> hints = {{0, 4, "heads"}};
  const auto named = relate_weights(matrix({8, 3}, values), matrix({8, 3}, moved), hints);
  EXPECT_THAT(named.order, testing::ElementsAre(2, 3, 0, 1));
  EXPECT_EQ(words(named), "heads of 2 rows in another order: 2 3 0 1");
}

TEST(WeightRelation, EqualRowsStayWhereTheyAre) {
  auto values = numbers(18);
  for (std::size_t i = 0; i < 3; ++i) values[3 + i] = values[9 + i];  // rows 1 and 3
  const auto moved = rows_in(values, 3, {0, 1, 2, 3, 5, 4});
  const auto found = relate_weights(matrix({6, 3}, values), matrix({6, 3}, moved));
  EXPECT_EQ(words(found), "rows 4 and 5 of 6 exchanged");
}

TEST(WeightRelation, ChannelsOfAConvolution) {
  // [2, 3, 2]: the input channels turned by one.
  const auto values = numbers(12);
  std::vector<float> moved;
  for (std::size_t o = 0; o < 2; ++o) {
    for (const std::size_t channel : {1U, 2U, 0U}) {
      for (std::size_t k = 0; k < 2; ++k) moved.push_back(values[(o * 3 + channel) * 2 + k]);
    }
  }
  const auto found = relate_weights(matrix({2, 3, 2}, values), matrix({2, 3, 2}, moved));
  EXPECT_EQ(found.axis, 1);
  EXPECT_EQ(words(found, 3), "input channels in another order: 1 2 0");
}

TEST(WeightRelation, AKernelThatIsFlipped) {
  const auto values = numbers(6);
  const std::vector<float> flipped = {values[2], values[1], values[0], values[5], values[4], values[3]};
  const auto found = relate_weights(matrix({2, 1, 3}, values), matrix({2, 1, 3}, flipped));
  EXPECT_EQ(words(found, 3), "positions along axis 2 reversed");
}

TEST(WeightRelation, Transposed) {
  const auto values = numbers(6);
  const std::vector<float> turned = {values[0], values[3], values[1], values[4], values[2], values[5]};
  const auto found = relate_weights(matrix({2, 3}, values), matrix({3, 2}, turned));
  EXPECT_EQ(found.relation, WeightRelation::kTransposed);
  EXPECT_EQ(words(found), "transposed");
  EXPECT_TRUE(std::isinf(found.rel_l2));
}

TEST(WeightRelation, HeightWidthInOutAgainstOutInHeightWidth) {
  const auto values = numbers(24);
  const HostTensor ours = matrix({2, 3, 2, 2}, values);
  HostTensor view = ours;  // axes 2, 3, 1, 0
  view.sizes = {2, 2, 3, 2};
  view.strides = {2, 1, 4, 12};
  const auto found = relate_weights(ours, view);
  EXPECT_EQ(words(found, 4), "axes in another order: 2 3 1 0");
}

TEST(WeightRelation, OtherThingsThatHaveAName) {
  const auto values = numbers(8);
  const auto ours = matrix({2, 4}, values);
  EXPECT_EQ(words(relate_weights(ours, matrix({4, 2}, values))), "the same elements in another shape");
  std::vector<float> mixed = {values[5], values[1], values[2], values[3], values[4], values[0], values[6], values[7]};
  EXPECT_EQ(words(relate_weights(ours, matrix({2, 4}, mixed))), "the same elements in another order");
  auto negated = values;
  for (auto& value : negated) value = -value;
  EXPECT_EQ(words(relate_weights(ours, matrix({2, 4}, negated))), "negated");
  auto scaled = values;
  for (auto& value : scaled) value *= 0.125F;
  EXPECT_EQ(words(relate_weights(ours, matrix({2, 4}, scaled))), "0.125 times the reference");
  EXPECT_EQ(words(relate_weights(ours, matrix({2, 4}, std::vector<float>(8, 0.0F)))), "0 throughout");
  auto rounded = values;
  for (auto& value : rounded) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000U;
    std::memcpy(&value, &bits, sizeof bits);
  }
  EXPECT_EQ(relate_weights(ours, matrix({2, 4}, rounded)).relation, WeightRelation::kRounded);
}

TEST(WeightRelation, NoNameForWhatHasNone) {
  const auto values = numbers(8);
  auto other = values;
  other[3] += 1;
  const auto found = relate_weights(matrix({2, 4}, values), matrix({2, 4}, other));
  EXPECT_EQ(found.relation, WeightRelation::kOther);
  // rel L2 = 1 / sqrt(sum of squares), SQNR = -20 log10 of that.
  const double norm = std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
  EXPECT_NEAR(found.rel_l2, 1 / norm, 1e-6);
  EXPECT_NEAR(found.sqnr_db, 20 * std::log10(norm), 1e-5);
  EXPECT_EQ(relate_weights(matrix({2, 4}, values), matrix({2, 3}, numbers(6))).relation, WeightRelation::kOther);
  EXPECT_EQ(relate_weights(matrix({0, 4}, {}), matrix({0, 3}, {})).relation, WeightRelation::kOther);
}

TEST(WeightRelation, NanIsComparedByItsBits) {
  auto values = numbers(4);
  values[1] = NAN;
  const auto found = relate_weights(matrix({4, 1}, values), matrix({4, 1}, rows_in(values, 1, {1, 0, 2, 3})));
  EXPECT_EQ(words(found), "rows in another order: 1 0 2 3");
}

}  // namespace
}  // namespace tl
