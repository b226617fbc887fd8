#include "archive/nested_archive.h"

#include <functional>
#include <vector>

#include "archive/entry_name.h"
#include "core/error.h"

namespace tl {

NestedArchive::NestedArchive(const ZipDirectory& outer, const ZipEntry& entry) {
  const std::string name = outer.file_name() + ": " + entry.name;
  std::shared_ptr<const void> owner = outer.owner();
  if (entry.method == ZipMethod::kStored) {
    outer.verify_crc(entry);
    bytes_ = outer.stored(entry);
    data_offset_ = owner ? entry.data_offset : 0;
  } else {
    const auto copy = std::make_shared<const std::vector<std::byte>>(outer.read(entry));
    bytes_ = *copy;
    owner = copy;
  }
  if (!looks_like_zip(bytes_)) throw Error(ErrorCode::kFileDamaged, name + ": is no archive that torch.save wrote");
  zip_.emplace(bytes_, name, owner);
}

std::uint64_t NestedArchive::offset_of(std::span<const std::byte> part) const {
  const std::less<const std::byte*> before;
  const bool inside = !before(part.data(), bytes_.data()) && before(part.data(), bytes_.data() + bytes_.size());
  return data_offset_ != 0 && inside ? data_offset_ + static_cast<std::uint64_t>(part.data() - bytes_.data()) : 0;
}

}  // namespace tl
