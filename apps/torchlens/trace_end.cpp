#include "trace_end.h"

#include "core/text.h"
#include "text_format.h"

namespace tl::cli {
namespace {

std::string stop_message(const Outcome& outcome, const RunEnd& end) {
  const std::string what = end.stopped_by->by_time_limit
                               ? "the time limit of " + format_duration(end.timeout_seconds) + " passed"
                               : end.stopped_by->what();
  if (outcome.complete()) return what + " after the model had ended";
  return what + (outcome.boundary_label.empty() ? "" : " at " + outcome.boundary_label) + " after " +
         counted(outcome.n_ops_committed, "operation");
}

std::string type_of(const Trace& trace, std::size_t op) {
  return format_type(static_cast<DType>(trace.ops.dtype[op]), trace.shapes[trace.ops.shape[op]]);
}

/// Row of the Op with that label; the newest first, for ends are near the end.
std::optional<std::size_t> find_op(const Trace& trace, const std::string& label) {
  for (auto op = trace.num_ops(); op > 0; --op) {
    if (op_label(trace, OpId{static_cast<std::uint32_t>(op - 1)}) == label) return op - 1;
  }
  return std::nullopt;
}

std::string joined(const std::vector<std::string>& items) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "" : ", ") + item;
  return text;
}

}  // namespace

std::optional<ErrorCode> end_code(const Outcome& outcome, const RunEnd& end) {
  if (end.stopped_by) {
    if (end.stopped_by->by_time_limit) return ErrorCode::kTimeLimit;
    const bool by_user = exit_code_of_signal(end.stopped_by->signal) == static_cast<int>(ExitCode::kInterrupted);
    return by_user ? ErrorCode::kInterrupted : ErrorCode::kTerminated;
  }
  if (outcome.complete() || outcome.status == "halted") return std::nullopt;
  return outcome.status == "aborted_nonfinite" ? ErrorCode::kNonFinite : ErrorCode::kModelRaised;
}

std::string end_message(const RunInfo& run, const RunEnd& end) {
  const auto& outcome = run.outcome;
  auto text = run.model_file + ": ";
  if (end.stopped_by) return text + stop_message(outcome, end);
  if (outcome.status == "aborted_nonfinite") {
    return text + "stopped at the first operation that made NaN or an infinity, " + outcome.boundary_label + ": " +
           outcome.reason;
  }
  text += outcome.error_type.empty() ? "the model raised" : outcome.error_type;
  if (!outcome.boundary_label.empty()) text += " at " + outcome.boundary_label;
  if (outcome.n_ops_committed > 0) text += " after " + counted(outcome.n_ops_committed, "operation");
  return text + ": " + outcome.reason;
}

void print_end_details(Output& out, const Trace& trace) {
  const auto& outcome = trace.run.outcome;
  const auto row = [&](std::string_view name, const std::string& text) {
    if (!text.empty()) out.line("  " + pad_right(name, 10) + text);
  };
  if (outcome.status == "aborted_nonfinite") {
    if (const auto op = find_op(trace, outcome.boundary_label)) {
      const OpId id{static_cast<std::uint32_t>(*op)};
      row("op", outcome.boundary_label + "   " + std::string(func_name(trace, id)) + "   " + type_of(trace, *op));
    }
  } else if (outcome.status == "failed") {
    row("operands", joined(outcome.operands));
  } else {
    return;
  }
  row("module", outcome.module.empty() ? "the root" : outcome.module);
  row("source", outcome.call_site);
  std::vector<std::string> parents;
  for (const auto& label : outcome.frontier_labels) {
    const auto op = find_op(trace, label);
    parents.push_back(op ? label + " " + type_of(trace, *op) : label);
  }
  row("parents", joined(parents));
}

}  // namespace tl::cli
