#include "archive/zip_directory.h"

#include <libdeflate.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "archive/byte_reader.h"
#include "archive/entry_name.h"
#include "archive/zip_layout.h"
#include "core/digest.h"
#include "core/error.h"
#include "core/parallel.h"

namespace tl {
namespace {

[[noreturn]] void fail_entry(const std::string& file, const ZipEntry& entry, const std::string& what) {
  throw Error(ErrorCode::kFileDamaged, file + ": zip archive: entry " + quoted_name(entry.name) + ": " + what,
              "copy, download or save the file again");
}

/// Passes the bytes on in blocks that stay in the second-level cache while two readers go over them. The bytes may lie
/// in a mapped file, where a fault a page takes as long as a checksum itself (3 GB/s instead of 6), so the pages of
/// large entries are asked for by the block; where the kernel cannot, they come one by one.
void for_each_block(std::span<const std::byte> bytes, const auto& take) {
  constexpr std::size_t kBlock = std::size_t{256} << 10;
  if (bytes.size() <= kBlock) return take(bytes);
  static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  while (!bytes.empty()) {
    const std::span<const std::byte> block = bytes.first(std::min(kBlock, bytes.size()));
    bytes = bytes.subspan(block.size());
#ifdef MADV_POPULATE_READ
    const auto address = reinterpret_cast<std::uintptr_t>(block.data());
    const std::uintptr_t first = address / page * page;
    ::madvise(reinterpret_cast<void*>(first), address - first + block.size(), MADV_POPULATE_READ);
#endif
    take(block);
  }
}

void compare_crc(const std::string& file, const ZipEntry& entry, std::uint32_t crc, std::size_t size) {
  if (crc != entry.crc32) fail_entry(file, entry, "its checksum does not match its " + std::to_string(size) + " bytes");
}

void check_crc(const std::string& file, const ZipEntry& entry, std::span<const std::byte> decoded) {
  std::uint32_t crc = 0;
  for_each_block(decoded,
                 [&](std::span<const std::byte> block) { crc = libdeflate_crc32(crc, block.data(), block.size()); });
  compare_crc(file, entry, crc, decoded.size());
}

std::string check_crc_and_digest(const std::string& file, const ZipEntry& entry, std::span<const std::byte> stored) {
  std::uint32_t crc = 0;
  Digester digester;
  for_each_block(stored, [&](std::span<const std::byte> block) {
    crc = libdeflate_crc32(crc, block.data(), block.size());
    digester.update(block);
  });
  compare_crc(file, entry, crc, stored.size());
  return digester.hex();
}

std::vector<std::byte> inflate(const std::string& file, const ZipEntry& entry, std::span<const std::byte> encoded) {
  const std::unique_ptr<libdeflate_decompressor, decltype(&libdeflate_free_decompressor)> decompressor(
      libdeflate_alloc_decompressor(), &libdeflate_free_decompressor);
  if (!decompressor) throw std::bad_alloc();
  std::vector<std::byte> decoded(static_cast<std::size_t>(entry.size));
  // One spare byte stands in for the buffer of an empty entry: libdeflate wants a non-null pointer.
  std::byte spare{};
  std::size_t used = 0;
  const libdeflate_result result =
      libdeflate_deflate_decompress_ex(decompressor.get(), encoded.data(), encoded.size(),
                                       decoded.empty() ? &spare : decoded.data(), decoded.size(), &used, nullptr);
  if (result != LIBDEFLATE_SUCCESS || used != encoded.size()) {
    fail_entry(file, entry,
               "its compressed data does not inflate to the announced " + std::to_string(entry.size) + " bytes");
  }
  return decoded;
}

}  // namespace

ZipDirectory::ZipDirectory(std::span<const std::byte> bytes, std::string file_name, std::shared_ptr<const void> owner)
    : bytes_(bytes), file_name_(std::move(file_name)), owner_(std::move(owner)) {
  entries_ = read_zip_layout(bytes_, file_name_);
  by_name_.reserve(entries_.size());
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (!by_name_.emplace(entries_[i].name, i).second) {
      throw Error(ErrorCode::kFileHostile,
                  file_name_ + ": zip archive: two entries named " + quoted_name(entries_[i].name));
    }
  }
}

const ZipEntry* ZipDirectory::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

const ZipEntry& ZipDirectory::at(std::string_view name) const {
  if (const ZipEntry* entry = find(name)) return *entry;
  throw Error(ErrorCode::kFileDamaged, file_name_ + ": zip archive: no entry " + quoted_name(name));
}

std::span<const std::byte> ZipDirectory::stored(const ZipEntry& entry) const {
  if (entry.method != ZipMethod::kStored) fail_entry(file_name_, entry, "it is compressed, a stored one was expected");
  return bytes_.subspan(entry.data_offset, entry.compressed_size);
}

std::vector<std::byte> ZipDirectory::read(const ZipEntry& entry) const {
  const std::span<const std::byte> encoded = bytes_.subspan(entry.data_offset, entry.compressed_size);
  std::vector<std::byte> decoded = entry.method == ZipMethod::kStored
                                       ? std::vector<std::byte>(encoded.begin(), encoded.end())
                                       : inflate(file_name_, entry, encoded);
  check_crc(file_name_, entry, decoded);
  return decoded;
}

std::string ZipDirectory::read_text(const ZipEntry& entry) const {
  if (entry.method == ZipMethod::kStored) {
    const std::span<const std::byte> bytes = stored(entry);
    check_crc(file_name_, entry, bytes);
    return std::string(as_text(bytes));
  }
  return std::string(as_text(read(entry)));
}

void ZipDirectory::verify_crc(const ZipEntry& entry) const {
  if (!digests_.empty()) return;
  if (entry.method == ZipMethod::kStored) {
    check_crc(file_name_, entry, stored(entry));
  } else {
    read(entry);
  }
}

void ZipDirectory::verify_crc() const {
  for_each_parallel(entries_.size(), checking_threads(2), [this](std::size_t i) { verify_crc(entries_[i]); });
}

void ZipDirectory::verify_and_digest(unsigned most_threads) {
  std::vector<std::string> digests(entries_.size());
  for_each_parallel(entries_.size(), checking_threads(most_threads), [&](std::size_t i) {
    const auto& entry = entries_[i];
    if (entry.method == ZipMethod::kStored)
      digests[i] = check_crc_and_digest(file_name_, entry, stored(entry));
    else
      verify_crc(entry);
  });
  digests_ = std::move(digests);
}

// One thread reads memory at 3 GB/s while it also maps it, two reach twice that; a small file is done before the second
// has started.
unsigned ZipDirectory::checking_threads(unsigned most) const {
  constexpr std::size_t kBytesForTwo = std::size_t{16} << 20;
  return bytes_.size() < kBytesForTwo ? 1 : most;
}

std::string_view ZipDirectory::digest(const ZipEntry& entry) const {
  if (digests_.empty()) return {};
  return digests_[static_cast<std::size_t>(&entry - entries_.data())];
}

}  // namespace tl
