#include "analysis/chrome_trace.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "core/escape.h"
#include "cost/counts.h"
#include "cost/memory_timeline.h"
#include "cost/op_costs.h"

namespace tl {
namespace {

constexpr std::int64_t kUnmeasured = 1000;             ///< nanoseconds of a call whose time is not known
constexpr double kLongest = 1e15;                      ///< nanoseconds that a call may claim: eleven days
constexpr std::size_t kChunk = std::size_t{1} << 16U;  ///< bytes that are gathered before they are handed on

std::size_t row(std::int32_t value) { return static_cast<std::size_t>(value); }

std::int64_t nanoseconds(double seconds) {
  if (!(seconds > 0)) return 0;
  return static_cast<std::int64_t>(std::min(seconds * 1e9, kLongest));
}

bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\' && c != '#'; });
}

std::string json_string(std::string_view text) {
  if (is_plain(text)) return "\"" + std::string(text) + "\"";
  return escape_json_for_log(nlohmann::json(escape_invalid_utf8(text)).dump(-1, ' ', true));
}

/// Microseconds with three decimals, as the format wants them.
std::string microseconds(std::int64_t ns) {
  const auto rest = std::to_string(ns % 1000);
  return std::to_string(ns / 1000) + "." + std::string(3 - rest.size(), '0') + rest;
}

class ChromeWriter {
 public:
  ChromeWriter(const Trace& trace, bool stable, const TextSink& sink)
      : trace_(trace), sink_(sink), costs_(op_costs(trace)), memory_(memory_timeline(trace)) {
    has_times_ = !stable && trace.op_seconds.size() == trace.num_ops();
    has_call_times_ = has_times_ && trace.module_call_seconds.size() == trace.module_calls.module.size();
    on_stack_.assign(trace.module_calls.module.size(), false);
  }

  void write() {
    begin_document();
    const auto& first_op = trace_.module_calls.first_op;
    std::size_t next_call = 0;
    for (std::size_t op = 0; op < trace_.num_ops(); ++op) {
      for (; next_call < first_op.size() && row(first_op[next_call]) <= op; ++next_call) enter(next_call);
      if (trace_.ops.kind[op] == static_cast<std::uint8_t>(OpKind::kOperation)) write_call(op);
    }
    for (; next_call < first_op.size(); ++next_call) enter(next_call);
    while (!stack_.empty()) leave();
    text_ += "\n]}\n";
    flush();
  }

 private:
  struct Open {
    std::size_t call;
    std::int64_t begin;
  };

  void begin_document() {
    text_ += "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"model\":" + json_string(trace_.run.model_file) +
             ",\"outcome\":" + json_string(trace_.run.outcome.status) + ",\"times\":" +
             json_string(has_times_ ? "measured durations, laid end to end" : "one microsecond a call") +
             "},\"traceEvents\":[";
    event("\"ph\":\"M\",\"name\":\"process_name\",\"args\":{\"name\":" + json_string(trace_.run.model_file) + "}");
    event("\"ph\":\"M\",\"name\":\"thread_name\",\"args\":{\"name\":" + json_string(trace_.run.method) + "}");
  }

  void event(const std::string& fields) {
    text_ += first_ ? "\n{" : ",\n{";
    first_ = false;
    text_ += fields + ",\"pid\":1,\"tid\":1}";
    if (text_.size() >= kChunk) flush();
  }

  void flush() {
    sink_(text_);
    text_.clear();
  }

  void enter(std::size_t call) {
    const auto parent = trace_.module_calls.parent_call[call];
    while (!stack_.empty() && static_cast<std::int64_t>(stack_.back().call) != parent) leave();
    const auto module = row(trace_.module_calls.module[call]);
    event("\"ph\":\"B\",\"cat\":\"module\",\"name\":" +
          json_string(module_call_label(trace_, ModuleCallId{static_cast<std::uint32_t>(call)})) +
          ",\"ts\":" + microseconds(now_) +
          ",\"args\":{\"class\":" + json_string(trace_.strings[trace_.modules.class_name[module]]) + "}");
    stack_.push_back({call, now_});
    on_stack_[call] = true;
  }

  void leave() {
    const auto [call, begin] = stack_.back();
    stack_.pop_back();
    on_stack_[call] = false;
    if (has_call_times_) {
      now_ = std::max(now_, saturating_add(begin, nanoseconds(trace_.module_call_seconds[call])));
    }
    event("\"ph\":\"E\",\"ts\":" + microseconds(now_));
  }

  void write_call(std::size_t op) {
    const auto call = trace_.ops.module_call[op];
    if (call >= 0 && on_stack_[row(call)]) {
      while (stack_.back().call != row(call)) leave();
    }
    event("\"ph\":\"C\",\"name\":\"live activations\",\"ts\":" + microseconds(now_) +
          ",\"args\":{\"bytes\":" + std::to_string(memory_.live_bytes[op]) + "}");
    const OpId id{static_cast<std::uint32_t>(op)};
    if (!is_first_output(trace_, id)) return;
    const auto duration = has_times_ ? nanoseconds(static_cast<double>(trace_.op_seconds[op])) : kUnmeasured;
    event("\"ph\":\"X\",\"cat\":\"op\",\"name\":" + json_string(func_name(trace_, id)) +
          ",\"ts\":" + microseconds(now_) + ",\"dur\":" + microseconds(duration) + ",\"args\":{" + args_of(id) + "}");
    now_ = saturating_add(now_, duration);
  }

  std::string type_of(std::int32_t shape, std::uint8_t dtype) const {
    std::string text(short_name(static_cast<DType>(dtype)));
    text += "[";
    const auto sizes = trace_.shapes[shape];
    for (std::size_t i = 0; i < sizes.size(); ++i) text += (i > 0 ? "," : "") + std::to_string(sizes[i]);
    return text + "]";
  }

  std::string args_of(OpId op) const {
    constexpr std::size_t kInputsShown = 8;
    const auto& ops = trace_.ops;
    std::string inputs;
    const auto [begin, end] = edge_range(trace_, op);
    for (auto edge = begin; edge < std::min(end, begin + kInputsShown); ++edge) {
      const auto parent = row(trace_.edges.parent[edge]);
      inputs += (edge > begin ? " " : "") + type_of(ops.shape[parent], ops.dtype[parent]);
    }
    if (end - begin > kInputsShown) inputs += " …";
    std::string outputs = type_of(ops.shape[op.index()], ops.dtype[op.index()]);
    for (auto next = op.index() + 1; next < trace_.num_ops() && next < op.index() + kInputsShown; ++next) {
      if (is_first_output(trace_, OpId{static_cast<std::uint32_t>(next)})) break;
      outputs += " " + type_of(ops.shape[next], ops.dtype[next]);
    }
    std::string text = "\"label\":" + json_string(op_label(trace_, op)) + ",\"inputs\":" + json_string(inputs) +
                       ",\"outputs\":" + json_string(outputs);
    const auto& cost = costs_[op.index()];
    if (cost.flops) text += ",\"flops\":" + std::to_string(*cost.flops);
    text += ",\"bytes_read\":" + std::to_string(cost.bytes_read) +
            ",\"bytes_written\":" + std::to_string(cost.bytes_written);
    return text + place_of(op);
  }

  std::string place_of(OpId op) const {
    const auto instruction = trace_.ops.instruction[op.index()];
    if (instruction < 0) return {};
    const auto name = ",\"operator\":" + json_string(trace_.strings[trace_.instructions.op_name[row(instruction)]]);
    const auto site = trace_.instructions.call_site[row(instruction)];
    if (site < 0 || trace_.call_sites.line[row(site)] <= 0) return name;
    return name + ",\"source\":" +
           json_string(std::string(trace_.strings[trace_.call_sites.file[row(site)]]) + ":" +
                       std::to_string(trace_.call_sites.line[row(site)]));
  }

  const Trace& trace_;
  const TextSink& sink_;
  std::vector<OpCost> costs_;
  MemoryTimeline memory_;
  bool has_times_ = false;
  bool has_call_times_ = false;
  std::vector<bool> on_stack_;
  std::vector<Open> stack_;
  std::int64_t now_ = 0;  ///< nanoseconds since the run began
  bool first_ = true;
  std::string text_;
};

}  // namespace

void write_chrome_trace(const Trace& trace, bool stable, const TextSink& sink) {
  ChromeWriter(trace, stable, sink).write();
}

}  // namespace tl
