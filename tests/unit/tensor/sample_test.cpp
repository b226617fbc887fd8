#include "tensor/sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace tl {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Sample, PositionsAreThoseOfTheRuleInExactArithmetic) {
  // Python: [((i * 0x9E3779B97F4A7C15) % 2**64) * numel >> 64 for i in range(4)]
  EXPECT_THAT(sample_positions(5, 4), ElementsAre(0, 3, 1, 4));
  EXPECT_THAT(sample_positions(1000, 4), ElementsAre(0, 618, 236, 854));
  EXPECT_THAT(sample_positions((1LL << 40) + 7, 4), ElementsAre(0, 679535556995, 259559486208, 939095043203));
  EXPECT_EQ(sample_position(999, 1LL << 62), 1918252756270484860);
}

TEST(Sample, TakesEveryElementInOrderWhereTheyAreFew) {
  EXPECT_THAT(sample_positions(3, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(sample_positions(3, 1000), ElementsAre(0, 1, 2));
  EXPECT_THAT(sample_positions(0, 8), IsEmpty());
  EXPECT_THAT(sample_positions(8, 0), IsEmpty());
}

TEST(Sample, SpreadsEvenly) {
  // The longest gap of the golden ratio sequence is below 2.62 times the mean one (three-distance theorem).
  std::vector<std::int64_t> positions = sample_positions(1'000'000, 100);
  std::ranges::sort(positions);
  for (std::size_t i = 1; i < positions.size(); ++i) EXPECT_LT(positions[i] - positions[i - 1], 26200);
  EXPECT_GT(positions.back(), 1'000'000 - 26200);
}

TEST(Sample, PicksElementsByRowMajorIndexWhateverTheStrides) {
  std::vector<std::int32_t> stored(10);
  std::iota(stored.begin(), stored.end(), 0);
  std::vector<std::byte> bytes(40);
  std::memcpy(bytes.data(), stored.data(), 40);
  HostTensor transposed = make_host_tensor(DType::kI32, {5, 2}, std::move(bytes));
  transposed.strides = {1, 5};
  const HostTensor sampled = sample_elements(transposed, 3);
  ASSERT_THAT(sampled.sizes, ElementsAre(3));
  std::vector<std::int32_t> values(3);
  std::memcpy(values.data(), sampled.storage.data(), 12);
  // Row-major the transposed tensor reads 0 5 1 6 2 7 3 8 4 9; positions are 0, 6 and 2.
  EXPECT_THAT(values, ElementsAre(0, 3, 1));
}

}  // namespace
}  // namespace tl
