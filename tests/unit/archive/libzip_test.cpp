// The zip directory against libzip, which shares no line with it: the same entries, sizes, checksums and bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zip.h>

#include <memory>

#include "archive/zip_directory.h"
#include "core/mapped_file.h"
#include "support/temp_directory.h"
#include "test_files.h"

namespace tl {
namespace {

namespace fs = std::filesystem;

struct Discard {
  void operator()(zip_t* archive) const { ::zip_discard(archive); }
  void operator()(zip_file_t* file) const { ::zip_fclose(file); }
};
using Archive = std::unique_ptr<zip_t, Discard>;

/// Null where libzip refuses the archive.
Archive open_by_libzip(const fs::path& path) {
  int error = 0;
  return Archive(::zip_open(path.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &error));
}

std::vector<std::byte> read_by_libzip(zip_t* archive, zip_uint64_t index, std::size_t size) {
  const std::unique_ptr<zip_file_t, Discard> file(::zip_fopen_index(archive, index, 0));
  std::vector<std::byte> bytes(size + 1);  // one more, so that an entry longer than it says shows
  std::size_t used = 0;
  while (file && used < bytes.size()) {
    const auto got = ::zip_fread(file.get(), bytes.data() + used, bytes.size() - used);
    if (got <= 0) break;
    used += static_cast<std::size_t>(got);
  }
  bytes.resize(used);
  return bytes;
}

/// What libzip refuses is refused here too; all else has the same entries.
void expect_the_same(const fs::path& path) {
  const auto theirs = open_by_libzip(path);
  const auto file = MappedFile::open(path);
  if (!theirs) {
    EXPECT_EQ(test::error_of([&] { ZipDirectory(file->bytes(), path.string(), file); }).code, ErrorCode::kFileDamaged);
    return;
  }
  const ZipDirectory ours(file->bytes(), path.string(), file);
  ASSERT_EQ(static_cast<std::size_t>(::zip_get_num_entries(theirs.get(), 0)), ours.entries().size()) << path;
  for (std::size_t i = 0; i < ours.entries().size(); ++i) {
    const auto& entry = ours.entries()[i];
    zip_stat_t facts;
    ASSERT_EQ(::zip_stat_index(theirs.get(), i, 0, &facts), 0) << path << ": " << entry.name;
    EXPECT_EQ(entry.name, facts.name) << path;
    EXPECT_EQ(entry.size, facts.size) << path << ": " << entry.name;
    EXPECT_EQ(entry.compressed_size, facts.comp_size) << path << ": " << entry.name;
    EXPECT_EQ(entry.crc32, facts.crc) << path << ": " << entry.name;
    EXPECT_EQ(static_cast<std::uint16_t>(entry.method), facts.comp_method) << path << ": " << entry.name;
    const bool same_bytes = ours.read(entry) == read_by_libzip(theirs.get(), i, entry.size);
    EXPECT_TRUE(same_bytes) << path << ": " << entry.name << " decodes to other bytes";
  }
}

TEST(LibZip, ReadsTheSameOutOfModelFiles) {
  auto files = test::shared_files("zoo", ".pt");
  for (auto& file : test::shared_files("zoo", ".pt2")) files.push_back(std::move(file));
  for (const auto& item : fs::directory_iterator(fs::path(TL_SOURCE_DIR) / "tests/models")) {
    if (item.path().extension() == ".pt" || item.path().extension() == ".pt2") files.push_back(item.path());
  }
  int compared = 0;
  for (const auto& file : files) {
    const auto mapped = MappedFile::open(file);
    if (!looks_like_zip(mapped->bytes())) continue;
    expect_the_same(file);
    ++compared;
  }
  EXPECT_GE(compared, 8) << "the project's own models at least";
}

TEST(LibZip, WritesWhatIsReadBack) {
  const TempDirectory directory;
  const auto path = directory / "made.zip";
  const std::vector<std::pair<std::string, std::string>> contents = {
      {"m/empty", ""}, {"m/short", "hello"}, {"m/zeros", std::string(300'000, '\0')}, {"m/ümlaut", "named in UTF-8"}};
  int error = 0;
  zip_t* archive = ::zip_open(path.c_str(), ZIP_CREATE | ZIP_EXCL, &error);
  ASSERT_NE(archive, nullptr) << error;
  for (const auto& [name, text] : contents) {
    auto* source = ::zip_source_buffer(archive, text.data(), text.size(), 0);
    const auto index = ::zip_file_add(archive, name.c_str(), source, ZIP_FL_ENC_UTF_8);
    ASSERT_GE(index, 0) << name;
    ASSERT_EQ(::zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), ZIP_CM_DEFLATE, 9), 0);
  }
  ASSERT_EQ(::zip_close(archive), 0);
  const auto file = MappedFile::open(path);
  const ZipDirectory zip(file->bytes(), "made.zip", file);
  ASSERT_EQ(zip.entries().size(), contents.size());
  for (const auto& [name, text] : contents) EXPECT_EQ(zip.read_text(zip.at(name)), text) << name;
  EXPECT_EQ(zip.at("m/zeros").method, ZipMethod::kDeflated);
  EXPECT_LT(zip.at("m/zeros").compressed_size, 1000U);
}

}  // namespace
}  // namespace tl
