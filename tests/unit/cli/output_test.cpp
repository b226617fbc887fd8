#include "output.h"

#include <gtest/gtest.h>

#include <string>

namespace tl::cli {
namespace {

/// What `write` puts into the stream of an Output.
template <typename Write>
std::string written(bool color, Write write) {
  std::FILE* file = std::tmpfile();
  Output output(file, color);
  write(output);
  output.flush();
  std::rewind(file);
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

TEST(Output, ALineIsOneLine) {
  EXPECT_EQ(written(false, [](Output& out) { out.line("a\n::error::b\x1b[2J"); }), "a\\x0a::error::b\\x1b[2J\n");
  EXPECT_EQ(written(false, [](Output& out) { out.line("::error::b"); }), "\\:\\:error::b\n");
  EXPECT_EQ(written(false, [](Output& out) { out.line(); }), "\n");
}

TEST(Output, EveryOneOfSeveralLinesIsEscaped) {
  EXPECT_EQ(written(false, [](Output& out) { out.lines("a\n::error::b"); }), "a\n\\:\\:error::b\n");
}

TEST(Output, WhatFollowsTheFirstLineOfAMessageIsSetIn) {
  const auto message = [](Output& out) { out.message(Style::kError, "error[x]: ", "a\nhint: b\n::c\n"); };
  const auto plain = written(false, message);
  EXPECT_TRUE(plain.starts_with("error[x]: a\n  hint: b\n  \\:\\:c\n")) << plain;
  EXPECT_EQ(plain.find("\nhint"), std::string::npos);
  EXPECT_TRUE(written(true, message).starts_with("\x1b[1;31merror[x]: \x1b[0ma\n  hint: b\n"));
}

TEST(Output, StyledTextIsEscaped) {
  EXPECT_EQ(written(true, [](Output& out) { out.line(Style::kBold, "n\x1b", "r\u202e"); }),
            "\x1b[1mn\\x1b\x1b[0mr\\u{202e}\n");
}

}  // namespace
}  // namespace tl::cli
