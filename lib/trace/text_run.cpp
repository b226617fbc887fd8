#include "trace/text_run.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tl::text_form {
namespace {

// Every field of the structs of run_info.h, once: writing, reading and skipping defaults all walk these lists.
template <typename Run, typename Visitor>
void visit_run_fields(Run& run, Visitor&& visit) {
  visit("model_file", run.model_file);
  visit("model_kind", run.model_kind);
  visit("model_digest", run.model_digest);
  visit("model_bytes", run.model_bytes);
  visit("model_class", run.model_class);
  visit("engine", run.engine);
  visit("method", run.method);
  visit("mode", run.mode);
  visit("device", run.device);
  visit("dtype", run.dtype);
  visit("save", run.save);
  visit("save_note", run.save_note);
  visit("threads", run.threads);
  visit("seed", run.seed);
  visit("grad", run.grad);
  visit("load_seconds", run.load_seconds);
  visit("forward_seconds", run.forward_seconds);
}

template <typename OutcomeT, typename Visitor>
void visit_outcome_fields(OutcomeT& outcome, Visitor&& visit) {
  visit("status", outcome.status);
  visit("phase", outcome.phase);
  visit("origin", outcome.origin);
  visit("reason", outcome.reason);
  visit("error_type", outcome.error_type);
  visit("boundary_kind", outcome.boundary_kind);
  visit("boundary_label", outcome.boundary_label);
  visit("n_ops_committed", outcome.n_ops_committed);
  visit("frontier_labels", outcome.frontier_labels);
  visit("module", outcome.module);
  visit("call_site", outcome.call_site);
  visit("operands", outcome.operands);
}

template <typename HealthT, typename Visitor>
void visit_health_fields(HealthT& health, Visitor&& visit) {
  visit("operator_calls", health.operator_calls);
  visit("recorded_calls", health.recorded_calls);
  visit("witnessed", health.witnessed);
  visit("dispatcher_calls", health.dispatcher_calls);
  visit("unaccounted_calls", health.unaccounted_calls);
  visit("nonfinite", health.nonfinite);
  visit("nonfinite_checked", health.nonfinite_checked);
  visit("unannounced_writes", health.unannounced_writes);
  visit("unknown_ops", health.unknown_ops);
  visit("skipped_payloads", health.skipped_payloads);
  visit("state_changed", health.state_changed);
}

template <typename Io, typename Visitor>
void visit_io_fields(Io& io, Visitor&& visit) {
  visit("role", io.role);
  visit("source", io.source);
  visit("dtype", io.dtype);
  visit("sizes", io.sizes);
  visit("scalar", io.scalar);
  visit("min", io.min);
  visit("max", io.max);
  visit("top", io.top);
}

using TopList = std::vector<std::pair<std::int64_t, double>>;

void append_item(std::string& out, const std::string& text) { append_word(out, text); }
void append_item(std::string& out, std::int64_t value) { append_integer(out, value); }
void append_item(std::string& out, bool value) { out += value ? "true" : "false"; }
void append_item(std::string& out, double value) { append_double(out, value); }
void append_item(std::string& out, DType dtype) {
  const auto& info = dtype_info(dtype);
  if (info.dtype == dtype) {
    out += info.short_name;
  } else {
    out += '#';
    append_integer(out, static_cast<std::int64_t>(dtype));
  }
}
void append_item(std::string& out, const std::optional<double>& value) { append_double(out, *value); }
void append_item(std::string& out, const std::pair<std::int64_t, double>& item) {
  append_integer(out, item.first);
  out += ':';
  append_double(out, item.second);
}
template <typename T>
void append_item(std::string& out, const std::vector<T>& list) {
  out += '[';
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i > 0) out += ',';
    append_item(out, list[i]);
  }
  out += ']';
}

void read_item(Cursor& cursor, std::string& text) { text = cursor.word().text; }
void read_item(Cursor& cursor, std::int64_t& value) { value = cursor.integer(); }
void read_item(Cursor& cursor, double& value) { value = cursor.number(); }
void read_item(Cursor& cursor, std::optional<double>& value) { value = cursor.number(); }
void read_item(Cursor& cursor, bool& value) {
  const auto word = cursor.word();
  if (!word.is("true") && !word.is("false")) cursor.fail("expected true or false");
  value = word.is("true");
}
void read_item(Cursor& cursor, DType& dtype) {
  const auto word = cursor.word();
  std::int64_t number = 0;
  if (parse_row_number(word, number) && number >= 0 && number <= 255) {
    dtype = static_cast<DType>(number);
    return;
  }
  if (word.is("none")) return;
  const auto known = dtype_from_name(word.text);
  if (!known) cursor.fail("unknown dtype `" + word.text + "`");
  dtype = *known;
}
void read_item(Cursor& cursor, std::pair<std::int64_t, double>& item) {
  item.first = cursor.integer();
  cursor.expect(':');
  item.second = cursor.number();
}
template <typename T>
void read_item(Cursor& cursor, std::vector<T>& list) {
  cursor.expect('[');
  while (!cursor.accept(']')) {
    T item{};
    read_item(cursor, item);
    list.push_back(std::move(item));
    if (cursor.peek() != ']') cursor.expect(',');
  }
}

template <typename Struct, typename Visit>
void append_line(std::string& out, std::string_view keyword, const Struct& value, bool stable, bool always,
                 Visit&& visit) {
  const Struct defaults;
  std::string fields;
  visit(value, [&](std::string_view name, const auto& field) {
    bool skip = stable && name.ends_with("_seconds");
    visit(defaults, [&](std::string_view other, const auto& original) {
      if constexpr (std::is_same_v<decltype(field), decltype(original)>) {
        if (other == name) skip = skip || field == original;
      }
    });
    if (skip) return;
    fields += ' ';
    fields += name;
    fields += '=';
    append_item(fields, field);
  });
  if (fields.empty() && !always) return;
  out += keyword;
  out += fields;
  out += '\n';
}

template <typename Struct, typename Visit>
void read_line(Cursor& cursor, Struct& value, Visit&& visit) {
  for (cursor.skip_spaces(); !cursor.at_end(); cursor.skip_spaces()) {
    const auto name = cursor.field_name();
    bool found = false;
    visit(value, [&](std::string_view field_name, auto& field) {
      if (field_name != name) return;
      found = true;
      read_item(cursor, field);
    });
    if (!found) cursor.fail("unknown field `" + std::string(name) + "`");
  }
}

constexpr auto kRunFields = [](auto& value, auto&& visit) { visit_run_fields(value, visit); };
constexpr auto kOutcomeFields = [](auto& value, auto&& visit) { visit_outcome_fields(value, visit); };
constexpr auto kHealthFields = [](auto& value, auto&& visit) { visit_health_fields(value, visit); };
constexpr auto kIoFields = [](auto& value, auto&& visit) { visit_io_fields(value, visit); };

}  // namespace

void append_run(std::string& out, const RunInfo& run, bool stable) {
  append_line(out, "run", run, stable, false, kRunFields);
  for (const auto& input : run.inputs) append_line(out, "run_input", input, stable, true, kIoFields);
  for (const auto& output : run.outputs) append_line(out, "run_output", output, stable, true, kIoFields);
  append_line(out, "outcome", run.outcome, stable, false, kOutcomeFields);
  append_line(out, "health", run.health, stable, false, kHealthFields);
}

bool read_run_line(const std::string& keyword, Cursor& cursor, RunInfo& run) {
  if (keyword == "run") {
    read_line(cursor, run, kRunFields);
  } else if (keyword == "run_input") {
    read_line(cursor, run.inputs.emplace_back(), kIoFields);
  } else if (keyword == "run_output") {
    read_line(cursor, run.outputs.emplace_back(), kIoFields);
  } else if (keyword == "outcome") {
    read_line(cursor, run.outcome, kOutcomeFields);
  } else if (keyword == "health") {
    read_line(cursor, run.health, kHealthFields);
  } else {
    return false;
  }
  return true;
}

}  // namespace tl::text_form
