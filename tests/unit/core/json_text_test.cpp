#include "core/json_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tl {
namespace {

using Json = nlohmann::ordered_json;

TEST(JsonText, BytesThatAreNoUtf8StayVisible) {
  const Json document = {{"k\xff", {"a\xc3", Json{{"b", "\xed\xa0\x80"}}}}, {"n", 3}};
  for (const auto style : {JsonStyle::kFile, JsonStyle::kLog}) {
    const auto read = Json::parse(json_text(document, style));
    EXPECT_EQ(read, Json({{"k\\xff", {"a\\xc3", Json{{"b", "\\xed\\xa0\\x80"}}}}, {"n", 3}}));
  }
}

TEST(JsonText, OtherTextIsKept) {
  const Json document = {{"\u202e", "::error::\x1b ##[group]é"}};
  EXPECT_EQ(json_text(document, JsonStyle::kFile), "{\n  \"\u202e\": \"::error::\\u001b ##[group]é\"\n}\n");
  EXPECT_EQ(json_text(document, JsonStyle::kLog), "{\n  \"\\u202e\": \"::error::\\u001b #\\u0023[group]\\u00e9\"\n}\n");
  EXPECT_EQ(Json::parse(json_text(document, JsonStyle::kLog)), document);
}

}  // namespace
}  // namespace tl
