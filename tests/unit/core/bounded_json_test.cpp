#include "core/bounded_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/json_scanner.h"

namespace tl {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

void expect_refused(const std::string& text, ErrorCode code, const std::string& part, const JsonLimits& limits = {}) {
  for (const bool built : {false, true}) {
    try {
      if (built) {
        parse_bounded_json(text, "x.json", limits);
      } else {
        check_json(text, "x.json", limits);
      }
      ADD_FAILURE() << "accepted: " << text.substr(0, 60);
    } catch (const Error& error) {
      EXPECT_EQ(error.code, code) << error.message;
      EXPECT_THAT(error.message, HasSubstr("x.json: "));
      EXPECT_THAT(error.message, HasSubstr(part)) << text.substr(0, 60);
    }
  }
}

// nlohmann's own parser, which is independent of the scanner, says what the documents are.
TEST(BoundedJson, BuildsWhatAnotherParserBuilds) {
  const std::vector<std::string> texts = {
      "0",
      " -0 ",
      "18446744073709551615",
      "-9223372036854775808",
      "123456789012345678901234567890",
      "1e-400",
      "2.5e3",
      "0.1",
      "true",
      "null",
      R"("")",
      R"("a\"\\\/\b\f\n\r\tä😀\u00e4\ud83d\ude00\u0000z")",
      "[]",
      "{}",
      "[[],{},[[]],\t{\"a\":[1,{\"b\":null}],\"c\":false}]",
      R"({"":1,"a":{"a":{"a":[]}},"\u0061b":2})",
      "\r\n[1 , 2\n,3 ]  ",
  };
  for (const auto& text : texts) {
    const json expected = json::parse(text);
    const json got = parse_bounded_json(text, "x.json");
    EXPECT_EQ(got, expected) << text;
    EXPECT_EQ(got.type(), expected.type()) << text;
  }
}

// The list of texts that JSON_parsing test suites agree to refuse, with the offset of the first wrong byte.
TEST(BoundedJson, RefusesWhatIsNotJson) {
  const std::vector<std::pair<std::string, int>> texts = {
      {"", 0},
      {"  ", 2},
      {"[", 1},
      {"]", 0},
      {"[1,]", 3},
      {"[,1]", 1},
      {"[1 2]", 3},
      {"[1}", 2},
      {"{]", 1},
      {"{\"a\"}", 4},
      {"{\"a\":}", 5},
      {"{\"a\":1,}", 7},
      {"{a:1}", 1},
      {"{1:1}", 1},
      {"1 1", 2},
      {"[]]", 2},
      {"01", 1},
      {"1.", 2},
      {"-", 1},
      {"+1", 0},
      {".5", 0},
      {"1e", 2},
      {"1e+", 3},
      {"0x10", 1},
      {"tru", 0},
      {"True", 0},
      {"nulll", 0},
      {"NaN", 0},
      {"-Infinity", 1},
      {"'a'", 0},
      {"\"a", 0},
      {"\"\\x\"", 1},
      {"\"\\u12g4\"", 3},
      {"\"\\ud800\"", 1},
      {"\"\\udc00\"", 1},
      {"\"\\ud800\\u0041\"", 1},
      {"\"\x01\"", 1},
      {"\"\xff\"", 1},
      {"\"\xc0\xaf\"", 1},
      {"\xef\xbb\xbf{}", 0},
      {"[1]//", 3},
      {"\"\\", 1},
  };
  for (const auto& [text, offset] : texts) {
    EXPECT_FALSE(json::accept(text) && text.front() != '\xef') << text;
    expect_refused(text, ErrorCode::kFileDamaged, "at byte " + std::to_string(offset));
  }
}

TEST(BoundedJson, NumbersOutsideADouble) {
  EXPECT_THROW(parse_bounded_json("1e999", "x"), Error);
  EXPECT_THROW(parse_bounded_json("[-1e999]", "x"), Error);
  EXPECT_EQ(parse_bounded_json("1e-999", "x"), 0.0);
}

TEST(BoundedJson, NonFiniteWordsOnlyWhereAskedFor) {
  const JsonLimits limits{.non_finite_words = true};
  const json list = parse_bounded_json("[NaN, Infinity, -Infinity, -1]", "x", limits);
  EXPECT_TRUE(std::isnan(list[0].get<double>()));
  EXPECT_EQ(list[1], std::numeric_limits<double>::infinity());
  EXPECT_EQ(list[2], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(list[3], -1);
  expect_refused("[nan]", ErrorCode::kFileDamaged, "at byte 1", limits);
  expect_refused("[-NaN]", ErrorCode::kFileDamaged, "at byte 2", limits);
}

TEST(BoundedJson, LimitsAreInclusive) {
  const auto nest = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(check_json(nest(64), "x").depth, 64U);
  expect_refused(nest(65), ErrorCode::kFileLimits, "nested deeper than 64 levels at byte 64");
  expect_refused("[1,2,3]", ErrorCode::kFileLimits, "more than 3 tokens at byte 5", {.tokens = 3});
  EXPECT_EQ(check_json("[1,2,3]", "x", {.tokens = 4}).tokens, 4U);
  EXPECT_EQ(check_json(R"({"a":1})", "x", {.tokens = 3}).tokens, 3U);
  expect_refused(R"(["abcd"])", ErrorCode::kFileLimits, "a string of 4 bytes, the limit is 3, at byte 1",
                 {.string_bytes = 3});
  expect_refused(R"({"abcd":1})", ErrorCode::kFileLimits, "a string of 4 bytes", {.string_bytes = 3});
  EXPECT_EQ(check_json(R"(["abc"])", "x", {.string_bytes = 3}).longest_string, 3U);
  expect_refused("[1, 2]", ErrorCode::kFileLimits, "has 6 bytes of JSON, the limit is 5", {.bytes = 5});
  expect_refused("[" + std::string(1'101, '1') + "]", ErrorCode::kFileLimits, "a number of 1101 characters");
}

TEST(BoundedJson, DuplicateKeys) {
  expect_refused(R"({"a":1,"b":2,"a":3})", ErrorCode::kFileHostile,
                 "the key 'a' stands twice in one object at byte 14");
  expect_refused(R"({"a":1,"\u0061":3})", ErrorCode::kFileHostile, "the key 'a' stands twice");
  expect_refused(R"({"o":{"k":{"a":1},"k":2}})", ErrorCode::kFileHostile, "the key 'k' stands twice");
  EXPECT_NO_THROW(check_json(R"([{"a":{"a":1}},{"a":2}])", "x"));
  EXPECT_EQ(parse_bounded_json(R"({"a":1,"a":2})", "x", {.unique_keys = false}), json({{"a", 2}}));
}

TEST(JsonToken, OffsetsAndDecoding) {
  JsonScanner scanner(R"( {"\u00e4": [ "x" ]})", "x", {});
  EXPECT_EQ(scanner.next().offset, 1U);
  const JsonToken key = scanner.next();
  EXPECT_EQ(key.kind, JsonTokenKind::kKey);
  EXPECT_EQ(key.offset, 2U);
  EXPECT_EQ(key.decoded(), "\xc3\xa4");
  EXPECT_EQ(scanner.next().kind, JsonTokenKind::kBeginArray);
  EXPECT_EQ(scanner.depth(), 2U);
  EXPECT_EQ(scanner.next().offset, 14U);
}

std::string repeated(const std::string& part, std::size_t count) {
  std::string text;
  text.reserve(part.size() * count);
  for (std::size_t i = 0; i < count; ++i) text += part;
  return text;
}

long peak_kilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// 40 MB of `[],` become 1.5 GB as a document, 40 MB of `[` as many levels: both are refused before one is built.
TEST(BoundedJson, HostileNestsTakeNoMemory) {
  constexpr std::size_t kBytes = 40'000'000;
  const std::string lists = repeated(repeated("[],", 1'000), kBytes / 3'000);
  const std::string objects = "[{" + repeated(repeated(R"("k":{},)", 1'000), kBytes / 7'000);
  const std::string deep(kBytes, '[');
  const std::string text = '"' + std::string(kBytes, 'x') + '"';
  const std::vector<std::tuple<std::string, ErrorCode, std::string>> cases = {
      {"[" + lists, ErrorCode::kFileLimits, "has more than 4000000 tokens"},
      {objects, ErrorCode::kFileLimits, "has more than 4000000 tokens"},
      {deep, ErrorCode::kFileLimits, "nested deeper than 64 levels"},
      {text, ErrorCode::kFileLimits, "a string of 40000000 bytes"},
  };
  const long before = peak_kilobytes();
  for (const auto& [json_text, code, part] : cases) {
    try {
      parse_bounded_json(json_text, "x");
      ADD_FAILURE() << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.code, code);
      EXPECT_THAT(error.message, HasSubstr(part));
    }
  }
  EXPECT_LT(peak_kilobytes() - before, 100'000);
}

// What the bound on tokens means for the memory of the densest documents; the figure in JsonLimits::tokens.
TEST(BoundedJson, MemoryATokenIsBounded) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers replace the allocator that is asked";
#else
  const auto allocated = [] {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  constexpr std::size_t kElements = 70'000;  // just above a power of two, where a list has the most spare room
  for (const std::string element : {"[]", "{}", "[0]", R"({"a":0})", R"("a string on the heap")"}) {
    const std::string text = "[" + repeated(element + ",", kElements) + element + "]";
    const std::size_t tokens = check_json(text, "x").tokens;
    const std::size_t before = allocated();
    const json document = parse_bounded_json(text, "x");
    const double bytes =
        (static_cast<double>(allocated() - before) - static_cast<double>(text.size())) / static_cast<double>(tokens);
    EXPECT_EQ(document.size(), kElements + 1);
    EXPECT_GT(bytes, 16) << element;  // the size of one value: the allocator was asked
    EXPECT_LT(bytes, 110) << element;
  }
#endif
}

}  // namespace
}  // namespace tl
