#include "archive/zip_directory.h"

#include <gmock/gmock.h>

#include "archive/entry_name.h"
#include "test_files.h"

namespace tl {
namespace {

using test::as_bytes;
using test::compressed;
using test::error_of;
using test::make_zip;
using test::stored;
using test::ZipPiece;
using ::testing::HasSubstr;

Error open_error(const std::string& file) {
  return error_of([&] { ZipDirectory(as_bytes(file), "m.pt"); });
}

TEST(ZipDirectory, ReadsStoredAndDeflatedEntries) {
  const std::string text(5000, 'a');
  for (const bool zip64 : {false, true}) {
    const std::string file =
        make_zip({stored("m/a", "hello"), compressed("m/b", text), stored("m/empty", "")}, "", zip64);
    const ZipDirectory zip(as_bytes(file), "m.pt");
    ASSERT_EQ(zip.entries().size(), 3u);
    EXPECT_EQ(zip.read_text(zip.at("m/a")), "hello");
    EXPECT_EQ(zip.stored(zip.at("m/a")).data(), as_bytes(file).data() + file.find("hello"));
    EXPECT_EQ(zip.read_text(zip.at("m/b")), text);
    EXPECT_TRUE(zip.read(zip.at("m/empty")).empty());
    EXPECT_EQ(zip.find("m/c"), nullptr);
    EXPECT_NO_THROW(zip.verify_crc());
    EXPECT_EQ(error_of([&] { zip.stored(zip.at("m/b")); }).code, ErrorCode::kFileDamaged);
    EXPECT_EQ(error_of([&] { zip.at("m/c"); }).code, ErrorCode::kFileDamaged);
  }
}

TEST(ZipDirectory, TakesSizesFromTheDirectoryWhenTheWriterUsedDescriptors) {
  ZipPiece piece = stored("m/a", "hello");
  piece.descriptor = true;
  const std::string file = make_zip({piece});
  const ZipDirectory zip(as_bytes(file), "m.pt");
  EXPECT_EQ(zip.read_text(zip.at("m/a")), "hello");
}

TEST(ZipDirectory, TakesACommentAndAnEmptyArchive) {
  const std::string commented = make_zip({stored("a", "x")}, "a comment");
  EXPECT_EQ(ZipDirectory(as_bytes(commented), "m.pt").entries().size(), 1u);
  const std::string empty = make_zip({});
  EXPECT_TRUE(ZipDirectory(as_bytes(empty), "m.pt").entries().empty());
}

TEST(ZipDirectory, RefusesUnsafeNames) {
  for (const char* name :
       {"/etc/passwd", "../x", "a/../x", "a/./x", "a//x", "a\\x", "C:/x", "a\nb", "a\x1b[2J", "a\x7f"}) {
    EXPECT_EQ(open_error(make_zip({stored(name, "x")})).code, ErrorCode::kFileHostile) << name;
  }
  EXPECT_EQ(open_error(make_zip({stored(std::string("a\0b", 3), "x")})).code, ErrorCode::kFileHostile);
  EXPECT_EQ(open_error(make_zip({stored("", "x")})).code, ErrorCode::kFileHostile);
  EXPECT_EQ(open_error(make_zip({stored(std::string(3000, 'a'), "x")})).code, ErrorCode::kFileLimits);
  EXPECT_EQ(unsafe_name_reason("a/b.c/d-1"), "");
  EXPECT_EQ(unsafe_name_reason("..a/b.."), "");
  // The message is safe to print.
  EXPECT_THAT(open_error(make_zip({stored("a\x1b[2J", "x")})).message, Not(HasSubstr("\x1b")));
}

TEST(ZipDirectory, RefusesDuplicatesAndOverlaps) {
  EXPECT_EQ(open_error(make_zip({stored("a", "x"), stored("a", "y")})).code, ErrorCode::kFileHostile);
  ZipPiece second = stored("b", "yy");
  second.header_offset = 0;
  second.local_name = "a";
  EXPECT_EQ(open_error(make_zip({stored("a", "xx"), second})).code, ErrorCode::kFileHostile);
  // Entry a claims the bytes up to the end of b.
  ZipPiece wide = stored("a", "xx");
  wide.size = wide.compressed_size = 40;
  EXPECT_EQ(open_error(make_zip({wide, stored("b", std::string(40, 'y'))})).code, ErrorCode::kFileHostile);
}

TEST(ZipDirectory, RefusesClaimsThatTheBytesCannotBack) {
  ZipPiece bomb = compressed("a", std::string(1000, 'a'));
  bomb.size = std::uint64_t{1} << 31;
  EXPECT_EQ(open_error(make_zip({bomb})).code, ErrorCode::kFileHostile);
  ZipPiece beyond = stored("a", "x");
  beyond.size = beyond.compressed_size = 1u << 30;
  EXPECT_EQ(open_error(make_zip({beyond})).code, ErrorCode::kFileDamaged);
  ZipPiece huge = stored("a", "x");
  huge.size = huge.compressed_size = ~std::uint64_t{0} - 10;
  EXPECT_EQ(open_error(make_zip({huge}, "", true)).code, ErrorCode::kFileDamaged);
  ZipPiece far = stored("a", "x");
  far.header_offset = ~std::uint64_t{0} - 3;
  EXPECT_EQ(open_error(make_zip({far}, "", true)).code, ErrorCode::kFileDamaged);
  std::string counted = make_zip({stored("a", "x")});
  counted[counted.size() - 22 + 8] = counted[counted.size() - 22 + 10] = '\x70';  // 112 entries
  EXPECT_EQ(open_error(counted).code, ErrorCode::kFileDamaged);
}

TEST(ZipDirectory, RefusesTwoReadingsOfOneFile) {
  ZipPiece renamed = stored("a", "x");
  renamed.local_name = "b";
  EXPECT_EQ(open_error(make_zip({renamed})).code, ErrorCode::kFileHostile);
  // An end record inside the comment of another.
  const std::string inner = make_zip({stored("a", "x")});
  EXPECT_EQ(open_error(make_zip({stored("a", "x")}, inner.substr(inner.size() - 22) + "tail")).code,
            ErrorCode::kFileDamaged);
  EXPECT_EQ(open_error(make_zip({stored("a", "x")}) + "tail").code, ErrorCode::kFileDamaged);
  EXPECT_EQ(open_error("head" + make_zip({stored("a", "x")})).code, ErrorCode::kFileDamaged);
  std::string both = make_zip({stored("a", "x")}, "", true);
  both[both.size() - 22 + 8] = both[both.size() - 22 + 10] = 2;  // 2 entries in the end record, 1 in the zip64 one
  both[both.size() - 22 + 9] = both[both.size() - 22 + 11] = 0;
  EXPECT_EQ(open_error(both).code, ErrorCode::kFileHostile);
}

TEST(ZipDirectory, RefusesEncryptionAndUnknownMethods) {
  ZipPiece encrypted = stored("a", "x");
  encrypted.flags = 1;
  EXPECT_EQ(open_error(make_zip({encrypted})).code, ErrorCode::kFileDamaged);
  ZipPiece lzma = stored("a", "x");
  lzma.method = 14;
  EXPECT_THAT(open_error(make_zip({lzma})).message, HasSubstr("compression method 14"));
}

TEST(ZipDirectory, RefusesFilesThatAreMarkedAsFolders) {
  std::string file = make_zip({stored("m/a", "hello")});
  file[file.rfind("PK\1\2") + 38] |= 0x10;  // external attributes: the DOS bit of a directory
  const Error error = open_error(file);
  EXPECT_EQ(error.code, ErrorCode::kFileHostile);
  EXPECT_THAT(error.message, HasSubstr("m/a"));
  std::string folder = make_zip({stored("m/", "")});
  folder[folder.rfind("PK\1\2") + 38] |= 0x10;
  EXPECT_NO_THROW(ZipDirectory(as_bytes(folder), "m.pt"));
}

TEST(ZipDirectory, NoticesDamagedData) {
  ZipPiece piece = stored("m/a", "hello");
  piece.crc ^= 1;
  const std::string file = make_zip({stored("m/ok", "x"), piece});
  const ZipDirectory zip(as_bytes(file), "m.pt");
  EXPECT_THAT(error_of([&] { zip.verify_crc(); }).message, HasSubstr("m/a"));
  EXPECT_EQ(error_of([&] { zip.read(zip.at("m/a")); }).code, ErrorCode::kFileDamaged);
  ZipPiece shorter = compressed("b", std::string(1000, 'b'));
  shorter.size = 999;
  const std::string lying = make_zip({shorter});
  const ZipDirectory lied(as_bytes(lying), "m.pt");
  EXPECT_EQ(error_of([&] { lied.read(lied.at("b")); }).code, ErrorCode::kFileDamaged);
}

// Large enough for two threads; whichever comes first, the first damaged entry of the directory is the one named.
TEST(ZipDirectory, NamesTheFirstDamagedEntryOfALargeArchive) {
  std::vector<ZipPiece> pieces;
  for (int i = 0; i < 20; ++i) {
    pieces.push_back(stored("m/" + std::to_string(i), std::string(i == 6 ? 4'000'001 : 700'000, static_cast<char>(i))));
  }
  const std::string whole = make_zip(pieces);
  EXPECT_NO_THROW(ZipDirectory(as_bytes(whole), "m.pt").verify_crc());
  for (const std::vector<int>& damaged : {std::vector{0}, {19}, {6, 7}, {6, 19}, {0, 1, 2, 3}}) {
    std::vector<ZipPiece> copies = pieces;
    for (const int i : damaged) copies[static_cast<std::size_t>(i)].data.back() ^= 1;
    const std::string file = make_zip(copies);
    const Error error = error_of([&] { ZipDirectory(as_bytes(file), "m.pt").verify_crc(); });
    EXPECT_EQ(error.code, ErrorCode::kFileDamaged);
    EXPECT_THAT(error.message, HasSubstr("\"m/" + std::to_string(damaged.front()) + "\""));
  }
}

TEST(ZipDirectory, EveryTruncationIsAnError) {
  const auto path = test::shared_dir() / "zoo/no_state.ts.pt";
  TL_NEEDS_SHARED(path);
  const std::string whole = test::file_text(path);
  EXPECT_NO_THROW(ZipDirectory(as_bytes(whole), "m.pt").verify_crc());
  for (std::size_t length = 0; length < whole.size(); length += 97) {
    const std::string cut = whole.substr(0, length);
    EXPECT_EQ(open_error(cut).code, ErrorCode::kFileDamaged) << length;
  }
}

TEST(ZipDirectory, OpensEveryArchiveOfTheZoo) {
  TL_NEEDS_SHARED(test::shared_dir() / "zoo");
  std::size_t count = 0;
  for (const std::string ending : {".pt", ".pt2"}) {
    for (const auto& path : test::shared_files("zoo", ending)) {
      const std::string name = path.filename().string();
      if (name == "neg_truncated.ts.pt" || name == "neg_old_format.pt" || name == "neg_empty.pt") continue;
      const auto file = MappedFile::open(path);
      EXPECT_NO_THROW(ZipDirectory(file->bytes(), name).verify_crc()) << name;
      ++count;
    }
  }
  EXPECT_GT(count, 200u);
}

}  // namespace
}  // namespace tl
