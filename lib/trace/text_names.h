#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trace/trace.h"

namespace tl::text_form {

/// How a table appears in the text: the word that starts its lines, and the stem of names of rows that have no label.
/// Tables without a row here (edges, param_uses, layer_ops) are written as fields of others.
struct TableForm {
  std::string_view table;
  std::string_view keyword;
  std::string_view stem;
};
std::span<const TableForm> table_forms();

/// Names of the rows of every table, and the way back.
class RowNames {
 public:
  struct Table {
    std::vector<std::string> names;
    std::unordered_map<std::string, std::int32_t> rows;
  };

  /// The names that to_text gives: labels and addresses where they are unique, `#row` where they are not.
  static RowNames of(const Trace& trace);

  Table& table(std::string_view name) { return tables_[name]; }
  const Table* find_table(std::string_view name) const;
  /// The row of a name; -1 if no row has it.
  std::int32_t find(std::string_view table, const std::string& name) const;
  std::size_t size(std::string_view table) const;
  /// Appends the reference to a row: its name, `-` for -1, `end` for the row after the last, `#n` for any other.
  void append(std::string& out, std::string_view table, std::int64_t row) const;

 private:
  std::unordered_map<std::string_view, Table> tables_;
};

/// A field whose value follows from the row's name, in the form in which it is written.
struct ImpliedField {
  std::string_view field;
  std::string text;
};
std::vector<ImpliedField> implied_fields(std::string_view table, std::string_view name);

/// type_index and raw_index of a raw label (relu_1_4_raw).
std::optional<std::pair<std::int64_t, std::int64_t>> implied_raw(std::string_view name);
/// Row of layers and pass_index of an Op's label (relu_1_2:3).
std::optional<std::pair<std::int32_t, std::int64_t>> implied_pass(const RowNames& names, std::string_view name);

/// The value of a column that is left out of a line.
std::int64_t default_value(std::string_view table, std::string_view field, std::string_view unit);

/// Names of enumerators and flag bits of a unit; empty for units that are plain numbers.
struct ValueName {
  std::string_view name;
  std::int64_t value;
};
std::span<const ValueName> enum_names(std::string_view unit);
std::span<const ValueName> flag_names(std::string_view unit);

}  // namespace tl::text_form
