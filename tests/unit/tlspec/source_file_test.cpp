#include "tlspec/source_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "support/temp_directory.h"
#include "tlspec/column_io.h"

namespace tl {
namespace {

using testing::HasSubstr;

TEST(SourceFile, GivesTheTextsBack) {
  const TempDirectory dir;
  const std::vector<SourceText> sources = {
      {"a/b.py", 7, "def f(x):\n  return x\n"}, {"", 1, ""}, {"c\n\xff", -3, "\0x"}};
  write_sources(dir / "s", sources);
  const auto read = read_sources(dir / "s");
  ASSERT_EQ(read.size(), sources.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].file, sources[i].file);
    EXPECT_EQ(read[i].first_line, sources[i].first_line);
    EXPECT_EQ(read[i].text, sources[i].text);
  }
}

TEST(SourceFile, OffsetsBeyondTheBytesAreRefused) {
  const TempDirectory dir;
  const std::vector<std::int64_t> lines = {1};
  const std::vector<std::int64_t> offsets = {0, 9};
  const std::vector<std::uint8_t> bytes = {65, 66};
  ColumnList columns;
  columns.add("first_line", std::span<const std::int64_t>(lines));
  for (const std::string name : {"file", "text"}) {
    columns.add(name + ".offsets", std::span<const std::int64_t>(offsets));
    columns.add(name + ".bytes", std::span<const std::uint8_t>(bytes));
  }
  columns.write(dir / "s");
  try {
    read_sources(dir / "s");
    FAIL() << "was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kFileDamaged);
    EXPECT_THAT(error.message, HasSubstr("file.offsets ends at 9, there are 2"));
  }
}

TEST(SourceFile, CountsThatDisagreeAreRefused) {
  const TempDirectory dir;
  const std::vector<std::int64_t> lines = {1, 2};
  const std::vector<std::int64_t> offsets = {0, 2};
  const std::vector<std::uint8_t> bytes = {65, 66};
  ColumnList columns;
  columns.add("first_line", std::span<const std::int64_t>(lines));
  for (const std::string name : {"file", "text"}) {
    columns.add(name + ".offsets", std::span<const std::int64_t>(offsets));
    columns.add(name + ".bytes", std::span<const std::uint8_t>(bytes));
  }
  columns.write(dir / "s");
  EXPECT_THROW(read_sources(dir / "s"), Error);
}

}  // namespace
}  // namespace tl
