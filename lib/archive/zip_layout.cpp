#include "archive/zip_layout.h"

#include <algorithm>
#include <cstdint>

#include "archive/byte_reader.h"
#include "archive/entry_name.h"
#include "archive/limits.h"
#include "core/error.h"

namespace tl {
namespace {

constexpr std::uint32_t kLocalSignature = 0x04034b50;
constexpr std::uint32_t kCentralSignature = 0x02014b50;
constexpr std::uint32_t kEndSignature = 0x06054b50;
constexpr std::uint32_t kZip64EndSignature = 0x06064b50;
constexpr std::uint32_t kZip64LocatorSignature = 0x07064b50;
constexpr std::size_t kLocalBytes = 30;
constexpr std::size_t kCentralBytes = 46;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kZip64EndBytes = 56;
constexpr std::size_t kZip64LocatorBytes = 20;
constexpr std::size_t kMaxCommentBytes = 0xffff;
constexpr std::uint32_t kIn64 = 0xffffffff;  // the value that says "see the zip64 field"
constexpr std::uint16_t kIn64Short = 0xffff;
constexpr std::uint16_t kZip64FieldId = 0x0001;
constexpr std::uint32_t kDosFolder = 0x10;  // among the external attributes
constexpr std::uint16_t kFlagEncrypted = 0x0001;
constexpr std::uint16_t kFlagDescriptor = 0x0008;
constexpr std::uint16_t kFlagStrongEncryption = 0x0040;
constexpr std::uint16_t kFlagMaskedHeaders = 0x2000;

struct DirectoryPlace {
  std::uint64_t entries = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

/// The sizes and offset of a header whose 32-bit fields may point into its zip64 extra field.
struct Sizes {
  std::uint64_t size = 0;
  std::uint64_t compressed_size = 0;
  std::uint64_t header_offset = 0;
  bool complete = true;  // false: a field says "see zip64" and there is none
};

std::string to_text(std::uint64_t number) { return std::to_string(number); }

/// Parses the directory of one archive; one object a call of read_zip_layout.
class DirectoryReader {
 public:
  DirectoryReader(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  std::vector<ZipEntry> read() {
    const DirectoryPlace place = find_directory();
    if (place.entries > limits::kZipEntries) {
      fail(ErrorCode::kFileLimits, to_text(place.entries) + " entries, the limit is " + to_text(limits::kZipEntries));
    }
    if (place.entries > place.size / kCentralBytes) {
      damaged("the directory announces " + to_text(place.entries) + " entries but has " + to_text(place.size) +
              " bytes");
    }
    std::vector<ZipEntry> entries;
    entries.reserve(static_cast<std::size_t>(place.entries));
    std::uint64_t at = place.offset;
    for (std::uint64_t i = 0; i < place.entries; ++i) entries.push_back(read_central(at, place));
    if (at != place.offset + place.size) {
      damaged("the directory has " + to_text(place.size) + " bytes, its entries take " + to_text(at - place.offset));
    }
    check_inflated_total(entries);
    check_overlaps(entries);
    return entries;
  }

 private:
  [[noreturn]] void fail(ErrorCode code, const std::string& what) const { throw Error(code, file_ + ": " + what); }
  [[noreturn]] void damaged(const std::string& what) const { fail(ErrorCode::kFileDamaged, "zip archive: " + what); }
  [[noreturn]] void damaged(const ZipEntry& entry, const std::string& what) const {
    damaged("entry " + quoted_name(entry.name) + ": " + what);
  }

  std::uint16_t u16(std::uint64_t at) const { return static_cast<std::uint16_t>(little_endian_at(bytes_, at, 2)); }
  std::uint32_t u32(std::uint64_t at) const { return static_cast<std::uint32_t>(little_endian_at(bytes_, at, 4)); }
  std::uint64_t u64(std::uint64_t at) const { return little_endian_at(bytes_, at, 8); }

  // The last end signature of the file must be the end record and its comment must reach exactly the end of the file:
  // readers search backwards in different ways, and must not be able to disagree on which directory counts.
  std::uint64_t find_end_record() const {
    const std::uint64_t total = bytes_.size();
    if (total >= kEndBytes) {
      const std::uint64_t lowest = total - std::min<std::uint64_t>(total, kEndBytes + kMaxCommentBytes);
      for (std::uint64_t at = total - kEndBytes + 1; at-- > lowest;) {
        if (u32(at) != kEndSignature) continue;
        if (at + kEndBytes + u16(at + 20) != total) {
          damaged("the end record at byte " + to_text(at) + " does not end with the file (" + to_text(total) +
                  " bytes)");
        }
        return at;
      }
    }
    throw Error(ErrorCode::kFileDamaged,
                file_ + ": zip archive without an end record in " + to_text(total) + " bytes: the file is truncated",
                "copy, download or save it again");
  }

  DirectoryPlace find_directory() const {
    const std::uint64_t end = find_end_record();
    DirectoryPlace place{u16(end + 10), u32(end + 16), u32(end + 12)};
    if ((u16(end + 4) != 0 && u16(end + 4) != kIn64Short) || (u16(end + 6) != 0 && u16(end + 6) != kIn64Short)) {
      damaged("it is one part of a multi-part archive");
    }
    if (u16(end + 8) != u16(end + 10)) damaged("the end record counts entries on other disks");
    std::uint64_t directory_end = end;
    if (end >= kZip64LocatorBytes && u32(end - kZip64LocatorBytes) == kZip64LocatorSignature) {
      directory_end = read_zip64_end(end, place);
    } else if (place.entries == kIn64Short || place.offset == kIn64 || place.size == kIn64) {
      damaged("the end record refers to a zip64 record that is not there");
    }
    if (!range_fits(place.offset, place.size, directory_end) || place.offset + place.size != directory_end) {
      damaged("the directory (" + to_text(place.size) + " bytes at " + to_text(place.offset) +
              ") does not end where the end record begins (" + to_text(directory_end) + ")");
    }
    return place;
  }

  // Fills `place` from the zip64 end record and returns where that record begins.
  std::uint64_t read_zip64_end(std::uint64_t end, DirectoryPlace& place) const {
    const std::uint64_t locator = end - kZip64LocatorBytes;
    const std::uint64_t record = u64(locator + 8);
    if (!range_fits(record, kZip64EndBytes, locator) || u32(record) != kZip64EndSignature) {
      damaged("the zip64 locator points to byte " + to_text(record) + ", where no zip64 end record lies");
    }
    if (u64(record + 4) != locator - record - 12) damaged("the zip64 end record does not reach its locator");
    if (u32(locator + 4) != 0 || u32(record + 16) != 0 || u32(record + 20) != 0 ||
        u64(record + 24) != u64(record + 32)) {
      damaged("it is one part of a multi-part archive");
    }
    const DirectoryPlace place64{u64(record + 32), u64(record + 48), u64(record + 40)};
    const bool agrees = (place.entries == kIn64Short || place.entries == place64.entries) &&
                        (place.offset == kIn64 || place.offset == place64.offset) &&
                        (place.size == kIn64 || place.size == place64.size);
    if (!agrees) fail(ErrorCode::kFileHostile, "zip archive: the end record and the zip64 end record disagree");
    place = place64;
    return record;
  }

  // Resolves 32-bit fields that stand for zip64 ones; `extra` is the header's extra field.
  Sizes resolve(std::uint32_t size, std::uint32_t compressed, std::uint32_t offset, std::uint64_t extra,
                std::uint16_t extra_bytes) const {
    Sizes sizes{size, compressed, offset, true};
    if (size != kIn64 && compressed != kIn64 && offset != kIn64) return sizes;
    const std::uint64_t extra_end = extra + extra_bytes;
    sizes.complete = false;
    for (std::uint64_t at = extra; at + 4 <= extra_end;) {
      const std::uint64_t field_end = at + 4 + u16(at + 2);
      if (field_end > extra_end) break;
      if (u16(at) == kZip64FieldId) {
        std::uint64_t value = at + 4;
        const auto take = [&](std::uint32_t narrow, std::uint64_t& wide) {
          if (narrow != kIn64) return true;
          if (value + 8 > field_end) return false;
          wide = u64(value);
          value += 8;
          return true;
        };
        sizes.complete =
            take(size, sizes.size) && take(compressed, sizes.compressed_size) && take(offset, sizes.header_offset);
        break;
      }
      at = field_end;
    }
    return sizes;
  }

  ZipEntry read_central(std::uint64_t& at, const DirectoryPlace& place) const {
    const std::uint64_t directory_end = place.offset + place.size;
    if (!range_fits(at, kCentralBytes, directory_end) || u32(at) != kCentralSignature) {
      damaged("no directory record at byte " + to_text(at));
    }
    const std::uint16_t name_bytes = u16(at + 28);
    const std::uint16_t extra_bytes = u16(at + 30);
    const std::uint64_t variable = std::uint64_t{name_bytes} + extra_bytes + u16(at + 32);
    if (!range_fits(at + kCentralBytes, variable, directory_end)) {
      damaged("the directory record at byte " + to_text(at) + " is cut off");
    }
    ZipEntry entry;
    entry.name = read_name(at + kCentralBytes, name_bytes);
    const std::uint16_t flags = u16(at + 8);
    const Sizes sizes = resolve(u32(at + 24), u32(at + 20), u32(at + 42), at + kCentralBytes + name_bytes, extra_bytes);
    if (!sizes.complete) damaged(entry, "its zip64 sizes are missing");
    if ((flags & (kFlagEncrypted | kFlagStrongEncryption | kFlagMaskedHeaders)) != 0) damaged(entry, "it is encrypted");
    if (u16(at + 34) != 0) damaged(entry, "it lies on another disk");
    // LibTorch's reader (miniz) gives nothing for what is marked as a folder, and takes that for the entry's bytes.
    if ((u32(at + 38) & kDosFolder) != 0 && !entry.is_folder()) {
      fail(ErrorCode::kFileHostile,
           "zip archive: entry " + quoted_name(entry.name) + " is marked as a folder, its name is that of a file");
    }
    const std::uint16_t method = u16(at + 10);
    if (method != 0 && method != 8) {
      damaged(entry, "compression method " + to_text(method) + ", only stored (0) and deflated (8) are read");
    }
    entry.method = static_cast<ZipMethod>(method);
    entry.crc32 = u32(at + 16);
    entry.size = sizes.size;
    entry.compressed_size = sizes.compressed_size;
    entry.header_offset = sizes.header_offset;
    check_sizes(entry);
    read_local(entry, flags, place.offset);
    at += kCentralBytes + variable;
    return entry;
  }

  std::string read_name(std::uint64_t at, std::uint16_t count) const {
    const std::string name(as_text(bytes_.subspan(at, count)));
    if (name.size() > limits::kZipNameBytes) {
      fail(ErrorCode::kFileLimits, "zip archive: an entry name of " + to_text(name.size()) + " bytes, the limit is " +
                                       to_text(limits::kZipNameBytes));
    }
    if (const std::string_view reason = unsafe_name_reason(name); !reason.empty()) {
      fail(ErrorCode::kFileHostile, "zip archive: entry name " + quoted_name(name) + " " + std::string(reason));
    }
    return name;
  }

  void check_sizes(const ZipEntry& entry) const {
    if (entry.method == ZipMethod::kStored) {
      if (entry.size != entry.compressed_size) {
        damaged(entry,
                "stored with " + to_text(entry.compressed_size) + " bytes but announced as " + to_text(entry.size));
      }
      return;
    }
    if (entry.compressed_size > bytes_.size()) {
      damaged(entry, to_text(entry.compressed_size) + " bytes in a file of " + to_text(bytes_.size()));
    }
    if (entry.size / limits::kInflateRatio > entry.compressed_size) {
      fail(ErrorCode::kFileHostile, "zip archive: entry " + quoted_name(entry.name) + " claims to inflate from " +
                                        to_text(entry.compressed_size) + " to " + to_text(entry.size) + " bytes");
    }
    if (entry.size > limits::kInflatedEntryBytes) {
      fail(ErrorCode::kFileLimits, "zip archive: entry " + quoted_name(entry.name) + " inflates to " +
                                       to_text(entry.size) + " bytes, the limit is " +
                                       to_text(limits::kInflatedEntryBytes));
    }
  }

  // LibTorch's reader goes by local headers for names and lengths, so they must agree with the directory.
  void read_local(ZipEntry& entry, std::uint16_t central_flags, std::uint64_t limit) const {
    const std::uint64_t at = entry.header_offset;
    if (!range_fits(at, kLocalBytes, limit) || u32(at) != kLocalSignature) {
      damaged(entry, "no local header at byte " + to_text(at));
    }
    const std::uint16_t name_bytes = u16(at + 26);
    const std::uint16_t extra_bytes = u16(at + 28);
    if (!range_fits(at + kLocalBytes, std::uint64_t{name_bytes} + extra_bytes, limit)) {
      damaged(entry, "its local header is cut off");
    }
    if (as_text(bytes_.subspan(at + kLocalBytes, name_bytes)) != entry.name) {
      fail(ErrorCode::kFileHostile,
           "zip archive: entry " + quoted_name(entry.name) + " has another name in its local header");
    }
    if (u16(at + 8) != static_cast<std::uint16_t>(entry.method) ||
        ((u16(at + 6) ^ central_flags) & kFlagEncrypted) != 0) {
      damaged(entry, "its local header and the directory disagree on the encoding");
    }
    check_local_sizes(entry, at, extra_bytes);
    entry.data_offset = at + kLocalBytes + name_bytes + extra_bytes;
    if (!range_fits(entry.data_offset, entry.compressed_size, limit)) {
      damaged(entry, to_text(entry.compressed_size) + " bytes at " + to_text(entry.data_offset) +
                         " reach beyond the directory at " + to_text(limit));
    }
  }

  void check_local_sizes(const ZipEntry& entry, std::uint64_t at, std::uint16_t extra_bytes) const {
    const bool descriptor = (u16(at + 6) & kFlagDescriptor) != 0;
    const Sizes local = resolve(u32(at + 22), u32(at + 18), 0, at + kLocalBytes + entry.name.size(), extra_bytes);
    // With a data descriptor the writer knew neither size nor checksum when it wrote the header.
    const bool unknown = descriptor && (!local.complete || (local.size == 0 && local.compressed_size == 0));
    if (unknown) return;
    if (!local.complete || local.size != entry.size || local.compressed_size != entry.compressed_size ||
        (!descriptor && u32(at + 14) != entry.crc32)) {
      damaged(entry, "its local header (" + to_text(local.size) + " bytes) and the directory (" + to_text(entry.size) +
                         " bytes) disagree");
    }
  }

  void check_inflated_total(const std::vector<ZipEntry>& entries) const {
    std::uint64_t total = 0;
    for (const ZipEntry& entry : entries) {
      if (entry.method == ZipMethod::kDeflated) total += entry.size;  // at most 200k × 4 GiB: no overflow
    }
    const std::uint64_t allowed =
        std::min(limits::kInflatedTotalBytes,
                 std::max<std::uint64_t>(limits::kInflateFreeBytes, limits::kInflateTotalRatio * bytes_.size()));
    if (total > allowed) {
      fail(ErrorCode::kFileLimits, "zip archive: its entries inflate to " + to_text(total) + " bytes, the limit for " +
                                       to_text(bytes_.size()) + " bytes of file is " + to_text(allowed));
    }
  }

  void check_overlaps(const std::vector<ZipEntry>& entries) const {
    std::vector<const ZipEntry*> order;
    order.reserve(entries.size());
    for (const ZipEntry& entry : entries) order.push_back(&entry);
    std::ranges::sort(order, {}, &ZipEntry::header_offset);
    for (std::size_t i = 1; i < order.size(); ++i) {
      const ZipEntry& before = *order[i - 1];
      if (before.data_offset + before.compressed_size > order[i]->header_offset) {
        fail(ErrorCode::kFileHostile, "zip archive: entries " + quoted_name(before.name) + " and " +
                                          quoted_name(order[i]->name) + " overlap at byte " +
                                          to_text(order[i]->header_offset));
      }
    }
  }

  std::span<const std::byte> bytes_;
  const std::string& file_;
};

}  // namespace

std::vector<ZipEntry> read_zip_layout(std::span<const std::byte> bytes, const std::string& file_name) {
  return DirectoryReader(bytes, file_name).read();
}

bool looks_like_zip(std::span<const std::byte> bytes) {
  if (bytes.size() < 4) return false;
  const auto signature = static_cast<std::uint32_t>(little_endian_at(bytes, 0, 4));
  return signature == kLocalSignature || signature == kEndSignature;
}

}  // namespace tl
