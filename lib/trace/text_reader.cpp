#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "core/error.h"
#include "tensor/dtype.h"
#include "trace/text.h"
#include "trace/text_args.h"
#include "trace/text_names.h"
#include "trace/text_run.h"
#include "trace/text_tokens.h"

namespace tl {
namespace {

using text_form::Cursor;
using text_form::RowNames;
using text_form::TableForm;

/// A row as found in the text: where its fields start, and the name it was given.
struct Line {
  Cursor fields;
  std::string name;
};

class Reader {
 public:
  explicit Reader(std::string_view text) { split(text); }

  Trace read() {
    for (const auto& form : text_form::table_forms()) {
      for_each_table(trace_, [&](std::string_view table, auto& rows, auto&& visit) {
        if (table == form.table) read_table(form, rows, visit);
      });
    }
    read_layer_ops();
    derive_passes();
    trace_.args.assign(std::move(op_words_));
    trace_.flow_args.assign(std::move(flow_words_));
    return std::move(trace_);
  }

 private:
  void split(std::string_view text) {
    std::size_t number = 0;
    bool header = false;
    while (!text.empty()) {
      const auto end = std::min(text.find('\n'), text.size());
      auto line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      Cursor cursor(line, ++number);
      cursor.skip_spaces();
      if (cursor.at_end() || cursor.peek() == '#') continue;
      if (!header) {
        read_header(cursor);
        header = true;
      } else {
        add_line(cursor);
      }
    }
    if (!header) throw Error(ErrorCode::kTextSyntax, "line 1: the text is empty, expected `trace 1`");
  }

  void read_header(Cursor& cursor) {
    if (!cursor.word().is("trace")) cursor.fail("a trace text starts with `trace 1`");
    cursor.skip_spaces();
    if (!cursor.word().is("1")) cursor.fail("unknown version of the trace text, expected `trace 1`");
    for (cursor.skip_spaces(); !cursor.at_end(); cursor.skip_spaces()) {
      if (!cursor.at_field()) {
        if (!cursor.word().is("finished")) cursor.fail("expected `finished` or hash=…");
        trace_.finished = true;
      } else if (cursor.field_name() == "hash") {
        trace_.graph_shape_hash = cursor.word().text;
      } else {
        cursor.fail("expected `finished` or hash=…");
      }
    }
  }

  void add_line(Cursor& cursor) {
    const auto keyword = cursor.word().text;
    if (text_form::read_run_line(keyword, cursor, trace_.run)) return;
    if (keyword == "layer_ops") {
      layer_ops_ = cursor;
      return;
    }
    const auto forms = text_form::table_forms();
    const auto form = std::ranges::find(forms, keyword, &TableForm::keyword);
    if (form == forms.end()) cursor.fail("unknown kind of line `" + keyword + "`");
    cursor.skip_spaces();
    auto name = cursor.word();
    auto& table = names_.table(form->table);
    if (table.names.size() >= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
      cursor.fail("too many rows");
    }
    std::int64_t row = 0;
    if (!text_form::parse_row_number(name, row) &&
        !table.rows.emplace(name.text, static_cast<std::int32_t>(table.names.size())).second) {
      cursor.fail("the name `" + name.text + "` is taken");
    }
    table.names.push_back(name.text);
    lines_[form->table].push_back({cursor, std::move(name.text)});
  }

  template <typename Table, typename Visit>
  void read_table(const TableForm& form, Table& rows, Visit&& visit) {
    for (auto& line : lines_[form.table]) {
      auto& cursor = line.fields;
      visit(rows, [&](std::string_view field, auto& column, std::string_view unit, std::string_view) {
        using Value = std::remove_cvref_t<decltype(column[0])>;
        column.push_back(static_cast<Value>(text_form::default_value(form.table, field, unit)));
      });
      const auto row = rows_of(visit, rows) - 1;
      if (form.table == "ops") start_op(line, row);
      if (form.table == "flow") trace_.flow.args_begin.mut(row) = narrow<std::int32_t>(cursor, std::ssize(flow_words_));
      auto implied = text_form::implied_fields(form.table, line.name);
      for (cursor.skip_spaces(); !cursor.at_end(); cursor.skip_spaces()) {
        const auto field = cursor.field_name();
        std::erase_if(implied, [&](const auto& item) { return item.field == field; });
        if (read_own_field(form.table, field, cursor, row)) continue;
        if (!read_column(rows, visit, field, cursor, row)) cursor.fail("unknown field `" + std::string(field) + "`");
      }
      for (const auto& item : implied) {
        Cursor text(item.text, cursor.line_number());
        read_column(rows, visit, item.field, text, row);
      }
    }
  }

  template <typename Table, typename Visit>
  static std::size_t rows_of(Visit&& visit, Table& rows) {
    std::size_t count = 0;
    visit(rows,
          [&](std::string_view, const auto& column, std::string_view, std::string_view) { count = column.size(); });
    return count;
  }

  template <typename Table, typename Visit>
  bool read_column(Table& rows, Visit&& visit, std::string_view field, Cursor& cursor, std::size_t row) {
    bool found = false;
    visit(rows, [&](std::string_view name, auto& column, std::string_view unit, std::string_view) {
      if (name != field || found) return;
      found = true;
      using Value = std::remove_cvref_t<decltype(column[0])>;
      column.mut(row) = narrow<Value>(cursor, read_value(cursor, unit));
    });
    return found;
  }

  template <typename T>
  static T narrow(Cursor& cursor, std::int64_t value) {
    if constexpr (!std::is_same_v<T, std::int64_t>) {
      if (value < std::int64_t{std::numeric_limits<T>::min()} || value > std::int64_t{std::numeric_limits<T>::max()}) {
        cursor.fail("the value " + std::to_string(value) + " is out of range");
      }
    }
    return static_cast<T>(value);
  }

  std::int64_t read_value(Cursor& cursor, std::string_view unit) {
    constexpr std::string_view kRowOf = "row of ";
    if (unit == "string") return read_string(cursor);
    if (unit == "row of shapes") return read_shape(cursor);
    if (unit.starts_with(kRowOf)) return text_form::read_reference(cursor, names_, unit.substr(kRowOf.size()));
    if (unit == "DType") return read_dtype(cursor);
    if (const auto flags = text_form::flag_names(unit); !flags.empty()) return read_flags(cursor, flags);
    if (const auto names = text_form::enum_names(unit); !names.empty()) {
      const char next = cursor.peek();
      if ((next >= '0' && next <= '9') || next == '-') return cursor.integer();
      const auto word = cursor.word();
      const auto name = std::ranges::find(names, word.text, &text_form::ValueName::name);
      if (name == names.end()) cursor.fail("unknown value `" + word.text + "`");
      return name->value;
    }
    return cursor.integer();
  }

  std::int64_t read_string(Cursor& cursor) {
    const auto word = cursor.word();
    std::int64_t code = 0;
    if (word.is("-")) return -1;
    return text_form::parse_row_number(word, code) ? code : trace_.strings.intern(word.text);
  }

  std::int64_t read_shape(Cursor& cursor) {
    if (!cursor.accept('[')) {
      const auto word = cursor.word();
      std::int64_t code = 0;
      if (text_form::parse_row_number(word, code)) return code;
      if (!word.is("-")) cursor.fail("expected sizes as [2,3]");
      return -1;
    }
    std::vector<std::int64_t> dims;
    while (!cursor.accept(']')) {
      dims.push_back(cursor.integer());
      if (cursor.peek() != ']') cursor.expect(',');
    }
    return trace_.shapes.intern(dims);
  }

  static std::int64_t read_dtype(Cursor& cursor) {
    const auto word = cursor.word();
    std::int64_t number = 0;
    if (text_form::parse_row_number(word, number)) return number;
    if (word.is("none")) return 255;
    const auto dtype = dtype_from_name(word.text);
    if (!dtype) cursor.fail("unknown dtype `" + word.text + "`");
    return static_cast<std::int64_t>(*dtype);
  }

  static std::int64_t read_flags(Cursor& cursor, std::span<const text_form::ValueName> flags) {
    std::int64_t value = 0;
    do {
      const auto word = cursor.word();
      std::int64_t number = 0;
      if (text_form::parse_row_number(word, number)) {
        value |= number;
        continue;
      }
      const auto flag = std::ranges::find(flags, word.text, &text_form::ValueName::name);
      if (flag == flags.end()) cursor.fail("unknown flag `" + word.text + "`");
      value |= flag->value;
    } while (cursor.accept(','));
    return value;
  }

  void start_op(Line& line, std::size_t row) {
    auto& ops = trace_.ops;
    auto& cursor = line.fields;
    ops.edge_begin.mut(row) = narrow<std::int32_t>(cursor, std::ssize(trace_.edges.parent.view()));
    ops.args_begin.mut(row) = narrow<std::int32_t>(cursor, std::ssize(op_words_));
    ops.module_call.mut(row) = 0;
    ops.site_context.mut(row) = 0;
    if (const auto raw = text_form::implied_raw(line.name)) {
      ops.type_index.mut(row) = narrow<std::int32_t>(cursor, raw->first);
      ops.raw_index.mut(row) = narrow<std::int32_t>(cursor, raw->second);
    }
    if (const auto pass = text_form::implied_pass(names_, line.name)) {
      ops.layer.mut(row) = pass->first;
      ops.pass_index.mut(row) = narrow<std::int32_t>(cursor, pass->second);
    }
    cursor.skip_spaces();
    if (cursor.at_end() || cursor.at_field())
      cursor.fail("expected input, buffer, output or an instruction after the label");
    auto look = cursor;
    const auto what = look.word();
    if (what.is("input") || what.is("buffer") || what.is("output")) {
      ops.kind.mut(row) = what.is("input") ? 1 : what.is("buffer") ? 2 : 3;
      cursor = look;
    } else {
      ops.instruction.mut(row) =
          narrow<std::int32_t>(cursor, text_form::read_reference(cursor, names_, "instructions"));
    }
  }

  /// Fields that are no column of their table.
  bool read_own_field(std::string_view table, std::string_view field, Cursor& cursor, std::size_t row) {
    if (table == "ops") return read_op_field(field, cursor, row);
    if (table == "flow" && field == "args") {
      text_form::read_args(cursor, trace_, names_, flow_words_);
    } else if (table == "flow" && field == "value") {
      text_form::read_flow_value(cursor, trace_, names_, trace_.flow.tag.mut(row), trace_.flow.value.mut(row));
    } else if (table == "module_calls" && field == "seconds") {
      trace_.module_call_seconds.resize(names_.size("module_calls"));
      trace_.module_call_seconds.mut(row) = cursor.number();
    } else {
      return false;
    }
    return true;
  }

  bool read_op_field(std::string_view field, Cursor& cursor, std::size_t row) {
    auto& ops = trace_.ops;
    if (field == "slot") {
      read_pair(cursor, '/', ops.slot.mut(row), ops.num_slots.mut(row));
    } else if (field == "raw") {
      read_pair(cursor, '/', ops.type_index.mut(row), ops.raw_index.mut(row));
    } else if (field == "out") {
      ops.dtype.mut(row) = narrow<std::uint8_t>(cursor, read_dtype(cursor));
      if (!cursor.at_end() && cursor.peek() != ' ')
        ops.shape.mut(row) = narrow<std::int32_t>(cursor, read_shape(cursor));
    } else if (field == "parents") {
      read_parents(cursor);
    } else if (field == "args") {
      text_form::read_args(cursor, trace_, names_, op_words_);
    } else if (field == "params") {
      read_param_uses(cursor, row);
    } else if (field == "call") {
      ops.module_call.mut(row) = reference(cursor, "module_calls");
    } else if (field == "context") {
      ops.site_context.mut(row) = reference(cursor, "site_contexts");
    } else if (field == "layer") {
      ops.layer.mut(row) = reference(cursor, "layers");
    } else if (field == "pass") {
      ops.pass_index.mut(row) = narrow<std::int32_t>(cursor, cursor.integer());
    } else if (field == "from_input") {
      read_distance(cursor, ops.min_distance_from_input.mut(row), ops.max_distance_from_input.mut(row));
    } else if (field == "to_output") {
      read_distance(cursor, ops.min_distance_to_output.mut(row), ops.max_distance_to_output.mut(row));
    } else if (field == "seconds") {
      trace_.op_seconds.resize(names_.size("ops"));
      trace_.op_seconds.mut(row) = static_cast<float>(cursor.number());
    } else {
      return false;
    }
    return true;
  }

  std::int32_t reference(Cursor& cursor, std::string_view table) {
    return narrow<std::int32_t>(cursor, text_form::read_reference(cursor, names_, table));
  }

  template <typename T, typename U>
  static void read_pair(Cursor& cursor, char separator, T& first, U& second) {
    first = narrow<T>(cursor, cursor.integer());
    cursor.expect(separator);
    second = narrow<U>(cursor, cursor.integer());
  }

  static void read_distance(Cursor& cursor, std::int32_t& min, std::int32_t& max) {
    min = narrow<std::int32_t>(cursor, cursor.integer());
    max = min;
    if (!cursor.accept('.')) return;
    cursor.expect('.');
    max = narrow<std::int32_t>(cursor, cursor.integer());
  }

  void read_parents(Cursor& cursor) {
    do {
      trace_.edges.parent.push_back(reference(cursor, "ops"));
      cursor.expect('@');
      if (cursor.peek() == 'w') {
        cursor.expect('w');
        trace_.edges.arg.push_back(-1);
      } else {
        trace_.edges.arg.push_back(narrow<std::int16_t>(cursor, cursor.integer()));
      }
      trace_.edges.sub.push_back(cursor.accept('+') ? narrow<std::int16_t>(cursor, cursor.integer())
                                                    : std::int16_t{-1});
    } while (cursor.accept(','));
  }

  void read_param_uses(Cursor& cursor, std::size_t row) {
    do {
      trace_.param_uses.op.push_back(static_cast<std::int32_t>(row));
      trace_.param_uses.param.push_back(reference(cursor, "params"));
      cursor.expect('@');
      trace_.param_uses.arg.push_back(narrow<std::int16_t>(cursor, cursor.integer()));
    } while (cursor.accept(','));
  }

  void read_layer_ops() {
    if (!layer_ops_) return;
    auto& cursor = *layer_ops_;
    cursor.skip_spaces();
    cursor.expect('[');
    while (!cursor.accept(']')) {
      trace_.layer_ops.op.push_back(reference(cursor, "ops"));
      if (cursor.peek() != ']') cursor.expect(',');
    }
  }

  /// layer_ops and layers.ops_begin from ops.layer and ops.pass_index, and counts that the lines left out.
  void derive_passes() {
    auto& layers = trace_.layers;
    const auto count = layers.num_passes.size();
    if (layer_ops_ || count == 0) return;
    std::vector<std::pair<std::pair<std::int32_t, std::int32_t>, std::int32_t>> passes;
    for (std::size_t op = 0; op < trace_.num_ops(); ++op) {
      const auto layer = trace_.ops.layer[op];
      if (layer < 0 || static_cast<std::size_t>(layer) >= count) continue;
      passes.push_back({{layer, trace_.ops.pass_index[op]}, static_cast<std::int32_t>(op)});
    }
    std::ranges::sort(passes);
    std::size_t next = 0;
    for (std::size_t layer = 0; layer < count; ++layer) {
      const auto begin = next;
      while (next < passes.size() && passes[next].first.first == static_cast<std::int32_t>(layer)) ++next;
      layers.ops_begin.mut(layer) = static_cast<std::int32_t>(begin);
      if (layers.num_passes[layer] == 0) layers.num_passes.mut(layer) = static_cast<std::int32_t>(next - begin);
      if (layers.first_op[layer] == -1 && next > begin) layers.first_op.mut(layer) = passes[begin].second;
    }
    for (const auto& pass : passes) trace_.layer_ops.op.push_back(pass.second);
  }

  Trace trace_;
  RowNames names_;
  std::map<std::string_view, std::vector<Line>> lines_;
  std::vector<std::int64_t> op_words_;
  std::vector<std::int64_t> flow_words_;
  std::optional<Cursor> layer_ops_;
};

}  // namespace

Trace trace_from_text(std::string_view text) { return Reader(text).read(); }

}  // namespace tl
