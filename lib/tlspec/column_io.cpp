#include "tlspec/column_io.h"

#include <algorithm>
#include <functional>

#include "core/error.h"

namespace tl {

void ColumnList::replace_bytes(std::string_view name, std::span<const std::byte> bytes) {
  const auto found = std::ranges::find(columns_, name, &Item::name);
  TL_CHECK(found != columns_.end() && found->bytes.size() == bytes.size(), "a stored column fits its table");
  found->bytes = bytes;
}

SafetensorsWriter::Written ColumnList::write(const std::filesystem::path& path) {
  std::ranges::stable_sort(columns_, std::ranges::greater{}, [](const Item& item) { return item_bytes(item.dtype); });
  std::size_t name_bytes = 0;
  for (const auto& column : columns_) name_bytes += column.name.size();
  SafetensorsWriter writer(path, SafetensorsWriter::header_space(columns_.size(), name_bytes));
  for (const auto& column : columns_) {
    const auto rows = static_cast<std::int64_t>(column.bytes.size() / item_bytes(column.dtype));
    writer.add_raw(column.name, column.dtype, std::span(&rows, 1), column.bytes);
  }
  return writer.finish(true);
}

ColumnReader::ColumnReader(const std::filesystem::path& path)
    : shown_name_(path.string()), file_(SafetensorsFile::open(path)) {}

HostTensor ColumnReader::find(const std::string& name, DType dtype) const {
  const auto tensor = file_.tensor(name);
  if (!tensor) fail("the column " + name + " is missing");
  if (tensor->dtype != dtype || tensor->sizes.size() != 1) {
    fail("the column " + name + " is a " + std::to_string(tensor->sizes.size()) + "-d tensor of " +
         std::string(short_name(tensor->dtype)) + ", not a 1-d tensor of " + std::string(short_name(dtype)));
  }
  return *tensor;
}

void ColumnReader::fail(const std::string& what) const {
  throw Error(ErrorCode::kFileDamaged, shown_name_ + ": " + what);
}

}  // namespace tl
