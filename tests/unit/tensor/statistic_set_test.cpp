#include "tensor/statistic_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace tl {
namespace {

using testing::HasSubstr;

TEST(StatisticSet, ReadsLists) {
  EXPECT_EQ(parse_statistics("abs_mean,sum"), StatisticSet{kStatAbsMean | kStatSum});
  EXPECT_EQ(parse_statistics("all"), kAllStatistics);
  EXPECT_EQ(parse_statistics("shape,dtype"), 0U) << "every record has them";
  EXPECT_EQ(parse_statistics("max,shape,max"), StatisticSet{kStatMax});
}

TEST(StatisticSet, TextIsRead) {
  for (StatisticSet set = 1; set <= kAllStatistics; set = set * 3 + 1) {
    EXPECT_EQ(parse_statistics(format_statistics(set)), set);
  }
  EXPECT_EQ(format_statistics(kStatSum | kStatAbsMean), "abs_mean,sum");
}

TEST(StatisticSet, RefusesUnknownNames) {
  for (const char* list : {"", "sum,", "absmean", "sum;max", "SUM", " sum"}) {
    try {
      static_cast<void>(parse_statistics(list));
      ADD_FAILURE() << list;
    } catch (const Error& error) {
      EXPECT_EQ(error.code, ErrorCode::kUsage);
      EXPECT_THAT(error.note, HasSubstr("abs_mean, sum, min, max"));
    }
  }
  try {
    static_cast<void>(parse_statistics("absmean"));
  } catch (const Error& error) {
    EXPECT_EQ(error.message, "--stats: there is no statistic 'absmean'");
    EXPECT_EQ(error.hint, "did you mean abs_mean?");
  }
}

}  // namespace
}  // namespace tl
