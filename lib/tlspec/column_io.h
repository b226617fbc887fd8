#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/safetensors.h"
#include "tensor/safetensors_writer.h"
#include "trace/column.h"

namespace tl {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

/// The dtype under which a column of T is stored.
template <typename T>
inline constexpr DType kColumnDType = DType::kNone;
template <>
inline constexpr DType kColumnDType<std::uint8_t> = DType::kU8;
template <>
inline constexpr DType kColumnDType<std::uint16_t> = DType::kU16;
template <>
inline constexpr DType kColumnDType<std::uint32_t> = DType::kU32;
template <>
inline constexpr DType kColumnDType<std::int16_t> = DType::kI16;
template <>
inline constexpr DType kColumnDType<std::int32_t> = DType::kI32;
template <>
inline constexpr DType kColumnDType<std::int64_t> = DType::kI64;
template <>
inline constexpr DType kColumnDType<float> = DType::kF32;
template <>
inline constexpr DType kColumnDType<double> = DType::kF64;

/// Columns to write as 1-D tensors of a safetensors file; borrows their rows until write().
class ColumnList {
 public:
  template <typename T>
  void add(std::string name, std::span<const T> rows) {
    columns_.push_back({std::move(name), kColumnDType<T>, std::as_bytes(rows)});
  }

  /// Other rows for a column that was added, as many as it had.
  template <typename T>
  void replace(std::string_view name, const std::vector<T>& rows) {
    replace_bytes(name, std::as_bytes(std::span(rows)));
  }

  /// Wide elements first, so that all are aligned in memory; else in the order they were added.
  SafetensorsWriter::Written write(const std::filesystem::path& path);

 private:
  struct Item {
    std::string name;
    DType dtype;
    std::span<const std::byte> bytes;
  };

  void replace_bytes(std::string_view name, std::span<const std::byte> bytes);

  std::vector<Item> columns_;
};

/// Reads columns back from an untrusted file. Throws Error(kFileDamaged), with the file's name, where a column is
/// missing or of another type or rank.
class ColumnReader {
 public:
  /// Throws as SafetensorsFile::open.
  explicit ColumnReader(const std::filesystem::path& path);

  bool has(const std::string& name) const { return file_.find(name) != nullptr; }

  /// Lets `column` view the rows in the file; copies them if they lie unaligned.
  template <typename T>
  void map(const std::string& name, Column<T>& column) const {
    const auto tensor = find(name, kColumnDType<T>);
    if (tensor.storage.empty()) {
      column = Column<T>();
      return;
    }
    const auto rows = tensor.storage.size() / sizeof(T);
    if (reinterpret_cast<std::uintptr_t>(tensor.storage.data()) % alignof(T) == 0) {
      column.map({reinterpret_cast<const T*>(tensor.storage.data()), rows}, tensor.owner);
    } else {
      std::vector<T> copy(rows);
      std::memcpy(copy.data(), tensor.storage.data(), tensor.storage.size());
      column.assign(std::move(copy));
    }
  }

  template <typename T>
  Column<T> column(const std::string& name) const {
    Column<T> result;
    map(name, result);
    return result;
  }

  /// A 1-D tensor of that dtype.
  HostTensor find(const std::string& name, DType dtype) const;

  [[noreturn]] void fail(const std::string& what) const;

  /// Offsets of a pool: they begin at 0, never fall, and end at `total`; one row more than the pool has, which is at
  /// most 2^31 - 1.
  template <typename T>
  void check_offsets(const std::string& name, std::span<const T> offsets, std::size_t total) const {
    if (offsets.empty()) fail(name + " has no rows, not even the end");
    if (offsets.size() - 1 > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
      fail(name + " has " + std::to_string(offsets.size()) + " rows, codes are 32-bit");
    }
    if (offsets[0] != 0) fail(name + "[0] is " + std::to_string(offsets[0]) + ", not 0");
    for (std::size_t row = 1; row < offsets.size(); ++row) {
      if (offsets[row] < offsets[row - 1]) {
        fail(name + "[" + std::to_string(row) + "] is " + std::to_string(offsets[row]) + ", the row before has " +
             std::to_string(offsets[row - 1]));
      }
    }
    if (static_cast<std::uint64_t>(offsets.back()) != total) {
      fail(name + " ends at " + std::to_string(offsets.back()) + ", there are " + std::to_string(total));
    }
  }

 private:
  std::string shown_name_;
  SafetensorsFile file_;
};

}  // namespace tl
