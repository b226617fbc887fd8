#include "core/log.h"

#include <gtest/gtest.h>

namespace tl {
namespace {

TEST(Log, PrintsLevelAndTextToStderr) {
  testing::internal::CaptureStderr();
  log(LogLevel::kWarning, "two {} braces");
  log(LogLevel::kInfo, "hidden");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "warning: two {} braces\n");
}

TEST(Log, LevelDecidesWhatIsPrinted) {
  set_log_level(LogLevel::kDebug);
  testing::internal::CaptureStderr();
  log(LogLevel::kDebug, "a");
  set_log_level(LogLevel::kOff);
  log(LogLevel::kError, "b");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "debug: a\n");
  set_log_level(LogLevel::kWarning);
}

TEST(Log, EveryLineIsEscaped) {
  testing::internal::CaptureStderr();
  log(LogLevel::kError, "bad\x1b name\n::warning::x");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "error: bad\\x1b name\n\\:\\:warning::x\n");
}

TEST(WriteErrorLines, AreEscapedAndEnd) {
  testing::internal::CaptureStderr();
  write_error_lines("a\x1b[2J\n::error::b");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "a\\x1b[2J\n\\:\\:error::b\n");
}

}  // namespace
}  // namespace tl
