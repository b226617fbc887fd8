#include <algorithm>
#include <cstdint>
#include <vector>

#include "trace/invariant_checks.h"

namespace tl {
namespace {

OpId op_id(std::size_t row) { return OpId{static_cast<std::uint32_t>(row)}; }
std::string number(std::int64_t value) { return std::to_string(value); }

bool is_kind(const Trace& trace, std::size_t op, OpKind kind) {
  return trace.ops.kind[op] == static_cast<std::uint8_t>(kind);
}

struct Distances {
  std::vector<std::int32_t> min;
  std::vector<std::int32_t> max;

  explicit Distances(std::size_t ops) : min(ops, -1), max(ops, -1) {}
  void start(std::size_t op) { min[op] = max[op] = 0; }
  /// `op` is one edge further than `from`.
  void relax(std::size_t op, std::size_t from) {
    if (max[from] < 0) return;
    min[op] = min[op] < 0 ? min[from] + 1 : std::min(min[op], min[from] + 1);
    max[op] = std::max(max[op], max[from] + 1);
  }
};

Distances distances_from_input(const Trace& trace) {
  Distances found(trace.num_ops());
  for (std::size_t op = 0; op < trace.num_ops(); ++op) {
    if (is_kind(trace, op, OpKind::kInput)) found.start(op);
    const auto [begin, end] = edge_range(trace, op_id(op));
    for (auto edge = begin; edge < end; ++edge) found.relax(op, static_cast<std::size_t>(trace.edges.parent[edge]));
  }
  return found;
}

Distances distances_to_output(const Trace& trace) {
  Distances found(trace.num_ops());
  for (auto op = trace.num_ops(); op-- > 0;) {
    if (is_kind(trace, op, OpKind::kOutput)) found.start(op);
    const auto [begin, end] = edge_range(trace, op_id(op));
    for (auto edge = begin; edge < end; ++edge) found.relax(static_cast<std::size_t>(trace.edges.parent[edge]), op);
  }
  return found;
}

void compare(const Trace& trace, const std::string& name, std::span<const std::int32_t> stored,
             const std::vector<std::int32_t>& found, Findings& findings) {
  for (std::size_t op = 0; op < stored.size(); ++op) {
    if (stored[op] == found[op]) continue;
    findings.add("distances", name + " of op " + number(static_cast<std::int64_t>(op)) + " (" +
                                  raw_label(trace, op_id(op)) + ") is " + number(stored[op]) + ", the edges give " +
                                  number(found[op]));
  }
}

}  // namespace

void check_edges(const Trace& trace, Findings& findings) {
  for (std::size_t op = 0; op < trace.num_ops(); ++op) {
    const auto [begin, end] = edge_range(trace, op_id(op));
    for (auto edge = begin; edge < end; ++edge) {
      const auto parent = trace.edges.parent[edge];
      if (parent >= 0 && static_cast<std::size_t>(parent) < op) continue;
      findings.add("edges", "op " + number(static_cast<std::int64_t>(op)) + " has parent " + number(parent) +
                                ", a parent comes before its child");
    }
  }
  const auto& uses = trace.param_uses;
  for (std::size_t row = 0; row < uses.op.size(); ++row) {
    if (uses.op[row] < 0 || uses.param[row] < 0 || (row > 0 && uses.op[row] < uses.op[row - 1])) {
      findings.add("edges",
                   "param_uses[" + number(static_cast<std::int64_t>(row)) + "] is not sorted by op or has none");
    }
  }
}

void check_order(const Trace& trace, Findings& findings) {
  bool outputs_began = false;
  for (std::size_t op = 0; op < trace.num_ops(); ++op) {
    const auto raw = trace.ops.raw_index[op];
    if (op > 0 && raw <= trace.ops.raw_index[op - 1]) {
      findings.add("order", "raw_index of op " + number(static_cast<std::int64_t>(op)) + " is " + number(raw) +
                                ", the op before has " + number(trace.ops.raw_index[op - 1]));
    }
    const bool output = is_kind(trace, op, OpKind::kOutput);
    if (outputs_began && !output) {
      findings.add("order", "op " + number(static_cast<std::int64_t>(op)) + " comes after an output and is none");
    }
    outputs_began = outputs_began || output;
  }
}

void check_slots(const Trace& trace, Findings& findings) {
  const auto& ops = trace.ops;
  for (std::size_t op = 0; op < trace.num_ops();) {
    const std::size_t count = is_kind(trace, op, OpKind::kOperation) ? std::max<std::size_t>(ops.num_slots[op], 1) : 1;
    std::size_t end = op + 1;
    while (end < trace.num_ops() && end < op + count && is_kind(trace, end, OpKind::kOperation) &&
           ops.instruction[end] == ops.instruction[op] && ops.num_slots[end] == ops.num_slots[op] &&
           ops.module_call[end] == ops.module_call[op] && ops.slot[end] > ops.slot[end - 1]) {
      ++end;
    }
    if (end - op != count || (count == 1 && ops.num_slots[op] != 1)) {
      findings.add("slots", "op " + number(static_cast<std::int64_t>(op)) + " (" + raw_label(trace, op_id(op)) +
                                ") starts a call of " + number(ops.num_slots[op]) + " outputs, " +
                                number(static_cast<std::int64_t>(end - op)) + " stand together");
    }
    op = end;
  }
}

void check_distances(const Trace& trace, Findings& findings) {
  const auto& ops = trace.ops;
  const auto marked = [](const Column<std::int32_t>& column) {
    return std::ranges::any_of(column, [](std::int32_t distance) { return distance != -1; });
  };
  if (!findings.empty()) return;  // the recomputation follows edges
  if (!trace.finished && !marked(ops.min_distance_from_input) && !marked(ops.min_distance_to_output)) return;
  const auto from_input = distances_from_input(trace);
  const auto to_output = distances_to_output(trace);
  compare(trace, "min_distance_from_input", ops.min_distance_from_input.view(), from_input.min, findings);
  compare(trace, "max_distance_from_input", ops.max_distance_from_input.view(), from_input.max, findings);
  compare(trace, "min_distance_to_output", ops.min_distance_to_output.view(), to_output.min, findings);
  compare(trace, "max_distance_to_output", ops.max_distance_to_output.view(), to_output.max, findings);
  for (std::size_t op = 0; op < trace.num_ops(); ++op) {
    const auto flags = ops.flags[op];
    if (((flags & kOpOutputAncestor) != 0) != (to_output.max[op] >= 0)) {
      findings.add("distances", "op " + number(static_cast<std::int64_t>(op)) +
                                    " disagrees with its flag output_ancestor: distance " + number(to_output.max[op]));
    }
    if (((flags & kOpInputDescendant) != 0) != (from_input.max[op] >= 0)) {
      findings.add("distances", "op " + number(static_cast<std::int64_t>(op)) +
                                    " disagrees with its flag input_descendant: distance " +
                                    number(from_input.max[op]));
    }
  }
}

void check_op_kinds(const Trace& trace, Findings& findings) {
  const auto& ops = trace.ops;
  for (std::size_t op = 0; op < trace.num_ops(); ++op) {
    const auto text = "op " + number(static_cast<std::int64_t>(op));
    if (ops.kind[op] > static_cast<std::uint8_t>(OpKind::kOutput)) {
      findings.add("kinds", text + " has the unknown kind " + number(ops.kind[op]));
    } else if (is_kind(trace, op, OpKind::kOperation)) {
      if (ops.instruction[op] < 0) findings.add("kinds", text + " is an operation without instruction");
    } else {
      if (ops.instruction[op] >= 0) findings.add("kinds", text + " is no operation and has an instruction");
      if (ops.address[op] < 0) findings.add("kinds", text + " is an input, buffer or output without role or address");
    }
    if (ops.shape[op] < 0) findings.add("kinds", text + " has no shape");
    const auto call = ops.module_call[op];
    if (call < 0 || static_cast<std::size_t>(call) >= trace.module_calls.first_op.size()) {
      findings.add("kinds", text + " ran in no module call");
    } else if (const auto row = static_cast<std::size_t>(call);
               !is_kind(trace, op, OpKind::kInput) &&
               (static_cast<std::int64_t>(op) < trace.module_calls.first_op[row] ||
                (!is_kind(trace, op, OpKind::kOutput) &&
                 static_cast<std::int64_t>(op) >= trace.module_calls.end_op[row]))) {
      findings.add("kinds", text + " is outside its module call " + number(call) + ", " +
                                number(trace.module_calls.first_op[row]) + " .. " +
                                number(trace.module_calls.end_op[row]));
    }
  }
}

}  // namespace tl
