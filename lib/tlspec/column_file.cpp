#include "tlspec/column_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>

#include "core/error.h"
#include "tensor/safetensors.h"
#include "tlspec/column_checks.h"

namespace tl {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::kU8;
};
template <>
struct DTypeOf<std::uint16_t> {
  static constexpr DType value = DType::kU16;
};
template <>
struct DTypeOf<std::uint32_t> {
  static constexpr DType value = DType::kU32;
};
template <>
struct DTypeOf<std::int16_t> {
  static constexpr DType value = DType::kI16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};

/// Columns to write; borrows their rows.
class ColumnList {
 public:
  template <typename T>
  void add(std::string name, std::span<const T> rows) {
    columns_.push_back({std::move(name), DTypeOf<T>::value, std::as_bytes(rows)});
  }

  template <typename T>
  void replace(std::string_view name, const std::vector<T>& rows) {
    const auto found = std::ranges::find(columns_, name, &Item::name);
    TL_CHECK(found != columns_.end() && found->bytes.size() == rows.size() * sizeof(T),
             "a stored column fits its table");
    found->bytes = std::as_bytes(std::span(rows));
  }

  SafetensorsWriter::Written write(const std::filesystem::path& path) {
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

 private:
  struct Item {
    std::string name;
    DType dtype;
    std::span<const std::byte> bytes;
  };
  std::vector<Item> columns_;
};

/// The strings one after the other, and where each begins.
struct FlatStrings {
  explicit FlatStrings(const StringPool& pool) {
    offsets.reserve(pool.size() + 1);
    offsets.push_back(0);
    for (std::size_t code = 0; code < pool.size(); ++code) {
      const auto text = pool[static_cast<std::int32_t>(code)];
      const auto begin = std::as_bytes(std::span(text));
      bytes.insert(bytes.end(), begin.begin(), begin.end());
      offsets.push_back(static_cast<std::int64_t>(bytes.size()));
    }
  }

  std::vector<std::int64_t> offsets;
  std::vector<std::byte> bytes;
};

/// Columns that recordings of earlier builds lack; theirs hold "none" in every row.
constexpr std::array kAddedLater = {
    std::string_view("ops.sample"),
    std::string_view("params.digest"),
};

class ColumnReader {
 public:
  explicit ColumnReader(const std::filesystem::path& path)
      : shown_name_(path.string()), file_(SafetensorsFile::open(path)) {}

  /// The rows of a column; the span stays valid while `owner` lives. Copied if they lie unaligned.
  template <typename T>
  void map(const std::string& name, Column<T>& column) const {
    const auto tensor = find(name, DTypeOf<T>::value);
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

  /// True if the file has no such column and need not have it.
  bool may_lack(const std::string& name) const {
    return std::ranges::find(kAddedLater, name) != kAddedLater.end() && !file_.find(name);
  }

  /// A 1-D tensor of that dtype.
  HostTensor find(const std::string& name, DType dtype) const {
    const auto tensor = file_.tensor(name);
    if (!tensor) fail("the column " + name + " is missing");
    if (tensor->dtype != dtype || tensor->sizes.size() != 1) {
      fail("the column " + name + " is a " + std::to_string(tensor->sizes.size()) + "-d tensor of " +
           std::string(short_name(tensor->dtype)) + ", not a 1-d tensor of " + std::string(short_name(dtype)));
    }
    return *tensor;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::kFileDamaged, shown_name_ + ": " + what);
  }

  /// Offsets of a pool: they begin at 0, never fall, and end at `total`; one row more than the pool has.
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

void read_strings(const ColumnReader& reader, StringPool& pool) {
  const auto offsets = reader.column<std::int64_t>("strings.offsets");
  const auto bytes = reader.find("strings.bytes", DType::kU8);
  reader.check_offsets("strings.offsets", offsets.view(), bytes.storage.size());
  const auto* text = reinterpret_cast<const char*>(bytes.storage.data());
  for (std::size_t row = 0; row + 1 < offsets.size(); ++row) {
    const auto begin = static_cast<std::size_t>(offsets[row]);
    pool.append_view({text + begin, static_cast<std::size_t>(offsets[row + 1]) - begin});
  }
  pool.keep_alive(bytes.owner);
}

void read_shapes(const ColumnReader& reader, ShapePool& pool) {
  const auto begin = reader.column<std::int32_t>("shapes.begin");
  const auto dims = reader.column<std::int64_t>("shapes.dims");
  reader.check_offsets("shapes.begin", begin.view(), dims.size());
  pool.restore(begin.view(), dims.view());
}

/// Gives the columns named as many rows of "none" as their tables have.
void fill_lacking(Trace& trace, const std::vector<std::string>& names) {
  if (names.empty()) return;
  for_each_table(trace, [&](std::string_view table, auto& rows, auto&& visit) {
    std::size_t count = 0;
    visit(rows, [&](std::string_view, const auto& column, std::string_view, std::string_view) {
      count = std::max(count, column.size());
    });
    visit(rows, [&](std::string_view field, auto& column, std::string_view unit, std::string_view meaning) {
      if (std::ranges::find(names, std::string(table) + "." + std::string(field)) == names.end()) return;
      using Value = std::remove_cvref_t<decltype(column[0])>;
      const bool none = unit == "string" || meaning.find("-1") != std::string_view::npos;
      column.resize(count, none ? static_cast<Value>(-1) : Value{});
    });
  });
}

}  // namespace

std::vector<std::pair<std::string, std::int64_t>> column_counts(const Trace& trace) {
  std::vector<std::pair<std::string, std::int64_t>> counts;
  for (const auto& [table, rows] : table_rows(trace)) counts.emplace_back(table, static_cast<std::int64_t>(rows));
  counts.emplace_back("strings", static_cast<std::int64_t>(trace.strings.size()));
  counts.emplace_back("shapes", static_cast<std::int64_t>(trace.shapes.size()));
  counts.emplace_back("args", static_cast<std::int64_t>(trace.args.size()));
  counts.emplace_back("flow_args", static_cast<std::int64_t>(trace.flow_args.size()));
  return counts;
}

SafetensorsWriter::Written write_columns(const std::filesystem::path& path, const Trace& trace,
                                         const StoredPayloadColumns& stored) {
  ColumnList columns;
  for_each_table(trace, [&](std::string_view table, const auto& rows, auto&& visit) {
    visit(rows, [&](std::string_view field, const auto& column, std::string_view, std::string_view) {
      columns.add(std::string(table) + "." + std::string(field), column.view());
    });
  });
  columns.replace("payloads.encoding", stored.encoding);
  columns.replace("payloads.offset", stored.offset);
  columns.replace("payloads.shard", stored.shard);
  const FlatStrings strings(trace.strings);
  columns.add("strings.offsets", std::span<const std::int64_t>(strings.offsets));
  columns.add("strings.bytes",
              std::span(reinterpret_cast<const std::uint8_t*>(strings.bytes.data()), strings.bytes.size()));
  columns.add("shapes.begin", trace.shapes.begin_column());
  columns.add("shapes.dims", trace.shapes.dims_column());
  columns.add("args", trace.args.view());
  columns.add("flow_args", trace.flow_args.view());
  return columns.write(path);
}

void read_columns(const std::filesystem::path& path, Trace& trace) {
  const ColumnReader reader(path);
  std::vector<std::string> lacking;
  for_each_table(trace, [&](std::string_view table, auto& rows, auto&& visit) {
    visit(rows, [&](std::string_view field, auto& column, std::string_view, std::string_view) {
      const auto name = std::string(table) + "." + std::string(field);
      if (reader.may_lack(name)) {
        lacking.push_back(name);
      } else {
        reader.map(name, column);
      }
    });
  });
  fill_lacking(trace, lacking);
  read_strings(reader, trace.strings);
  read_shapes(reader, trace.shapes);
  reader.map("args", trace.args);
  reader.map("flow_args", trace.flow_args);
}

SafetensorsWriter::Written write_timing(const std::filesystem::path& path, const Trace& trace) {
  ColumnList columns;
  columns.add("ops.seconds", trace.op_seconds.view());
  columns.add("module_calls.seconds", trace.module_call_seconds.view());
  return columns.write(path);
}

void read_timing(const std::filesystem::path& path, Trace& trace) {
  const ColumnReader reader(path);
  reader.map("ops.seconds", trace.op_seconds);
  reader.map("module_calls.seconds", trace.module_call_seconds);
}

}  // namespace tl
