#include "core/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <string_view>

#include "core/error.h"
#include "core/output_file.h"
#include "support/temp_directory.h"

namespace tl {
namespace {

std::string message_of_open(const std::filesystem::path& path) {
  try {
    (void)MappedFile::open(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kFileMissing);
    return error.message;
  }
  return "nothing thrown";
}

TEST(MappedFile, SeesTheBytes) {
  const TempDirectory dir;
  write_file(dir / "a", std::string_view("abc"));
  const auto file = MappedFile::open(dir / "a");
  ASSERT_EQ(file->bytes().size(), 3U);
  EXPECT_EQ(static_cast<char>(file->bytes()[2]), 'c');
}

TEST(MappedFile, AnEmptyFileIsAnEmptySpan) {
  const TempDirectory dir;
  write_file(dir / "a", std::string_view());
  EXPECT_TRUE(MappedFile::open(dir / "a")->bytes().empty());
}

TEST(MappedFile, OutlivesTheNameOfTheFile) {
  const TempDirectory dir;
  write_file(dir / "a", std::string_view("abc"));
  const auto file = MappedFile::open(dir / "a");
  std::filesystem::remove(dir / "a");
  EXPECT_EQ(static_cast<char>(file->bytes()[0]), 'a');
}

TEST(MappedFile, SaysWhyItCannotBeOpened) {
  const TempDirectory dir;
  EXPECT_EQ(message_of_open(dir / "none"), (dir / "none").string() + ": No such file or directory");
  EXPECT_EQ(message_of_open(dir.path()), dir.path().string() + ": is a directory");
  ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(message_of_open(dir / "fifo"), (dir / "fifo").string() + ": is not a regular file");
}

}  // namespace
}  // namespace tl
