#include <algorithm>
#include <array>
#include <cstdint>

#include "tensor/dtype.h"
#include "trace/text.h"
#include "trace/text_args.h"
#include "trace/text_names.h"
#include "trace/text_run.h"
#include "trace/text_tokens.h"

namespace tl {
namespace {

using text_form::append_integer;
using text_form::append_word;
using text_form::RowNames;
using text_form::TableForm;

/// Columns of ops that the op line writes in a form of its own; any other column is written as field=value.
constexpr std::array<std::string_view, 19> kOwnOpColumns = {"kind",
                                                            "instruction",
                                                            "slot",
                                                            "num_slots",
                                                            "layer",
                                                            "pass_index",
                                                            "module_call",
                                                            "site_context",
                                                            "dtype",
                                                            "device",
                                                            "shape",
                                                            "edge_begin",
                                                            "args_begin",
                                                            "raw_index",
                                                            "type_index",
                                                            "min_distance_from_input",
                                                            "max_distance_from_input",
                                                            "min_distance_to_output",
                                                            "max_distance_to_output"};

class Writer {
 public:
  Writer(const Trace& trace, const TextOptions& options)
      : trace_(trace),
        stable_(options.stable),
        names_(RowNames::of(trace)),
        canonical_passes_(has_canonical_passes()) {}

  std::string write() {
    out_ += "trace 1";
    if (trace_.finished) out_ += " finished";
    if (!trace_.graph_shape_hash.empty()) {
      out_ += " hash=";
      append_word(out_, trace_.graph_shape_hash);
    }
    out_ += '\n';
    text_form::append_run(out_, trace_.run, stable_);
    for (const auto& form : text_form::table_forms()) {
      for_each_table(trace_, [&](std::string_view table, const auto& rows, auto&& visit) {
        if (table == form.table) write_table(form, rows, visit);
      });
    }
    if (!canonical_passes_) write_layer_ops();
    return std::move(out_);
  }

 private:
  /// True if layer_ops and layers.ops_begin are what ops.layer and ops.pass_index give: passes of each Layer in order.
  bool has_canonical_passes() const {
    std::size_t next = 0;
    for (std::size_t layer = 0; layer < trace_.layers.num_passes.size(); ++layer) {
      if (trace_.layers.ops_begin[layer] != static_cast<std::int64_t>(next)) return false;
      const auto passes = trace_.layers.num_passes[layer];
      for (std::int32_t pass = 0; pass < passes; ++pass, ++next) {
        if (next >= trace_.layer_ops.op.size()) return false;
        const auto op = trace_.layer_ops.op[next];
        if (op < 0 || static_cast<std::size_t>(op) >= trace_.num_ops()) return false;
        const auto row = static_cast<std::size_t>(op);
        if (trace_.ops.layer[row] != static_cast<std::int32_t>(layer) || trace_.ops.pass_index[row] != pass + 1)
          return false;
      }
    }
    const auto grouped = std::ranges::count_if(trace_.ops.layer, [](std::int32_t layer) { return layer >= 0; });
    return next == trace_.layer_ops.op.size() && static_cast<std::int64_t>(next) == grouped;
  }

  template <typename Table, typename Visit>
  void write_table(const TableForm& form, const Table& rows, Visit&& visit) {
    const auto count = names_.size(form.table);
    for (std::size_t row = 0; row < count; ++row) {
      out_ += form.keyword;
      out_ += ' ';
      names_.append(out_, form.table, static_cast<std::int64_t>(row));
      if (form.table == "ops") write_op(row);
      const auto implied = text_form::implied_fields(form.table, names_.find_table(form.table)->names[row]);
      visit(rows, [&](std::string_view field, const auto& column, std::string_view unit, std::string_view) {
        if (is_written_elsewhere(form.table, field)) return;
        const auto from_name = std::ranges::find(implied, field, &text_form::ImpliedField::field);
        write_field(form.table, field, unit, static_cast<std::int64_t>(column[row]),
                    from_name == implied.end() ? nullptr : &from_name->text);
      });
      if (form.table == "flow") write_flow(row);
      if (form.table == "module_calls" && !stable_ && !trace_.module_call_seconds.empty()) {
        out_ += " seconds=";
        text_form::append_double(out_, trace_.module_call_seconds[row]);
      }
      if (form.table == "ops" && !stable_ && !trace_.op_seconds.empty()) {
        out_ += " seconds=";
        text_form::append_float(out_, trace_.op_seconds[row]);
      }
      out_ += '\n';
    }
  }

  bool is_written_elsewhere(std::string_view table, std::string_view field) const {
    if (table == "ops") return std::ranges::find(kOwnOpColumns, field) != kOwnOpColumns.end();
    if (table == "flow") return field == "args_begin" || field == "tag" || field == "value";
    return table == "layers" && field == "ops_begin" && canonical_passes_;
  }

  void write_field(std::string_view table, std::string_view field, std::string_view unit, std::int64_t value,
                   const std::string* implied) {
    if (implied == nullptr && value == text_form::default_value(table, field, unit)) return;
    const auto at = out_.size();
    out_ += ' ';
    out_ += field;
    out_ += '=';
    const auto value_at = out_.size();
    append_value(unit, value);
    if (implied != nullptr && std::string_view(out_).substr(value_at) == *implied) out_.resize(at);
  }

  void append_value(std::string_view unit, std::int64_t value) {
    constexpr std::string_view kRowOf = "row of ";
    if (unit == "string") {
      append_string(value);
    } else if (unit == "row of shapes") {
      append_shape(value);
    } else if (unit.starts_with(kRowOf)) {
      names_.append(out_, unit.substr(kRowOf.size()), value);
    } else if (unit == "DType") {
      append_dtype(value);
    } else if (const auto flags = text_form::flag_names(unit); !flags.empty()) {
      append_flags(flags, value);
    } else {
      const auto names = text_form::enum_names(unit);
      const auto name = std::ranges::find(names, value, &text_form::ValueName::value);
      if (name != names.end()) {
        out_ += name->name;
      } else {
        append_integer(out_, value);
      }
    }
  }

  void append_string(std::int64_t code) {
    if (code == -1) {
      out_ += '-';
    } else if (code >= 0 && static_cast<std::uint64_t>(code) < trace_.strings.size()) {
      append_word(out_, trace_.strings[static_cast<std::int32_t>(code)]);
    } else {
      out_ += '#';
      append_integer(out_, code);
    }
  }

  void append_shape(std::int64_t code) {
    if (code == -1) {
      out_ += '-';
      return;
    }
    if (code < 0 || static_cast<std::uint64_t>(code) >= trace_.shapes.size()) {
      out_ += '#';
      append_integer(out_, code);
      return;
    }
    out_ += '[';
    bool first = true;
    for (const auto dim : trace_.shapes[static_cast<std::int32_t>(code)]) {
      if (!first) out_ += ',';
      first = false;
      append_integer(out_, dim);
    }
    out_ += ']';
  }

  void append_dtype(std::int64_t value) {
    const auto dtype = static_cast<DType>(value);
    const auto& info = dtype_info(dtype);
    if (info.dtype == dtype) {
      out_ += info.short_name;
    } else {
      out_ += '#';
      append_integer(out_, value);
    }
  }

  void append_flags(std::span<const text_form::ValueName> flags, std::int64_t value) {
    bool first = true;
    for (const auto& flag : flags) {
      if ((value & flag.value) == 0) continue;
      if (!first) out_ += ',';
      first = false;
      out_ += flag.name;
      value &= ~flag.value;
    }
    if (value != 0 || first) {
      if (!first) out_ += ',';
      out_ += '#';
      append_integer(out_, value);
    }
  }

  void write_op(std::size_t row) {
    const auto& ops = trace_.ops;
    write_what(row);
    if (ops.slot[row] != 0 || ops.num_slots[row] != 1) {
      field("slot=", ops.slot[row]);
      out_ += '/';
      append_integer(out_, ops.num_slots[row]);
    }
    if (ops.dtype[row] != 255 || ops.shape[row] != -1) {
      out_ += " out=";
      append_dtype(ops.dtype[row]);
      if (ops.shape[row] != -1) append_shape(ops.shape[row]);
    }
    if (ops.device[row] != 0) {
      out_ += " device=";
      append_value("DeviceKind", ops.device[row]);
    }
    write_parents(row);
    if (const auto args = op_args(trace_, OpId{static_cast<std::uint32_t>(row)}); !args.empty()) {
      out_ += " args=";
      text_form::append_args(out_, trace_, names_, args);
    }
    write_param_uses(row);
    reference(" call=", "module_calls", ops.module_call[row], 0);
    reference(" context=", "site_contexts", ops.site_context[row], 0);
    write_labels(row);
    write_distance(" from_input=", ops.min_distance_from_input[row], ops.max_distance_from_input[row]);
    write_distance(" to_output=", ops.min_distance_to_output[row], ops.max_distance_to_output[row]);
  }

  void field(std::string_view name, std::int64_t value) {
    out_ += ' ';
    out_ += name;
    append_integer(out_, value);
  }

  void reference(std::string_view field_name, std::string_view table, std::int64_t row, std::int64_t left_out) {
    if (row == left_out) return;
    out_ += field_name;
    names_.append(out_, table, row);
  }

  void write_what(std::size_t row) {
    constexpr std::string_view kKinds[] = {"", "input", "buffer", "output"};
    const auto kind = trace_.ops.kind[row];
    const auto instruction = trace_.ops.instruction[row];
    out_ += ' ';
    if (kind == 0) {
      names_.append(out_, "instructions", instruction);
    } else if (kind <= 3) {
      out_ += kKinds[kind];
      reference(" instruction=", "instructions", instruction, -1);
    } else {
      names_.append(out_, "instructions", instruction);
      field("kind=", kind);
    }
  }

  void write_parents(std::size_t row) {
    const auto [begin, end] = edge_range(trace_, OpId{static_cast<std::uint32_t>(row)});
    for (auto edge = begin; edge < end; ++edge) {
      out_ += edge == begin ? " parents=" : ",";
      names_.append(out_, "ops", trace_.edges.parent[edge]);
      out_ += '@';
      if (trace_.edges.arg[edge] == -1) {
        out_ += 'w';
      } else {
        append_integer(out_, trace_.edges.arg[edge]);
      }
      if (trace_.edges.sub[edge] != -1) {
        out_ += '+';
        append_integer(out_, trace_.edges.sub[edge]);
      }
    }
  }

  void write_param_uses(std::size_t row) {
    const auto& uses = trace_.param_uses;
    bool first = true;
    for (; next_use_ < uses.op.size() && uses.op[next_use_] == static_cast<std::int64_t>(row); ++next_use_) {
      out_ += first ? " params=" : ",";
      first = false;
      names_.append(out_, "params", uses.param[next_use_]);
      out_ += '@';
      append_integer(out_, uses.arg[next_use_]);
    }
  }

  void write_labels(std::size_t row) {
    const auto& ops = trace_.ops;
    const auto& name = names_.find_table("ops")->names[row];
    const auto raw = text_form::implied_raw(name).value_or(std::pair<std::int64_t, std::int64_t>(0, 0));
    if (raw != std::pair<std::int64_t, std::int64_t>(ops.type_index[row], ops.raw_index[row])) {
      field("raw=", ops.type_index[row]);
      out_ += '/';
      append_integer(out_, ops.raw_index[row]);
    }
    const auto pass = text_form::implied_pass(names_, name).value_or(std::pair<std::int32_t, std::int64_t>(-1, 0));
    if (pass != std::pair<std::int32_t, std::int64_t>(ops.layer[row], ops.pass_index[row])) {
      out_ += " layer=";
      names_.append(out_, "layers", ops.layer[row]);
      field("pass=", ops.pass_index[row]);
    }
  }

  void write_distance(std::string_view field_name, std::int32_t min, std::int32_t max) {
    if (min == -1 && max == -1) return;
    out_ += field_name;
    append_integer(out_, min);
    if (max == min) return;
    out_ += "..";
    append_integer(out_, max);
  }

  void write_layer_ops() {
    out_ += "layer_ops [";
    for (std::size_t row = 0; row < trace_.layer_ops.op.size(); ++row) {
      if (row > 0) out_ += ',';
      names_.append(out_, "ops", trace_.layer_ops.op[row]);
    }
    out_ += "]\n";
  }

  void write_flow(std::size_t row) {
    if (const auto args = flow_args(trace_, row); !args.empty()) {
      out_ += " args=";
      text_form::append_args(out_, trace_, names_, args);
    }
    if (trace_.flow.tag[row] == 0 && trace_.flow.value[row] == 0) return;
    out_ += " value=";
    text_form::append_flow_value(out_, trace_, names_, trace_.flow.tag[row], trace_.flow.value[row]);
  }

  const Trace& trace_;
  bool stable_;
  RowNames names_;
  bool canonical_passes_;
  std::size_t next_use_ = 0;
  std::string out_;
};

}  // namespace

std::string to_text(const Trace& trace, const TextOptions& options) { return Writer(trace, options).write(); }

}  // namespace tl
