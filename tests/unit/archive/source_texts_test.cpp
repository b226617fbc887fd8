#include "archive/source_texts.h"

#include <gmock/gmock.h>

#include "archive/zip_directory.h"
#include "core/mapped_file.h"
#include "test_files.h"

namespace tl {
namespace {

using test::error_of;
using test::little_endian;
using testing::HasSubstr;

std::string text(const std::string& value) { return "X" + little_endian(value.size(), 4) + value; }
std::string number(std::uint32_t value) { return "J" + little_endian(value, 4); }

/// (offset, ((source…), start, end), tag): a row as torch/csrc/jit/serialization/source_range_serialization.cpp has it.
std::string row(const std::string& source) {
  return "(" + number(0) + "((" + source + "t" + number(0) + number(1) + "t" + number(7) + "t";
}

std::vector<SourceText> read(const std::string& pickle) {
  const auto bytes = test::make_zip({test::stored("m/code/__torch__.py.debug_pkl", pickle)});
  return read_source_texts(ZipDirectory(test::as_bytes(bytes), "m.pt"));
}

TEST(SourceTexts, AreThoseOfTheTableOfLines) {
  const auto table = "(" + text("") + text("def f(x):\n") + text("    return x\n") + text("m.py") + "t";
  const auto here = row("](" + number(1) + number(2) + "e" + number(3) + number(5));
  const auto pickle = "\x80\x02(" + text("FORMAT_WITH_STRING_TABLE") + table + "(" + here + here + "tt.";
  const auto texts = read(pickle);
  ASSERT_EQ(texts.size(), 1U);
  EXPECT_EQ(texts[0].file, "m.py");
  EXPECT_EQ(texts[0].first_line, 5);
  EXPECT_EQ(texts[0].text, "def f(x):\n    return x\n");
}

TEST(SourceTexts, AreThoseOfTheOlderForm) {
  const auto texts = read("\x80\x02(" + row(text("def g(): pass\n") + text("g.py") + number(3)) +
                          row(text("no file\n") + "N" + number(3)) + "t.");
  ASSERT_EQ(texts.size(), 1U);
  EXPECT_EQ(texts[0].file, "g.py");
  EXPECT_EQ(texts[0].first_line, 3);
}

TEST(SourceTexts, RefuseWhatIsNoTableOfPositions) {
  EXPECT_THAT(error_of([] { read("\x80\x02)."); }).message, HasSubstr("a tuple of 0 values"));
  EXPECT_THAT(error_of([] { read("\x80\x02(" + number(1) + "t."); }).message, HasSubstr("a int where a tuple belongs"));
  const auto table = "(" + text("m.py") + "t";
  const auto beyond = row("](" + number(9) + "e" + number(0) + number(1));
  EXPECT_THAT(
      error_of([&] { read("\x80\x02(" + text("FORMAT_WITH_STRING_TABLE") + table + "(" + beyond + "tt."); }).message,
      HasSubstr("text 9 of 1"));
}

}  // namespace
}  // namespace tl
