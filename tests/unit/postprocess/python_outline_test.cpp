// What check_outlines.py does not do: texts that are no Python, and hostile ones.
#include "postprocess/python_outline.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>

#include "core/python_tokens.h"

namespace tl {
namespace {

std::string repeated(const std::string& text, std::size_t times) {
  std::string out;
  out.reserve(text.size() * times);
  for (std::size_t i = 0; i < times; ++i) out += text;
  return out;
}

TEST(PythonOutline, HalfUnderstoodIsNotUnderstood) {
  for (const char* text : {
           "if x:\n",                        // no body
           "if x\n    y = 1\n",              // no colon
           "elif x:\n    y = 1\n",           // no if
           "else:\n    y = 1\n",             //
           "if x:\n        a\n    b\n",      // an indentation that is none
           "  x = 1\n    y = 2\n",           // deeper without a header
           "    x = 1\ny = 2\n",             // less than the first line
           "x = (1\n",                       // an open bracket
           "x = 1)\n",                       //
           "x = 'abc\n",                     // an open string
           "x = '''abc\n",                   //
           "x = a if b\n",                   // no else
           "x = a else b\n",                 // no if
           "x = if a else b\n",              // no operand
           "x = [a for b in c else d]\n",    //
           "x = a ? b : c\n",                // no Python at all
           "x = 1 \\ 2\n",                   //
           "if x: if y: z\n",                // a compound statement behind a colon
           "try:\n    x\nelse if y:\n  z\n"  //
       }) {
    EXPECT_FALSE(outline_python(text)) << text;
  }
}

TEST(PythonOutline, EmptyTextsHaveNothing) {
  for (const char* text : {"", "\n\n", "# if x:\n", "\f\n   \n"}) {
    const auto outline = outline_python(text);
    ASSERT_TRUE(outline) << text;
    EXPECT_TRUE(outline->conditionals.empty());
  }
}

TEST(PythonOutline, TheInnermostTestIsFound) {
  const std::string text = "while f(a if b else c):\n    assert d\n";
  const auto outline = outline_python(text);
  ASSERT_TRUE(outline);
  const auto context_at = [&](const char* word) {
    const auto* test = outline->test_at(static_cast<std::uint32_t>(text.find(word)));
    return test == nullptr ? BoolContext::kUnknown : test->context;
  };
  EXPECT_EQ(context_at("a if"), BoolContext::kWhile);
  EXPECT_EQ(context_at("b else"), BoolContext::kIfExp);
  EXPECT_EQ(context_at("c)"), BoolContext::kWhile);
  EXPECT_EQ(context_at("d"), BoolContext::kAssert);
  EXPECT_EQ(context_at("assert"), BoolContext::kUnknown);
}

TEST(PythonOutline, HostileTextsTakeBoundedTimeAndDepth) {
  const auto deep = [](const std::string& head, std::size_t levels) {
    std::string text;
    for (std::size_t level = 0; level < levels; ++level) text += std::string(level, ' ') + head + "\n";
    return text + std::string(levels, ' ') + "pass\n";
  };
  const std::string texts[] = {
      repeated("(", 900'000),
      repeated("[", 50) + repeated("a if b else ", 80'000) + "c" + repeated("]", 50),
      repeated("x = a if b else c\n", 50'000),
      "x = " + repeated("(a if b else ", 99) + "c" + repeated(")", 99),
      "if a:\n  b\n" + repeated("elif a:\n  b\n", 80'000),
      repeated("if a: return\n", 70'000),
      deep("if a:", 1'000),
      deep("while a:", 99),
      repeated("if a:\n return\n", 4'000) + repeated("lambda: ", 10'000),
      repeated("for ", 200'000),
      repeated("x = [a for b in c if d]\n", 40'000),
      repeated("; ", 400'000),
      repeated("\\\n", 400'000),
      repeated("'''", 300'000),
      std::string(1'000'000, '\0'),
      std::string(1'000'000, 'a'),
      std::string(4'000'000, 'a'),
      repeated("x[", 99) + repeated("a,", 400'000) + repeated("]", 99),
  };
  for (const auto& text : texts) {
    const auto start = std::chrono::steady_clock::now();
    outline_python(text);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    EXPECT_LT(taken.count(), 10) << text.substr(0, 40);  // well under a second on a quiet machine
  }
  EXPECT_FALSE(outline_python(texts[0]));
  EXPECT_TRUE(outline_python(texts[3]));
  EXPECT_FALSE(outline_python(texts[6]));
  EXPECT_TRUE(outline_python(texts[7]));
}

TEST(PythonOutline, SpansStayInTheText) {
  const std::string seed =
      "def f(x):\n    if (x and\n        y):  # if\n        return 'a' if x else b[1:2]\n    elif x: y = 1; return\n"
      "    while y: x = [a for a in b if a]\n    try:\n        pass\n    except E:\n        raise\n    return x\n";
  std::mt19937 random(7);
  const std::string bytes = seed + "\t\r\f\\\"'([{}])#:;=\n";
  for (int round = 0; round < 20'000; ++round) {
    auto text = seed;
    for (auto edits = 1 + random() % 4; edits > 0; --edits) {
      const auto at = random() % text.size();
      if (random() % 3 == 0) {
        text.erase(at, 1 + random() % 8);
      } else {
        text.insert(at, 1, bytes[random() % bytes.size()]);
      }
      if (text.empty()) text = "x";
    }
    const auto outline = outline_python(text);
    if (!outline) continue;
    for (const auto& conditional : outline->conditionals) {
      ASSERT_LT(conditional.span.begin, conditional.span.end);
      ASSERT_LE(conditional.span.end, text.size());
      ASSERT_FALSE(conditional.arms.empty());
      for (const auto& arm : conditional.arms) {
        ASSERT_FALSE(arm.body.empty()) << text;
        ASSERT_LE(arm.body.end, text.size());
        ASSERT_LE(arm.test.end, text.size());
      }
    }
  }
}

}  // namespace
}  // namespace tl
