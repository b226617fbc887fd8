#include "select/fields.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "select/field_lists.h"
#include "trace/text_names.h"

namespace tl {
namespace {

constexpr std::string_view kTables[] = {
#define TL_TABLE_BEGIN(table) #table,
#define TL_COLUMN(table, field, type, unit, meaning)
#define TL_TABLE_END(table)
#include "trace/columns.def"
#undef TL_TABLE_BEGIN
#undef TL_COLUMN
#undef TL_TABLE_END
};
constexpr std::size_t kNumTables = std::size(kTables);

constexpr text_form::ValueName kOpKinds[] = {{"operation", 0}, {"input", 1}, {"buffer", 2}, {"output", 3}};
constexpr text_form::ValueName kTags[] = {{"none", 0}, {"int", 1},     {"bool", 2},  {"double", 3}, {"string", 4},
                                          {"ints", 5}, {"doubles", 6}, {"bools", 7}, {"op", 8},     {"other", 9}};

/// Names of the values of a unit; empty for units that are plain numbers.
std::span<const text_form::ValueName> names_of_unit(std::string_view unit) {
  if (unit == "OpKind") return kOpKinds;
  if (unit == "ArgTag") return kTags;
  return text_form::enum_names(unit);
}

constexpr bool starts(std::string_view unit, std::string_view with) { return unit.substr(0, with.size()) == with; }

/// What a column of columns.def holds, by its unit.
FieldType type_of_unit(std::string_view unit) {
  if (unit == "string" || unit == "row of ops" || unit == "row of layers" || unit == "row of modules" ||
      unit == "row of module_calls" || unit == "row of params" || unit == "row of call_sites") {
    return FieldType::kString;
  }
  if (!names_of_unit(unit).empty()) return FieldType::kString;
  if (!text_form::flag_names(unit).empty()) return FieldType::kStrings;
  if (unit == "row of shapes") return FieldType::kIntegers;
  if (unit == "DType") return FieldType::kDType;
  if (unit == "bool") return FieldType::kBool;
  return FieldType::kInteger;
}

std::string_view shown_unit(std::string_view unit) {
  if (unit == "string" || unit == "bool" || unit == "DType" || unit == "row of shapes") return {};
  if (!names_of_unit(unit).empty() || !text_form::flag_names(unit).empty()) return {};
  if (unit == "row of ops" || unit == "row of layers") return "label";
  if (unit == "row of modules" || unit == "row of params") return "address";
  if (unit == "row of module_calls") return "address:k";
  if (unit == "row of call_sites") return "file:line:column";
  return unit;
}

void set_call_site(const Trace& trace, std::size_t row, FieldValue& value) {
  const auto& sites = trace.call_sites;
  value.owned = trace.strings[sites.file[row]];
  if (sites.line[row] > 0) value.owned += ":" + std::to_string(sites.line[row]);
  if (sites.column[row] >= 0) value.owned += ":" + std::to_string(sites.column[row]);
  value.set_owned();
}

void set_reference(const Trace& trace, std::string_view unit, std::int64_t number, FieldValue& value) {
  if (number < 0) return value.set_none();
  const auto row = static_cast<std::size_t>(number);
  value.owned.clear();
  if (unit == "row of ops") {
    if (row >= trace.num_ops()) return value.set_text("end");
    append_op_label(value.owned, trace, row);
  } else if (unit == "row of layers") {
    value.owned = layer_label(trace, LayerId{static_cast<std::uint32_t>(row)});
  } else if (unit == "row of modules") {
    return value.set_text(trace.strings[trace.modules.address[row]]);
  } else if (unit == "row of params") {
    return value.set_text(trace.strings[trace.params.address[row]]);
  } else if (unit == "row of module_calls") {
    value.owned = module_call_label(trace, ModuleCallId{static_cast<std::uint32_t>(row)});
  } else {
    return set_call_site(trace, row, value);
  }
  value.set_owned();
}

/// The value of a column of columns.def.
void set_column(const Trace& trace, std::string_view unit, std::int64_t number, FieldValue& value) {
  if (unit == "string") {
    if (number < 0) return value.set_none();
    return value.set_text(trace.strings[static_cast<std::int32_t>(number)]);
  }
  if (unit == "row of shapes") {
    const auto sizes = trace.shapes[static_cast<std::int32_t>(number)];
    value.kind = FieldValue::Kind::kIntegers;
    value.integers.assign(sizes.begin(), sizes.end());
    return;
  }
  if (unit == "bool" && number < 2) return value.set_bool(number != 0);
  if (unit == "bool") return value.set_none();
  if (const auto names = names_of_unit(unit); !names.empty()) {
    const auto found = std::ranges::find(names, number, &text_form::ValueName::value);
    return value.set_text(found == names.end() ? std::string_view("other") : found->name);
  }
  if (const auto flags = text_form::flag_names(unit); !flags.empty()) {
    value.kind = FieldValue::Kind::kStrings;
    value.strings.clear();
    for (const auto& [name, bit] : flags) {
      if ((number & bit) != 0) value.strings.emplace_back(name);
    }
    return;
  }
  if (unit == "DType" && static_cast<DType>(number) == DType::kNone) return value.set_none();
  if (number < 0 && unit == "edges") return value.set_none();
  if (type_of_unit(unit) == FieldType::kString) return set_reference(trace, unit, number, value);
  if (number < 0 && starts(unit, "row of")) return value.set_none();
  value.set_integer(number);
}

std::vector<Field> make_fields(TableId table) {
  const auto named = named_fields(table);
  std::vector<Field> fields(named.begin(), named.end());
  const auto known = [&](std::string_view name) {
    return std::ranges::find(fields, name, &Field::name) != fields.end();
  };
#define TL_TABLE_BEGIN(table_name) if (table == TableId::k_##table_name) {
#define TL_COLUMN(table_name, field, element_type, unit_text, meaning_text)                                          \
  if (!known(#field)) {                                                                                              \
    fields.push_back({.name = #field,                                                                                \
                      .type = type_of_unit(unit_text),                                                               \
                      .unit = shown_unit(unit_text),                                                                 \
                      .meaning = meaning_text,                                                                       \
                      .get = [](const FieldContext& context, std::size_t row, FieldValue& value) {                   \
                        const auto& trace = context.trace();                                                         \
                        set_column(trace, unit_text, static_cast<std::int64_t>(trace.table_name.field[row]), value); \
                      }});                                                                                           \
  }
#define TL_TABLE_END(table_name) }
#include "trace/columns.def"
#undef TL_TABLE_BEGIN
#undef TL_COLUMN
#undef TL_TABLE_END
  return fields;
}

}  // namespace

std::span<const std::string_view> table_names() { return kTables; }

std::string_view to_string(TableId table) { return kTables[static_cast<std::size_t>(table)]; }

std::optional<TableId> table_from_name(std::string_view name) {
  std::string wanted(name);
  std::ranges::replace(wanted, '-', '_');
  const auto* found = std::ranges::find(kTables, wanted);
  if (found == std::end(kTables)) return std::nullopt;
  return static_cast<TableId>(found - std::begin(kTables));
}

std::size_t num_rows(const Trace& trace, TableId table) {
  std::size_t rows = 0;
  std::size_t number = 0;
  for_each_table(trace, [&](std::string_view, const auto& columns, auto&& visit) {
    if (number++ != static_cast<std::size_t>(table)) return;
    bool first = true;
    visit(columns, [&](std::string_view, const auto& column, std::string_view, std::string_view) {
      if (first) rows = column.size();
      first = false;
    });
  });
  return rows;
}

std::string_view to_string(FieldType type) {
  constexpr std::string_view kNames[] = {"bool", "integer", "number", "dtype", "text", "integers", "texts"};
  return kNames[static_cast<std::size_t>(type)];
}

std::span<const Field> fields_of(TableId table) {
  static std::array<std::vector<Field>, kNumTables> all;
  auto& fields = all[static_cast<std::size_t>(table)];
  if (fields.empty()) fields = make_fields(table);
  return fields;
}

const Field* find_field(TableId table, std::string_view name) {
  for (const auto& field : fields_of(table)) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

const ChildIndex& FieldContext::children() const {
  if (!children_) children_ = std::make_unique<ChildIndex>(make_child_index(trace_));
  return *children_;
}

const std::vector<std::string>& FieldContext::site_keys() const {
  if (!site_keys_) site_keys_ = std::make_unique<std::vector<std::string>>(tl::site_keys(trace_));
  return *site_keys_;
}

const std::vector<std::uint32_t>& FieldContext::first_param_use() const {
  if (!first_param_use_) {
    auto first = std::make_unique<std::vector<std::uint32_t>>(trace_.num_ops() + 1);
    std::size_t use = 0;
    const auto& ops = trace_.param_uses.op;
    for (std::size_t op = 0; op < first->size(); ++op) {
      while (use < ops.size() && ops[use] < static_cast<std::int64_t>(op)) ++use;
      (*first)[op] = static_cast<std::uint32_t>(use);
    }
    first_param_use_ = std::move(first);
  }
  return *first_param_use_;
}

namespace {

/// Rows of `keys` by their value, 0 .. groups-1.
ChildIndex grouped(const Column<std::int32_t>& keys, std::size_t groups) {
  ChildIndex index;
  index.begin.assign(groups + 1, 0);
  for (const auto key : keys) {
    if (key >= 0) ++index.begin[static_cast<std::size_t>(key) + 1];
  }
  for (std::size_t group = 0; group < groups; ++group) index.begin[group + 1] += index.begin[group];
  index.child.resize(static_cast<std::size_t>(index.begin[groups]));
  auto cursor = index.begin;
  for (std::size_t row = 0; row < keys.size(); ++row) {
    if (keys[row] < 0) continue;
    index.child[static_cast<std::size_t>(cursor[static_cast<std::size_t>(keys[row])]++)] =
        static_cast<std::int32_t>(row);
  }
  return index;
}

}  // namespace

const ChildIndex& FieldContext::uses_of_param() const {
  if (!uses_of_param_) {
    uses_of_param_ = std::make_unique<ChildIndex>(grouped(trace_.param_uses.param, trace_.params.address.size()));
  }
  return *uses_of_param_;
}

const std::vector<OpCost>& FieldContext::op_costs() const {
  if (!op_costs_) op_costs_ = std::make_unique<std::vector<OpCost>>(tl::op_costs(trace_));
  return *op_costs_;
}

const BranchFacts& FieldContext::branch_facts() const {
  if (!branch_facts_) branch_facts_ = std::make_unique<BranchFacts>(make_branch_facts(trace_));
  return *branch_facts_;
}

const ModuleCosts& FieldContext::module_costs() const {
  if (!module_costs_) module_costs_ = std::make_unique<ModuleCosts>(tl::module_costs(trace_, op_costs()));
  return *module_costs_;
}

const ChildIndex& FieldContext::calls_of_module() const {
  if (!calls_of_module_) {
    calls_of_module_ = std::make_unique<ChildIndex>(grouped(trace_.module_calls.module, trace_.modules.address.size()));
  }
  return *calls_of_module_;
}

void append_op_label(std::string& text, const Trace& trace, std::size_t op, bool always_pass) {
  const auto number = [&](std::int32_t value) {
    char digits[16];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    text.append(digits, end);
  };
  const auto layer = trace.ops.layer[op];
  if (layer < 0) {
    text += raw_label(trace, OpId{static_cast<std::uint32_t>(op)});
    return;
  }
  const auto row = static_cast<std::size_t>(layer);
  text += trace.strings[trace.layers.layer_type[row]];
  text += '_';
  number(trace.layers.type_num[row]);
  if (trace.layers.total_num[row] > 0) {
    text += '_';
    number(trace.layers.total_num[row]);
  }
  if (always_pass || trace.layers.num_passes[row] > 1) {
    text += ':';
    number(trace.ops.pass_index[op]);
  }
}

}  // namespace tl
