#include "core/error.h"

#include <gtest/gtest.h>

#include <cctype>
#include <set>
#include <string>

#include "core/result.h"

namespace tl {
namespace {

constexpr ErrorCode kAllCodes[] = {
#define TL_ERROR(name, string, exit_class, help) ErrorCode::name,
#include "core/error_codes.def"
#undef TL_ERROR
};

TEST(ErrorCodes, StringsAreUniqueSnakeCaseAndHelpIsASentence) {
  std::set<std::string_view> seen;
  for (const ErrorCode code : kAllCodes) {
    EXPECT_TRUE(seen.insert(to_string(code)).second) << to_string(code);
    for (const char c : to_string(code)) EXPECT_TRUE(std::islower(c) || c == '_' || std::isdigit(c)) << to_string(code);
    EXPECT_EQ(help_of(code).back(), '.') << to_string(code);
    EXPECT_NE(exit_code_of(code), ExitCode::kGood) << to_string(code);
  }
}

TEST(ErrorCodes, ExitCodesOfTheContract) {
  EXPECT_EQ(static_cast<int>(exit_code_of(ErrorCode::kOutputExists)), 2);
  EXPECT_EQ(static_cast<int>(exit_code_of(ErrorCode::kOutputFailed)), 3);
  EXPECT_EQ(static_cast<int>(exit_code_of(ErrorCode::kUnsafeOperator)), 4);
  EXPECT_EQ(static_cast<int>(exit_code_of(ErrorCode::kModelRaised)), 5);
  EXPECT_EQ(static_cast<int>(exit_code_of(ErrorCode::kInternal)), 70);
}

TEST(Check, NamesTheInvariantAndThePlace) {
  try {
    TL_CHECK(1 > 2, "one is more than two");
    FAIL() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kInternal);
    EXPECT_EQ(error.message.find("one is more than two (1 > 2 at error_test.cpp:"), 0U) << error.message;
  }
}

TEST(ResultType, HoldsAValueOrThrowsItsError) {
  const Result<int> good = 3;
  const Result<int> bad = Error(ErrorCode::kFileMissing, "m.pt: gone");
  EXPECT_EQ(good.value(), 3);
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().message, "m.pt: gone");
  EXPECT_THROW((void)bad.value(), Error);
}

}  // namespace
}  // namespace tl
