#include "engine/literal.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/given_inputs.h"

namespace tl {
namespace {

std::string shown(const std::string& text) {
  const auto value = parse_literal(text, "here");
  return value ? describe(*value) : "no literal";
}

TEST(Literal, Scalars) {
  EXPECT_EQ(shown("3"), "3");
  EXPECT_EQ(shown("-9223372036854775808"), "-9223372036854775808");
  EXPECT_EQ(shown("0.5"), "0.5");
  EXPECT_EQ(shown("1e3"), "1000.0");
  EXPECT_EQ(shown(" true "), "true");
  EXPECT_EQ(shown("False"), "false");
  EXPECT_EQ(shown("none"), "none");
  EXPECT_EQ(shown("null"), "none");
  EXPECT_EQ(shown("\"a b\""), "\"a b\"");
  EXPECT_EQ(shown("-inf"), "-inf");
  EXPECT_TRUE(std::isnan(std::get<double>(parse_literal("nan", "")->data)));
  EXPECT_EQ(parse_literal("3", "here")->source, "here");
}

TEST(Literal, Containers) {
  EXPECT_EQ(shown("[1, 2]"), "list of 2 (1, …)");
  EXPECT_EQ(shown("(1,)"), "tuple of 1 (1)");
  EXPECT_EQ(shown("[]"), "list of 0");
  EXPECT_EQ(shown("{\"a\": [1], \"b\": null}"), "dict of 2 (list of 1 (1), …)");
}

TEST(Literal, EscapesOfJson) {
  EXPECT_EQ(std::get<std::string>(parse_literal(R"("\u00e9\ud83d\ude00\n\"")", "")->data), "\u00e9\U0001F600\n\"");
  EXPECT_EQ(shown(R"("\ud83d")"), "no literal");  // half a surrogate pair
  EXPECT_EQ(shown(R"("\q")"), "no literal");
}

TEST(Literal, WhatIsNone) {
  for (const auto* text :
       {"", "x.npy", "3 4", "[1", "[1,]", "{1}", "\"a", "9223372036854775808", "0x10", "1.2.3", "--3", "tru"}) {
    EXPECT_EQ(shown(text), "no literal") << text;
  }
  EXPECT_NE(shown(std::string(60, '[') + std::string(60, ']')), "no literal");
  EXPECT_EQ(shown(std::string(70, '[') + std::string(70, ']')), "no literal");
  EXPECT_EQ(shown(std::string(100'000, '[')), "no literal");
}

TEST(Literal, TheReasonNamesThePlace) {
  const auto reason = [](const std::string& text) {
    std::string why;
    EXPECT_FALSE(parse_literal(text, "", &why)) << text;
    return why;
  };
  EXPECT_EQ(reason("{\"n\": 3,}"), "'}' where a value should be at character 9");
  EXPECT_EQ(reason("[1, 2"), "neither ',' nor ']' at character 6");
  EXPECT_EQ(reason("3 x"), "text after the value at character 3");
  EXPECT_EQ(reason("99999999999999999999"), "'99999999999999999999', which is outside int64 at character 1");
  EXPECT_EQ(reason("[1e999]"), "'1e999', which is outside float64 at character 2");
  EXPECT_EQ(reason("0x10"), "'0x10', which is no value at character 1");
  EXPECT_EQ(reason("--3"), "'--3', which is no number at character 1");
  EXPECT_EQ(reason("\"a"), "a string without its closing quote at character 3");
  EXPECT_EQ(reason("\"a\xff\""), "a byte that is no UTF-8 at character 3");
  EXPECT_EQ(reason("{\"a\": 1, \"a\": 2}"), "a key that cannot be one, or is there already at character 10");
  EXPECT_EQ(reason("{[1]: 1}"), "a key that cannot be one, or is there already at character 2");
  EXPECT_EQ(reason(std::string(100, '[')), "more than 64 levels at character 66");
  EXPECT_EQ(reason(""), "nothing where a value should be at character 1");
}

}  // namespace
}  // namespace tl
