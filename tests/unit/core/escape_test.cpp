#include "core/escape.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tl {
namespace {

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

TEST(EscapeForTerminal, CharactersThatShowNothing) {
  EXPECT_EQ(escape_for_terminal("a\u200b\u200d\ufeff\u00ad\u2060\u3164b"),
            "a\\u{200b}\\u{200d}\\u{feff}\\u{ad}\\u{2060}\\u{3164}b");
  EXPECT_EQ(escape_for_terminal("\U000e0041\ufe0f\uffff"), "\\u{e0041}\\u{fe0f}\\u{ffff}");
}

TEST(EscapeForTerminal, BytesThatAreNoUtf8) {
  EXPECT_EQ(escape_for_terminal("a\xff\xc3"), "a\\xff\\xc3");
  EXPECT_EQ(escape_for_terminal("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
}

TEST(EscapeForTerminal, CommandsOfCiRunners) {
  EXPECT_EQ(escape_for_terminal("::error::x"), "\\:\\:error::x");
  EXPECT_EQ(escape_for_terminal("  ::set-output"), "  \\:\\:set-output");
  EXPECT_EQ(escape_for_terminal("x ##[group]"), "x #\\#[group]");
  EXPECT_EQ(escape_for_terminal("x ##vso[task.complete]"), "x #\\#vso[task.complete]");
  EXPECT_EQ(escape_for_terminal("###[a"), "##\\#[a");
  EXPECT_EQ(escape_for_terminal("## [a] #3"), "## [a] #3");
  // GitHub's runner trims the line by .NET's rules: no-break and ideographic spaces count.
  EXPECT_EQ(escape_for_terminal("\u00a0\u3000::error::"), "\u00a0\u3000\\:\\:error::");
}

TEST(EscapeForTerminal, IsIdempotent) {
  for (const std::string_view text : {"::a\x1b", "##[x ##[", "\xff\u202e", "plain"}) {
    const std::string once = escape_for_terminal(text);
    EXPECT_EQ(escape_for_terminal(once), once);
  }
}

TEST(EscapeLinesForTerminal, EveryLineIsOne) {
  EXPECT_EQ(escape_lines_for_terminal("a\n::b\n\nc"), "a\n\\:\\:b\n\nc\n");
  EXPECT_EQ(escape_lines_for_terminal("a\r::b\n"), "a\\x0d::b\n");
  EXPECT_EQ(escape_lines_for_terminal(""), "");
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
  EXPECT_EQ(escape_for_csv("a;=1"), "\"a;=1\"");  // a separator where the locale's is a semicolon
  EXPECT_EQ(escape_for_csv("  =1"), "'  =1");
  EXPECT_EQ(escape_for_csv("\uff1d1"), "'\uff1d1");
  EXPECT_EQ(escape_for_csv("\r=1"), "'\\x0d=1");
  EXPECT_EQ(escape_for_csv("a\n=1"), "a\\x0a=1");
}

TEST(EscapeForHtml, MarkupAndControls) {
  EXPECT_EQ(escape_for_html("<a href=\"x\">&'\x01"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;\\x01");
}

TEST(EscapeForHtml, WhatXmlForbids) { EXPECT_EQ(escape_for_html("\uffff\xff"), "\\u{ffff}\\xff"); }

// The rules of CommonMark 0.31 for inline text, GitHub's for autolinks and mentions.
TEST(EscapeForMarkdown, InlineMarkup) {
  EXPECT_EQ(escape_for_markdown("relu_1_2:3"), "relu_1_2:3");
  EXPECT_EQ(escape_for_markdown("layer1.0.conv1"), "layer1.0.conv1");
  EXPECT_EQ(escape_for_markdown("_x_ *y* `z` a|b \\"), "\\_x\\_ \\*y\\* \\`z\\` a\\|b \\\\");
  EXPECT_EQ(escape_for_markdown("__init__"), "\\_\\_init\\_\\_");
  EXPECT_EQ(escape_for_markdown("![a](b)"), "\\!\\[a\\](b)");
  EXPECT_EQ(escape_for_markdown("<img src=x>&lt;"), "&lt;img src=x&gt;&amp;lt;");
  EXPECT_EQ(escape_for_markdown("# a\n"), "\\# a\\\\x0a");
  EXPECT_EQ(escape_for_markdown("- a"), "\\- a");
  EXPECT_EQ(escape_for_markdown("1. a"), "1\\. a");
  EXPECT_EQ(escape_for_markdown("$x$"), "\\$x\\$");
}

TEST(EscapeForMarkdown, MentionsAndAddresses) {
  EXPECT_EQ(escape_for_markdown("@owner"), "@<!-- -->owner");
  EXPECT_EQ(escape_for_markdown("https://a.b"), "https:<!-- -->//a.b");
  EXPECT_EQ(escape_for_markdown("www.a.b"), "www<!-- -->.a.b");
  EXPECT_EQ(escape_for_markdown("view.1"), "view.1");
}

TEST(EscapeInvalidUtf8, OtherTextStays) { EXPECT_EQ(escape_invalid_utf8("a\x1b\u202e\xff"), "a\x1b\u202e\\xff"); }

TEST(EscapeJson, KeepsTheValue) {
  using Json = nlohmann::json;
  const std::string text = Json({{"##[a]", "x ##vso[b] </script> \u2028 & ##[c]"}}).dump();
  const auto log = escape_json_for_log(text);
  EXPECT_EQ(log.find("##["), std::string::npos);
  EXPECT_EQ(log.find("##vso["), std::string::npos);
  EXPECT_EQ(Json::parse(log), Json::parse(text));
  const auto html = escape_json_for_html(text);
  EXPECT_EQ(html.find_first_of("<>&"), std::string::npos);
  EXPECT_EQ(html.find("\u2028"), std::string::npos);
  EXPECT_EQ(Json::parse(html), Json::parse(text));
}

}  // namespace
}  // namespace tl
