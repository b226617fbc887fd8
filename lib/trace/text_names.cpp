#include "trace/text_names.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "trace/args.h"
#include "trace/finiteness.h"
#include "trace/text_tokens.h"

namespace tl::text_form {
namespace {

constexpr std::array kForms = {
    TableForm{"call_sites", "call_site", "s"},
    TableForm{"modules", "module", "module"},
    TableForm{"site_contexts", "context", "c"},
    TableForm{"instructions", "instruction", "i"},
    TableForm{"params", "param", "param"},
    TableForm{"buffers", "buffer", "buffer"},
    TableForm{"module_calls", "call", "call"},
    TableForm{"conditionals", "conditional", "if"},
    TableForm{"conditional_arms", "conditional_arm", "a"},
    TableForm{"branches", "branch", "arm"},
    TableForm{"bools", "bool", "b"},
    TableForm{"loops", "loop", "loop"},
    TableForm{"layers", "layer", "layer"},
    TableForm{"payloads", "payload", "p"},
    TableForm{"ops", "op", "op"},
    TableForm{"flow", "flow", "f"},
};

constexpr std::array kOpFlags = {
    ValueName{"in_place", kOpInPlace},
    ValueName{"view", kOpView},
    ValueName{"uninitialised", kOpUninitialised},
    ValueName{"source", kOpInternalSource},
    ValueName{"sink", kOpInternalSink},
    ValueName{"orphan", kOpOrphan},
    ValueName{"output_ancestor", kOpOutputAncestor},
    ValueName{"input_descendant", kOpInputDescendant},
    ValueName{"random", kOpRandom},
    ValueName{"non_finite", kOpNonFinite},
    ValueName{"buffer_write", kOpBufferWrite},
    ValueName{"fused_write", kOpFusedWrite},
    ValueName{"hidden_write", kOpHiddenWrite},
    ValueName{"scalar_bool", kOpScalarBool},
    ValueName{"output_parent", kOpOutputParent},
    ValueName{"module_output", kOpModuleOutput},
    ValueName{"finite", kOpFinite},
};

constexpr std::array kInstructionFlags = {
    ValueName{"mutates", kInstrMutates},
    ValueName{"view", kInstrView},
    ValueName{"random", kInstrRandom},
    ValueName{"dispatched", kInstrDispatched},
    ValueName{"container", kInstrContainer},
    ValueName{"control", kInstrControl},
    ValueName{"uninitialised", kInstrUninitialised},
    ValueName{"hidden_writes", kInstrHiddenWrites},
    ValueName{"else_block", kInstrElseBlock},
};

constexpr std::array kBasis = {ValueName{"columns", 0}, ValueName{"line", 1}};
constexpr std::array kDevices = {ValueName{"cpu", 0}, ValueName{"cuda", 1}, ValueName{"meta", 2},
                                 ValueName{"other", 255}};
constexpr std::array kParamKinds = {ValueName{"parameter", 0}, ValueName{"constant", 1}, ValueName{"packed", 2}};
constexpr std::array kArms = {ValueName{"then", 0}, ValueName{"else", 1}};
constexpr std::array kConditionalKinds = {ValueName{"unknown", 0}, ValueName{"if_chain", 1}, ValueName{"ifexp", 2},
                                          ValueName{"cond", 3},    ValueName{"bool_op", 4},  ValueName{"assert", 5},
                                          ValueName{"compiler", 6}};
constexpr std::array kArmKinds = {ValueName{"then", 0},        ValueName{"elif", 1},      ValueName{"else", 2},
                                  ValueName{"fallthrough", 3}, ValueName{"true_side", 4}, ValueName{"false_side", 5}};
constexpr std::array kBoolContexts = {ValueName{"unknown", 0},     ValueName{"if_test", 1},
                                      ValueName{"elif_test", 2},   ValueName{"ifexp", 3},
                                      ValueName{"while", 4},       ValueName{"assert", 5},
                                      ValueName{"bool_cast", 6},   ValueName{"comprehension_filter", 7},
                                      ValueName{"match_guard", 8}, ValueName{"cond", 9}};
constexpr std::array kEncodings = {ValueName{"dense", 0},  ValueName{"window", 1}, ValueName{"quantised", 2},
                                   ValueName{"sparse", 3}, ValueName{"pairs", 4},  ValueName{"empty", 5},
                                   ValueName{"opaque", 6}};

std::string natural_name(const Trace& trace, std::string_view table, std::size_t row) {
  const auto number = static_cast<std::uint32_t>(row);
  if (table == "ops") {
    const auto layer = trace.ops.layer[row];
    const bool labelled = layer >= 0 && static_cast<std::size_t>(layer) < trace.layers.type_num.size() &&
                          trace.layers.type_num[static_cast<std::size_t>(layer)] > 0;
    return labelled ? op_label(trace, OpId{number}) : raw_label(trace, OpId{number});
  }
  if (table == "layers" && trace.layers.type_num[row] > 0) return layer_label(trace, LayerId{number});
  if (table == "modules") return std::string(trace.strings[trace.modules.address[row]]);
  if (table == "params") return std::string(trace.strings[trace.params.address[row]]);
  if (table == "buffers") return std::string(trace.strings[trace.buffers.address[row]]);
  if (table == "module_calls" && trace.module_calls.module[row] >= 0)
    return module_call_label(trace, ModuleCallId{number});
  if (table == "instructions") return std::string(trace.strings[trace.instructions.op_name[row]]);
  const auto form = std::ranges::find(kForms, table, &TableForm::table);
  return std::string(form->stem) + std::to_string(row);
}

bool is_reserved(std::string_view table, std::string_view name) {
  if (name.empty() || name[0] == '#') return true;
  return table == "instructions" && (name == "input" || name == "buffer" || name == "output" || name == "-");
}

/// Splits a number off the end: text before `separator`, number after it. False if the tail is no plain number.
bool split_number(std::string_view text, char separator, std::string_view& head, std::int64_t& number) {
  const auto at = text.rfind(separator);
  if (at == std::string_view::npos || at + 1 == text.size()) return false;
  const auto tail = text.substr(at + 1);
  const auto* end = tail.data() + tail.size();
  if (tail[0] == '-' || (tail[0] == '0' && tail.size() > 1)) return false;
  const auto result = std::from_chars(tail.data(), end, number);
  if (result.ec != std::errc{} || result.ptr != end) return false;
  head = text.substr(0, at);
  return true;
}

std::string as_word(std::string_view text) {
  std::string out;
  append_word(out, text);
  return out;
}

void name_rows(const Trace& trace, std::string_view table, std::size_t rows, RowNames::Table& result) {
  std::unordered_map<std::string, int> uses;
  for (std::size_t row = 0; row < rows; ++row) {
    result.names.push_back(natural_name(trace, table, row));
    ++uses[result.names.back()];
  }
  for (std::size_t row = 0; row < rows; ++row) {
    auto& name = result.names[row];
    const bool unique = uses[name] == 1;
    if (!unique && table == "instructions") name += "/" + std::to_string(row);
    const bool taken = !unique && (table != "instructions" || uses.contains(name));
    if (taken || is_reserved(table, name)) name = "#" + std::to_string(row);
    result.rows.emplace(name, static_cast<std::int32_t>(row));
  }
}

}  // namespace

std::span<const TableForm> table_forms() { return kForms; }

RowNames RowNames::of(const Trace& trace) {
  RowNames names;
  for_each_table(trace, [&](std::string_view table, const auto& rows, auto&& visit) {
    if (std::ranges::find(kForms, table, &TableForm::table) == kForms.end()) return;
    std::size_t count = 0;
    visit(rows,
          [&](std::string_view, const auto& column, std::string_view, std::string_view) { count = column.size(); });
    name_rows(trace, table, count, names.tables_[table]);
  });
  return names;
}

const RowNames::Table* RowNames::find_table(std::string_view name) const {
  const auto found = tables_.find(name);
  return found == tables_.end() ? nullptr : &found->second;
}

std::int32_t RowNames::find(std::string_view table, const std::string& name) const {
  const auto* rows = find_table(table);
  if (rows == nullptr) return -1;
  const auto found = rows->rows.find(name);
  return found == rows->rows.end() ? -1 : found->second;
}

std::size_t RowNames::size(std::string_view table) const {
  const auto* rows = find_table(table);
  return rows == nullptr ? 0 : rows->names.size();
}

void RowNames::append(std::string& out, std::string_view table, std::int64_t row) const {
  const auto* rows = find_table(table);
  const auto count = rows == nullptr ? 0 : static_cast<std::int64_t>(rows->names.size());
  if (row == -1) {
    out += '-';
  } else if (row >= 0 && row < count) {
    const auto& name = rows->names[static_cast<std::size_t>(row)];
    if (name[0] == '#') {
      out += name;
    } else {
      append_word(out, name);
    }
  } else if (row == count && count > 0) {
    out += "end";
  } else {
    out += '#';
    append_integer(out, row);
  }
}

std::vector<ImpliedField> implied_fields(std::string_view table, std::string_view name) {
  if (name.empty() || name[0] == '#') return {};
  std::string_view head;
  std::int64_t last = 0;
  if (table == "modules" || table == "params" || table == "buffers") return {{"address", as_word(name)}};
  if (table == "instructions") {
    return {{"op_name", as_word(split_number(name, '/', head, last) ? head : name)}};
  }
  if (table == "module_calls" && split_number(name, ':', head, last)) {
    return {{"module", as_word(head)}, {"call_index", std::to_string(last)}};
  }
  if (table == "layers" && split_number(name, '_', head, last)) {
    std::string_view type;
    std::int64_t type_num = 0;
    if (split_number(head, '_', type, type_num)) {
      return {
          {"layer_type", as_word(type)}, {"type_num", std::to_string(type_num)}, {"total_num", std::to_string(last)}};
    }
    return {{"layer_type", as_word(head)}, {"type_num", std::to_string(last)}};
  }
  return {};
}

std::optional<std::pair<std::int64_t, std::int64_t>> implied_raw(std::string_view name) {
  constexpr std::string_view kSuffix = "_raw";
  if (!name.ends_with(kSuffix)) return std::nullopt;
  name.remove_suffix(kSuffix.size());
  std::int64_t raw = 0;
  std::int64_t type = 0;
  std::string_view head;
  if (!split_number(name, '_', head, raw) || !split_number(head, '_', head, type)) return std::nullopt;
  return std::pair(type, raw);
}

std::optional<std::pair<std::int32_t, std::int64_t>> implied_pass(const RowNames& names, std::string_view name) {
  std::string_view label;
  std::int64_t pass = 0;
  if (split_number(name, ':', label, pass)) {
    if (const auto layer = names.find("layers", std::string(label)); layer >= 0) return std::pair(layer, pass);
  }
  if (const auto layer = names.find("layers", std::string(name)); layer >= 0) return std::pair(layer, std::int64_t{1});
  return std::nullopt;
}

std::int64_t default_value(std::string_view table, std::string_view field, std::string_view unit) {
  if (unit == "string" || unit.starts_with("row of ") || unit == "edges") return -1;
  if (unit == "DType") return 255;
  if (field == "column" || field == "column_end" || field == "shard") return -1;
  if (table == "ops" && field == "num_slots") return 1;
  return 0;
}

std::span<const ValueName> enum_names(std::string_view unit) {
  if (unit == "GroupingBasis") return kBasis;
  if (unit == "DeviceKind") return kDevices;
  if (unit == "ParamKind") return kParamKinds;
  if (unit == "PayloadEncoding") return kEncodings;
  if (unit == "0 then, 1 else") return kArms;
  if (unit == "ConditionalKind") return kConditionalKinds;
  if (unit == "ArmKind") return kArmKinds;
  if (unit == "BoolContext") return kBoolContexts;
  return {};
}

std::span<const ValueName> flag_names(std::string_view unit) {
  if (unit == "OpFlag bits") return kOpFlags;
  if (unit == "InstructionFlag bits") return kInstructionFlags;
  return {};
}

}  // namespace tl::text_form
