#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tl {

/// How the bytes of a zip entry are encoded; the numbers are the format's.
enum class ZipMethod : std::uint16_t { kStored = 0, kDeflated = 8 };

/// One entry of a zip archive, all fields checked against the bytes present.
struct ZipEntry {
  std::string name;                   ///< as stored, `/` between parts; never absolute, never with `.` or `..` parts
  std::uint64_t header_offset = 0;    ///< of the local header, bytes from the start of the file
  std::uint64_t data_offset = 0;      ///< of the encoded bytes
  std::uint64_t compressed_size = 0;  ///< bytes in the file
  std::uint64_t size = 0;             ///< bytes after decoding
  ZipMethod method = ZipMethod::kStored;
  std::uint32_t crc32 = 0;

  bool is_folder() const { return name.back() == '/'; }
};

/// The central directory of a zip archive that lies in memory (a mapped file), read without trust: names, counts,
/// sizes, offsets, overlaps and the agreement of local headers with the directory are checked before the constructor
/// returns. The file must be exactly one archive: nothing before the first entry is skipped, nothing follows the end
/// record.
class ZipDirectory {
 public:
  /// `file_name` is used in messages only. `bytes` must outlive the object and what `stored` returns; `owner`, if
  /// given, is what keeps them alive and is handed on by `owner()`. Throws Error: kFileDamaged (truncated,
  /// inconsistent), kFileHostile (unsafe or duplicate names, overlaps, claims that no compressor can make), kFileLimits
  /// (more entries, longer names, more inflated bytes than limits.h allows).
  ZipDirectory(std::span<const std::byte> bytes, std::string file_name, std::shared_ptr<const void> owner = nullptr);

  ZipDirectory(ZipDirectory&&) = default;
  ZipDirectory& operator=(ZipDirectory&&) = default;

  /// In the order of the central directory.
  std::span<const ZipEntry> entries() const { return entries_; }
  /// nullptr if there is none of exactly that name.
  const ZipEntry* find(std::string_view name) const;
  /// Like find. Throws Error(kFileDamaged) that names the missing entry.
  const ZipEntry& at(std::string_view name) const;

  /// The encoded bytes in place. Throws Error(kFileDamaged) if the entry is compressed.
  std::span<const std::byte> stored(const ZipEntry& entry) const;
  /// The decoded bytes. The checksum is verified. Throws Error(kFileDamaged) if they do not decode to what was
  /// announced.
  std::vector<std::byte> read(const ZipEntry& entry) const;
  /// `read` as text (a copy of the bytes; no encoding is checked).
  std::string read_text(const ZipEntry& entry) const;
  /// Verifies the checksum of one entry, in place where it is stored. Throws Error(kFileDamaged) if it differs. Free of
  /// charge after verify_and_digest.
  void verify_crc(const ZipEntry& entry) const;
  /// Verifies the checksum of every entry. Throws Error(kFileDamaged) naming the first that differs.
  void verify_crc() const;
  /// verify_crc on up to `most_threads` threads, which takes the digest of every stored entry in the same pass. What it
  /// writes is read by digest and verify_crc(entry): none of them may run meanwhile.
  void verify_and_digest(unsigned most_threads);
  /// The digest (core/digest.h) of a stored entry's bytes; empty before verify_and_digest and for compressed entries.
  std::string_view digest(const ZipEntry& entry) const;

  const std::string& file_name() const { return file_name_; }
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  unsigned checking_threads(unsigned most) const;

  std::span<const std::byte> bytes_;
  std::string file_name_;
  std::shared_ptr<const void> owner_;
  std::vector<ZipEntry> entries_;
  std::vector<std::string> digests_;                           // by entry, once all are verified
  std::unordered_map<std::string_view, std::size_t> by_name_;  // views into entries_, which is never resized again
};

/// True if `bytes` begins like a zip archive.
bool looks_like_zip(std::span<const std::byte> bytes);

}  // namespace tl
