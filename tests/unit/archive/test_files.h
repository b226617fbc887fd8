#pragma once

#include <gtest/gtest.h>
#include <libdeflate.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/mapped_file.h"

namespace tl::test {

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

inline std::string little_endian(std::uint64_t value, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

inline std::string deflated(std::string_view data) {
  libdeflate_compressor* compressor = libdeflate_alloc_compressor(6);
  std::string out(libdeflate_deflate_compress_bound(compressor, data.size()), '\0');
  out.resize(libdeflate_deflate_compress(compressor, data.data(), data.size(), out.data(), out.size()));
  libdeflate_free_compressor(compressor);
  return out;
}

/// One entry as it is to be written; fields that lie are set on purpose.
struct ZipPiece {
  std::string name;
  std::string data;  ///< as in the file (compressed if method is 8)
  std::uint16_t method = 0;
  std::uint64_t size = 0;             ///< announced; set by stored() and compressed()
  std::uint64_t compressed_size = 0;  ///< announced
  std::uint32_t crc = 0;
  std::string local_name;  ///< empty: as name
  std::uint16_t flags = 0;
  bool descriptor = false;                          ///< sizes zero in the local header, as torch writes them
  std::uint64_t header_offset = ~std::uint64_t{0};  ///< announced; ~0: where it is
};

inline ZipPiece stored(std::string name, std::string data) {
  ZipPiece piece;
  piece.name = std::move(name);
  piece.size = piece.compressed_size = data.size();
  piece.crc = libdeflate_crc32(0, data.data(), data.size());
  piece.data = std::move(data);
  return piece;
}

inline ZipPiece compressed(std::string name, const std::string& data) {
  ZipPiece piece = stored(std::move(name), deflated(data));
  piece.method = 8;
  piece.size = data.size();
  piece.crc = libdeflate_crc32(0, data.data(), data.size());
  return piece;
}

/// A zip archive of the pieces in order (APPNOTE.TXT 6.3: local headers with data, directory, end record).
inline std::string make_zip(const std::vector<ZipPiece>& pieces, std::string_view comment = {}, bool zip64 = false) {
  std::string file;
  std::string directory;
  for (const ZipPiece& piece : pieces) {
    const std::uint64_t offset = piece.header_offset == ~std::uint64_t{0} ? file.size() : piece.header_offset;
    const std::string local_name = piece.local_name.empty() ? piece.name : piece.local_name;
    const auto flags = static_cast<std::uint16_t>(piece.flags | (piece.descriptor ? 8 : 0));
    const std::string common = little_endian(flags, 2) + little_endian(piece.method, 2) + little_endian(0, 4);
    file += "PK\x03\x04" + little_endian(20, 2) + common + little_endian(piece.descriptor ? 0 : piece.crc, 4) +
            little_endian(piece.descriptor ? 0 : piece.compressed_size, 4) +
            little_endian(piece.descriptor ? 0 : piece.size, 4) + little_endian(local_name.size(), 2) +
            little_endian(0, 2) + local_name + piece.data;
    const std::string extra = zip64 ? little_endian(1, 2) + little_endian(24, 2) + little_endian(piece.size, 8) +
                                          little_endian(piece.compressed_size, 8) + little_endian(offset, 8)
                                    : std::string();
    const auto narrow = [&](std::uint64_t value) { return little_endian(zip64 ? 0xffffffff : value, 4); };
    directory += "PK\x01\x02" + little_endian(20, 2) + little_endian(20, 2) + common + little_endian(piece.crc, 4) +
                 narrow(piece.compressed_size) + narrow(piece.size) + little_endian(piece.name.size(), 2) +
                 little_endian(extra.size(), 2) + little_endian(0, 2) + little_endian(0, 2) + little_endian(0, 2) +
                 little_endian(0, 4) + narrow(offset) + piece.name + extra;
  }
  const std::uint64_t start = file.size();
  file += directory;
  if (zip64) {
    const std::uint64_t record = file.size();
    file += "PK\x06\x06" + little_endian(44, 8) + little_endian(45, 2) + little_endian(45, 2) + little_endian(0, 8) +
            little_endian(pieces.size(), 8) + little_endian(pieces.size(), 8) + little_endian(directory.size(), 8) +
            little_endian(start, 8);
    file += "PK\x06\x07" + little_endian(0, 4) + little_endian(record, 8) + little_endian(1, 4);
  }
  file += "PK\x05\x06" + little_endian(0, 4) + little_endian(zip64 ? 0xffff : pieces.size(), 2) +
          little_endian(zip64 ? 0xffff : pieces.size(), 2) + little_endian(zip64 ? 0xffffffff : directory.size(), 4) +
          little_endian(zip64 ? 0xffffffff : start, 4) + little_endian(comment.size(), 2) + std::string(comment);
  return file;
}

/// The Error that `action` throws; fails the test if there is none.
inline Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error was thrown";
  return Error(ErrorCode::kInternal, "no error was thrown");
}

inline std::filesystem::path shared_dir() { return TL_SHARED_DIR; }

/// Files below a folder of the reference files whose names end so, sorted.
inline std::vector<std::filesystem::path> shared_files(const std::string& folder, std::string_view ending) {
  std::vector<std::filesystem::path> files;
  std::error_code none;
  for (const auto& item : std::filesystem::directory_iterator(shared_dir() / folder, none)) {
    if (item.path().filename().string().ends_with(ending)) files.push_back(item.path());
  }
  std::ranges::sort(files);
  return files;
}

inline std::filesystem::path fixture(const std::string& name) {
  return std::filesystem::path(TL_SOURCE_DIR) / "tests/unit/archive/data" / name;
}

inline std::string file_text(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  return {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()};
}

}  // namespace tl::test

/// Skips the test where the reference files are not there.
#define TL_NEEDS_SHARED(file)                                                          \
  if (const std::filesystem::path needed = (file); !std::filesystem::exists(needed)) { \
    GTEST_SKIP() << "reference files are not here: " << needed.string();               \
  }
