#include "tlspec/column_file.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <type_traits>

#include "tlspec/column_checks.h"
#include "tlspec/column_io.h"

namespace tl {
namespace {

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
    std::string_view("branches.conditional_arm"),
    std::string_view("conditionals.kind"),
    std::string_view("conditionals.line"),
    std::string_view("conditionals.line_end"),
    std::string_view("conditionals.parent_arm"),
    std::string_view("conditional_arms.conditional"),
    std::string_view("conditional_arms.kind"),
    std::string_view("conditional_arms.elif_index"),
    std::string_view("conditional_arms.line"),
    std::string_view("conditional_arms.line_end"),
    std::string_view("conditional_arms.test"),
    std::string_view("conditional_arms.evaluated"),
    std::string_view("conditional_arms.fired"),
    std::string_view("conditional_arms.test_op"),
    std::string_view("bools.op"),
    std::string_view("bools.context"),
    std::string_view("bools.value"),
};

/// Tables all of whose columns were.
constexpr std::array kTablesAddedLater = {std::string_view("conditional_arms"), std::string_view("bools")};

/// True if the file has no such column and need not have it.
bool may_lack(const ColumnReader& reader, const std::string& name) {
  return std::ranges::find(kAddedLater, name) != kAddedLater.end() && !reader.has(name);
}

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

bool added_later(std::string_view table) {
  return std::ranges::find(kTablesAddedLater, table) != kTablesAddedLater.end();
}

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
      if (may_lack(reader, name)) {
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
