#include "diff/sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tl {
namespace {

using Tokens = std::vector<std::uint64_t>;

std::size_t textbook_length(const Tokens& a, const Tokens& b) {
  std::vector<std::vector<std::size_t>> length(a.size() + 1, std::vector<std::size_t>(b.size() + 1, 0));
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      length[i][j] = a[i - 1] == b[j - 1] ? length[i - 1][j - 1] + 1 : std::max(length[i - 1][j], length[i][j - 1]);
    }
  }
  return length[a.size()][b.size()];
}

TEST(AlignSequences, IsALongestCommonSubsequence) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    Tokens a(random() % 40);
    Tokens b(random() % 40);
    for (auto& token : a) token = random() % 6;
    for (auto& token : b) token = random() % 6;
    const auto pairs = align_sequences(a, b);
    EXPECT_EQ(pairs.size(), textbook_length(a, b));
    for (std::size_t k = 0; k < pairs.size(); ++k) {
      EXPECT_EQ(a[pairs[k].first], b[pairs[k].second]);
      if (k > 0) {
        EXPECT_LT(pairs[k - 1].first, pairs[k].first);
        EXPECT_LT(pairs[k - 1].second, pairs[k].second);
      }
    }
  }
}

TEST(AlignSequences, FindsOneInsertionAmongMany) {
  Tokens a(100'000);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = i % 50;
  auto b = a;
  b.insert(b.begin() + 50'000, 1234);
  EXPECT_EQ(align_sequences(a, b).size(), a.size());
}

TEST(AlignSequences, NothingAgainstSomething) {
  EXPECT_TRUE(align_sequences({}, Tokens{1, 2}).empty());
  EXPECT_TRUE(align_sequences(Tokens{1, 2}, Tokens{3}).empty());
}

TEST(LongestIncreasing, LeavesOutWhatIsOutOfOrder) {
  const std::vector<std::uint32_t> values = {4, 1, 2, 9, 3};
  EXPECT_THAT(longest_increasing(values), testing::ElementsAre(1, 2, 4));
}

}  // namespace
}  // namespace tl
