#include "select/selector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace tl {
namespace {

using testing::HasSubstr;

std::string text(std::string_view source) { return Selector::parse(source).text(); }

Error refused(std::string_view source) {
  try {
    (void)Selector::parse(source);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << source << " was taken";
  return {ErrorCode::kInternal, ""};
}

TEST(Selector, CanonicalText) {
  EXPECT_EQ(text("func('relu')"), "func(\"relu\")");
  EXPECT_EQ(text(" module( encoder.layer.0 ) "), "module(\"encoder.layer.0\")");
  EXPECT_EQ(text("a|b&c-d"), "a | b & c - d");
  EXPECT_EQ(text("(a|b)&~(c&d)"), "(a | b) & ~(c & d)");
  EXPECT_EQ(text("a - b - c"), "a - b - c");
  EXPECT_EQ(text("a - (b - c)"), "a - (b - c)");
  EXPECT_EQ(text("(a | b) | c"), "a | b | c");
  EXPECT_EQ(text("a & (b & c)"), "a & b & c");
  EXPECT_EQ(text("~~a"), "~~a");
  EXPECT_EQ(text("relu_1_2:3"), "relu_1_2:3");
  EXPECT_EQ(text("\"two words\""), "\"two words\"");
  EXPECT_EQ(text("ops[-1] | layers[\"relu_1_2\"] | -3"), "ops[-1] | layers[relu_1_2] | -3");
  EXPECT_EQ(text("output"), "output");
  EXPECT_EQ(text("\"output\""), "\"output\"");
  EXPECT_EQ(text("output(logits) | input()"), "output(\"logits\") | input");
  EXPECT_EQ(text("followed_by(func(relu) | func(add))"), "followed_by(func(\"relu\") | func(\"add\"))");
  EXPECT_EQ(text("regex('^conv\\d+_')"), "regex(\"^conv\\\\d+_\")");
  EXPECT_EQ(text("regex(\"^conv\\\\d+_\")"), "regex(\"^conv\\\\d+_\")");
}

TEST(Selector, CanonicalTextOfExpressions) {
  EXPECT_EQ(text("where(numel > 1e6 and dtype == \"bfloat16\")"), "where(numel > 1e+06 and dtype == \"bfloat16\")");
  EXPECT_EQ(text("where(not (a or b) and c)"), "where(not (a or b) and c)");
  EXPECT_EQ(text("where(1 <= numel < 10)"), "where(1 <= numel and numel < 10)");
  EXPECT_EQ(text("where(x not in [1, -2.50, 'a'])"), "where(x not in [1, -2.5, \"a\"])");
  EXPECT_EQ(text("where(None != io_role)"), "where(none != io_role)");
  EXPECT_EQ(text("where(2.0 == x)"), "where(2.0 == x)");
  EXPECT_EQ(text("where((a == b) == True)"), "where((a == b) == true)");
  EXPECT_EQ(text("where(9223372036854775807 == x)"), "where(9223372036854775807 == x)");
  EXPECT_EQ(text("where(9223372036854775808 == x)"), "where(9223372036854775808.0 == x)");
}

TEST(Selector, TextIsAFixedPoint) {
  for (const std::string source :
       {"a|b&c-d|~e", "where(a and (b or not c) and d in [1,2])", "followed_by(preceded_by(x) - y)", "~(a - ~b) & c",
        "(a & b) - (c | d)", "regex(\"\\\\\\\"\")", "where(\"it's\" in label)", "'a\\\\'", "\"ops[\"",
        "in_module(\"*\")"}) {
    const auto once = text(source);
    EXPECT_EQ(text(once), once) << source;
    EXPECT_EQ(Selector::parse(source), Selector::parse(once));
  }
}

TEST(Selector, SyntaxErrorsCarryACaret) {
  const auto error = refused("func(\"relu\" & module(\"a\")");
  EXPECT_EQ(error.code, ErrorCode::kSelectorSyntax);
  EXPECT_THAT(error.message, HasSubstr("expected ')'"));
  EXPECT_EQ(error.note, "func(\"relu\" & module(\"a\")\n            ^");
  EXPECT_THAT(refused("").message, HasSubstr("empty"));
  EXPECT_THAT(refused("a |").message, HasSubstr("the end"));
  EXPECT_THAT(refused("a b").message, HasSubstr("'b'"));
  EXPECT_THAT(refused("\"open").message, HasSubstr("does not end"));
  EXPECT_THAT(refused("fnuc(\"x\")").message, HasSubstr("no term"));
  EXPECT_THAT(refused("func").hint, HasSubstr("in quotes"));
  EXPECT_THAT(refused("func()").message, HasSubstr("needs the name of a function"));
  EXPECT_THAT(refused("where(numel >)").message, HasSubstr("expected a field"));
  EXPECT_THAT(refused("where(numel > 1e999)").message, HasSubstr("not a number"));
  EXPECT_THAT(refused("where(x in [a])").message, HasSubstr("a list holds"));
  EXPECT_THAT(refused("where(a < (b < c) < d)").message, HasSubstr("with 'and'"));
  EXPECT_EQ(refused("\"\"").code, ErrorCode::kSelectorSyntax);
}

TEST(Selector, TheCaretOfALongSourceIsShownInAWindow) {
  const auto error = refused(std::string(300, 'a') + " |");
  EXPECT_LT(error.note.size(), 160u);
  EXPECT_EQ(error.note.back(), '^');
}

TEST(Selector, GradientsAreRefusedByTheirCode) {
  const auto error = refused("func(\"relu\") | grad(\"relu\")");
  EXPECT_EQ(error.code, ErrorCode::kGradientNotSaved);
  EXPECT_EQ(error.note.substr(error.note.find('\n') + 1), std::string(15, ' ') + "^");
}

TEST(Selector, NestingAndSizeAreBounded) {
  EXPECT_THAT(refused(std::string(70, '(') + "a" + std::string(70, ')')).message, HasSubstr("64 deep"));
  EXPECT_THAT(refused(std::string(70, '~') + "a").message, HasSubstr("64 deep"));
  EXPECT_THAT(refused("where(" + std::string(70, '(') + "a" + std::string(70, ')') + ")").message,
              HasSubstr("64 deep"));
  EXPECT_THAT(refused(std::string(70'000, 'a')).message, HasSubstr("70000 bytes"));
  std::string many = "a";
  for (int i = 0; i < 5000; ++i) many += "|a";
  EXPECT_THAT(refused(many).message, HasSubstr("4096 terms"));
}

}  // namespace
}  // namespace tl
