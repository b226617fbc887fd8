#include "core/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace tl {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(EscapeForTerminal, LeavesOrdinaryTextAlone) {
  EXPECT_EQ(escape_for_terminal("encoder.layer.0 é 漢 🙂 a::b"), "encoder.layer.0 é 漢 🙂 a::b");
  EXPECT_EQ(escape_for_terminal(""), "");
}

TEST(EscapeForTerminal, ControlsOfBothSets) {
  EXPECT_EQ(escape_for_terminal("a\x1b[31mb\n\x7f"), "a\\x1b[31mb\\x0a\\x7f");
  EXPECT_EQ(escape_for_terminal(std::string_view("\0x", 2)), "\\x00x");
  EXPECT_EQ(escape_for_terminal("\xc2\x9b"
                                "31m"),
            "\\u{9b}31m");  // U+009B is CSI
}

TEST(EscapeForTerminal, BidirectionalControlsAndSeparators) {
  EXPECT_EQ(escape_for_terminal("\u202egpj.\u2066\u2069\u200e\u200f"),
            "\\u{202e}gpj.\\u{2066}\\u{2069}\\u{200e}\\u{200f}");
  EXPECT_EQ(escape_for_terminal("\u2028"), "\\u{2028}");
}

TEST(EscapeForTerminal, BytesThatAreNoUtf8) {
  EXPECT_EQ(escape_for_terminal("a\xff\xc3"), "a\\xff\\xc3");
  EXPECT_EQ(escape_for_terminal("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
}

TEST(EscapeForTerminal, CommandsOfCiRunners) {
  EXPECT_EQ(escape_for_terminal("::error::x"), "\\:\\:error::x");
  EXPECT_EQ(escape_for_terminal("  ::set-output"), "  \\:\\:set-output");
  EXPECT_EQ(escape_for_terminal("x ##[group]"), "x #\\#[group]");
}

TEST(EscapeForTerminal, IsIdempotent) {
  for (const std::string_view text : {"::a\x1b", "##[x ##[", "\xff\u202e", "plain"}) {
    const std::string once = escape_for_terminal(text);
    EXPECT_EQ(escape_for_terminal(once), once);
  }
}

TEST(EscapeForCsv, FormulasQuotesAndCommas) {
  EXPECT_EQ(escape_for_csv("relu_1_2:3"), "relu_1_2:3");
  EXPECT_EQ(escape_for_csv("=HYPERLINK(1)"), "'=HYPERLINK(1)");
  EXPECT_EQ(escape_for_csv("+1"), "'+1");
  EXPECT_EQ(escape_for_csv("-1"), "'-1");
  EXPECT_EQ(escape_for_csv("@a"), "'@a");
  EXPECT_EQ(escape_for_csv("\ta"), "'\\x09a");
  EXPECT_EQ(escape_for_csv("a,\"b\""), "\"a,\"\"b\"\"\"");
  EXPECT_EQ(escape_for_csv(" a"), "\" a\"");
  EXPECT_EQ(escape_for_csv(""), "");
}

TEST(EscapeForHtml, MarkupAndControls) {
  EXPECT_EQ(escape_for_html("<a href=\"x\">&'\x01"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;\\x01");
}

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
