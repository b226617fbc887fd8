#include "core/output_file.h"

#include <gtest/gtest.h>

#include <string>

#include "core/error.h"
#include "support/temp_directory.h"

namespace tl {
namespace {

TEST(OutputFile, AppendsSmallAndLargePiecesInOrder) {
  const TempDirectory dir;
  const std::string large(1 << 20, 'L');
  OutputFile file(dir / "a");
  file.append("head");
  file.append(large);
  file.append("tail");
  EXPECT_EQ(file.tell(), 8U + large.size());
  file.close();
  EXPECT_EQ(read_text(dir / "a"), "head" + large + "tail");
}

TEST(OutputFile, WriteAtReplacesWhatWasAppended) {
  const TempDirectory dir;
  OutputFile file(dir / "a");
  file.append("xxxx-body");
  file.write_at(0, std::as_bytes(std::span("1234", 4)));
  file.append("-more");
  file.close();
  EXPECT_EQ(read_text(dir / "a"), "1234-body-more");
}

TEST(OutputFile, WriteAtBeyondTheEndIsADefect) {
  const TempDirectory dir;
  OutputFile file(dir / "a");
  file.append("abc");
  EXPECT_THROW(file.write_at(1, std::as_bytes(std::span("abc", 3))), Error);
}

TEST(OutputFile, FailuresNameThePathAndTheReason) {
  const TempDirectory dir;
  try {
    write_file(dir / "none" / "a", std::string_view("x"));
    FAIL() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kOutputFailed);
    EXPECT_EQ(error.message, "cannot write " + (dir / "none" / "a").string() + ": No such file or directory");
    EXPECT_FALSE(error.hint.empty());
  }
}

TEST(OutputFile, AFullDiskIsReported) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  try {
    write_file("/dev/full", std::string_view("x"));
    FAIL() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.message, "cannot write /dev/full: No space left on device");
  }
}

TEST(OutputFile, TheFaultHookFailsTheNthOperationOnce) {
  const TempDirectory dir;
  // open, write, fsync
  for (int n = 1; n <= 3; ++n) {
    set_write_fault(n);
    EXPECT_THROW(write_file(dir / "a", std::string_view("x")), Error) << n;
  }
  set_write_fault(4);
  EXPECT_NO_THROW(write_file(dir / "a", std::string_view("x")));
  set_write_fault(0);
}

}  // namespace
}  // namespace tl
