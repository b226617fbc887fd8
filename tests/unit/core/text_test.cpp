#include "core/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/float_text.h"

namespace tl {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Columns, CodePointsAreCounted) {
  EXPECT_EQ(display_width("a×…"), 3U);
  EXPECT_EQ(pad_right("×2", 4), "×2  ");
  EXPECT_EQ(pad_left("×2", 4), "  ×2");
  EXPECT_EQ(pad_left("abcde", 4), "abcde");
}

TEST(Columns, ElideKeepsTheWidth) {
  EXPECT_EQ(elide("AdaptiveAvgPool2d", 12), "AdaptiveAvg…");
  EXPECT_EQ(elide("××××", 3), "××…");
  EXPECT_EQ(elide("abc", 3), "abc");
  EXPECT_EQ(elide("abc", 1), "…");
  EXPECT_EQ(elide("abc", 0), "");
}

TEST(Format, FloatsAreToldFromIntegers) {
  EXPECT_EQ(float_text(2), "2.0");
  EXPECT_EQ(float_text(0.1), "0.1");
  EXPECT_EQ(float_text(-1e20), "-1e+20");
  EXPECT_EQ(float_text(std::numeric_limits<double>::infinity()), "inf");
}

TEST(Format, Bytes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1000), "1000 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KB");
  EXPECT_EQ(format_bytes(1536), "1.5 KB");
  EXPECT_EQ(format_bytes(784 * 1024), "784 KB");
  EXPECT_EQ(format_bytes(1023 * 1024), "1023 KB");
  EXPECT_EQ(format_bytes(1024 * 1024 - 1), "1.0 MB");
  EXPECT_EQ(format_bytes(3211264), "3.1 MB");  // 1·64·112·112 f32
  EXPECT_EQ(format_bytes(std::numeric_limits<std::uint64_t>::max()), "16.0 EB");
}

TEST(Format, Counts) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(128), "128");
  EXPECT_EQ(format_count(9408), "9.41 K");
  EXPECT_EQ(format_count(147968), "148 K");
  EXPECT_EQ(format_count(11689512), "11.7 M");  // parameters of ResNet-18
  EXPECT_EQ(format_count(2099712), "2.10 M");
  EXPECT_EQ(format_count(999999), "1.00 M");
  EXPECT_EQ(format_count(9996), "10.0 K");
}

TEST(Format, Durations) {
  EXPECT_EQ(format_duration(0), "0 s");
  EXPECT_EQ(format_duration(850e-9), "850 ns");
  EXPECT_EQ(format_duration(12.3e-6), "12.3 us");
  EXPECT_EQ(format_duration(3.1e-3), "3.1 ms");
  EXPECT_EQ(format_duration(0.236), "236 ms");
  EXPECT_EQ(format_duration(2.5), "2.5 s");
  EXPECT_EQ(format_duration(200), "3 min 20 s");
  EXPECT_EQ(format_duration(7500), "2 h 5 min");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::quiet_NaN()), "-");
  EXPECT_EQ(format_duration(-1), "-");
}

TEST(DidYouMean, OneLetterIsNoSlipOfAnother) {
  const std::vector<std::string> names = {"x", "y", "d"};
  EXPECT_THAT(did_you_mean("b", names), IsEmpty());
  EXPECT_THAT(did_you_mean("X", names), ElementsAre("x"));
}

TEST(DidYouMean, FewEditsFirstThenContainment) {
  const std::vector<std::string> names = {"query", "trace", "show", "validate", "traces_of_all"};
  EXPECT_THAT(did_you_mean("trcae", names), ElementsAre("trace"));
  EXPECT_THAT(did_you_mean("TRACE", names), ElementsAre("trace", "traces_of_all"));
  EXPECT_THAT(did_you_mean("valid", names), ElementsAre("validate"));
  EXPECT_THAT(did_you_mean("zzzz", names), IsEmpty());
}

TEST(DidYouMean, AtMostMaxAndNothingTwice) {
  const std::vector<std::string> names = {"relu_1", "relu_2", "relu_2", "relu_3", "relu_4"};
  EXPECT_THAT(did_you_mean("relu_9", names, 2), ElementsAre("relu_1", "relu_2"));
  EXPECT_THAT(did_you_mean("relu_9", names, 3), ElementsAre("relu_1", "relu_2", "relu_3"));
}

}  // namespace
}  // namespace tl
