#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost/module_costs.h"
#include "select/branch_facts.h"
#include "trace/trace.h"

namespace tl {

/// The tables that can be queried, under the names of columns.def.
enum class TableId : std::uint8_t {
#define TL_TABLE_BEGIN(table) k_##table,
#define TL_COLUMN(table, field, type, unit, meaning)
#define TL_TABLE_END(table)
#include "trace/columns.def"
#undef TL_TABLE_BEGIN
#undef TL_COLUMN
#undef TL_TABLE_END
};

/// The names of all tables, in the order of columns.def.
std::span<const std::string_view> table_names();
std::string_view to_string(TableId table);
/// `module-calls` and `module_calls` are one name; nullopt if no table has it.
std::optional<TableId> table_from_name(std::string_view name);
std::size_t num_rows(const Trace& trace, TableId table);

/// What a field holds. A kDType is an integer (the DType) that is shown and compared by name.
enum class FieldType : std::uint8_t { kBool, kInteger, kReal, kDType, kString, kIntegers, kStrings };
std::string_view to_string(FieldType type);

/// The value of one field of one row; reused from row to row, so that numbers cost no allocation.
struct FieldValue {
  enum class Kind : std::uint8_t { kNone, kBool, kInteger, kReal, kString, kIntegers, kStrings } kind = Kind::kNone;
  std::int64_t integer = 0;  ///< kBool (0 or 1), kInteger
  double real = 0;
  std::string_view text;  ///< kString; of the trace's pool, or of `owned`
  std::vector<std::int64_t> integers;
  std::vector<std::string> strings;
  std::string owned;

  void set_none() { kind = Kind::kNone; }
  void set_bool(bool value) { kind = Kind::kBool, integer = value ? 1 : 0; }
  void set_integer(std::int64_t value) { kind = Kind::kInteger, integer = value; }
  void set_real(double value) { kind = Kind::kReal, real = value; }
  void set_count(Count value) {
    if (!value) return set_none();
    set_integer(*value);
  }
  /// `value` outlives the use of this.
  void set_text(std::string_view value) { kind = Kind::kString, text = value; }
  /// Use `owned` to build the text, then this.
  void set_owned() { kind = Kind::kString, text = owned; }
};

/// A trace and what several fields of it are computed from; built when first asked for.
class FieldContext {
 public:
  explicit FieldContext(const Trace& trace) : trace_(trace) {}
  FieldContext(const FieldContext&) = delete;
  FieldContext& operator=(const FieldContext&) = delete;

  const Trace& trace() const { return trace_; }
  const ChildIndex& children() const;
  const std::vector<std::string>& site_keys() const;
  /// First row of param_uses of each Op; one more row than Ops.
  const std::vector<std::uint32_t>& first_param_use() const;
  /// Rows of param_uses by parameter: begin (one more row than parameters) and use.
  const ChildIndex& uses_of_param() const;
  /// module_calls of each module: begin (one more row than modules) and call.
  const ChildIndex& calls_of_module() const;
  /// A row an Op.
  const std::vector<OpCost>& op_costs() const;
  const ModuleCosts& module_costs() const;
  const BranchFacts& branch_facts() const;

 private:
  const Trace& trace_;
  mutable std::unique_ptr<ChildIndex> children_;
  mutable std::unique_ptr<std::vector<std::string>> site_keys_;
  mutable std::unique_ptr<std::vector<std::uint32_t>> first_param_use_;
  mutable std::unique_ptr<ChildIndex> uses_of_param_;
  mutable std::unique_ptr<ChildIndex> calls_of_module_;
  mutable std::unique_ptr<std::vector<OpCost>> op_costs_;
  mutable std::unique_ptr<ModuleCosts> module_costs_;
  mutable std::unique_ptr<BranchFacts> branch_facts_;
};

/// One field of the rows of a table: Python TorchLens's name where it has the field.
struct Field {
  std::string_view name;
  FieldType type = FieldType::kInteger;
  std::string_view unit;     ///< bytes, seconds, from 1 …; empty for none
  std::string_view meaning;  ///< one line
  void (*get)(const FieldContext& context, std::size_t row, FieldValue& value) = nullptr;
};

/// All fields of a table: first those under Python TorchLens's names, then the columns that they do not cover, under
/// the names of columns.def.
std::span<const Field> fields_of(TableId table);
/// nullptr if the table has no field of that name.
const Field* find_field(TableId table, std::string_view name);
/// The fields that `query` shows unless told otherwise.
std::span<const std::string_view> default_columns(TableId table);

/// Appends the label of an Op (relu_1_2, or relu_1_2:3 where its Layer has several passes) without allocating more than
/// the text needs.
void append_op_label(std::string& text, const Trace& trace, std::size_t op, bool always_pass = false);

}  // namespace tl
