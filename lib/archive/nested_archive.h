#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "archive/zip_directory.h"

namespace tl {

/// A zip archive that is an entry of another: in place where that is stored, else a decoded copy.
class NestedArchive {
 public:
  /// `outer` must outlive the object, but not what comes out of it if it has an owner. The entry's checksum is
  /// verified. Throws Error as ZipDirectory does, with both names.
  NestedArchive(const ZipDirectory& outer, const ZipEntry& entry);

  const ZipDirectory& zip() const { return *zip_; }
  /// Bytes from the start of the outer file to `part` of this archive; 0 if that is not in place.
  std::uint64_t offset_of(std::span<const std::byte> part) const;

 private:
  std::span<const std::byte> bytes_;
  std::uint64_t data_offset_ = 0;  // of the entry in the outer file; 0 if copied
  std::optional<ZipDirectory> zip_;
};

}  // namespace tl
