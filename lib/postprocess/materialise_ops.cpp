// Before: a Capture; events refer to each other by number. After: the static tables, ops, edges, param_uses, flow,
// calls, branches, conditionals and loops are columns of the Trace, row n of ops is event n, and every Op has its raw
// label (type_index, raw_index). Columns that later steps fill have their full length and hold "none". Branches are
// still all that ran. First, because everything after works on columns; it also lets go of the events, which a million
// Ops would otherwise hold twice.
#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.h"
#include "postprocess/step.h"

namespace tl {
namespace {

std::int32_t signed_row(std::uint32_t id) { return static_cast<std::int32_t>(id); }  // "none" is all ones, hence -1

void check_sizes(const Capture& capture) {
  constexpr auto kMost = static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()) - 1;
  const auto most = std::max({capture.events.size() + capture.outputs.size(), capture.edges.size(), capture.args.size(),
                              capture.flow_args.size(), capture.param_uses.size(), capture.flow.instruction.size()});
  TL_CHECK(most < kMost, "a recording has at most 2147483646 rows a table");
}

void move_static_tables(Trace& trace, Capture& capture) {
  trace.strings = std::move(capture.strings);
  trace.shapes = std::move(capture.shapes);
  trace.instructions = std::move(capture.instructions);
  trace.call_sites = std::move(capture.call_sites);
  trace.site_contexts = std::move(capture.site_contexts);
  trace.modules = std::move(capture.modules);
  trace.params = std::move(capture.params);
  trace.buffers = std::move(capture.buffers);
  trace.payload_source = std::move(capture.payloads);
  trace.statistics = std::move(capture.statistics);
  trace.run = std::move(capture.run);
  trace.modules.num_calls.assign(std::vector<std::int32_t>(trace.modules.address.size(), 0));
  trace.buffers.num_versions.assign(std::vector<std::int32_t>(trace.buffers.address.size(), 0));
  trace.buffers.last_op.assign(std::vector<std::int32_t>(trace.buffers.address.size(), -1));
}

/// Gives every column of ops `rows` rows that hold "none", and room for `more`.
void resize_ops(OpsTable& ops, std::size_t rows, std::size_t more) {
  const auto holds_none = [](std::string_view field) {
    return field == "instruction" || field == "layer" || field == "branch" || field == "payload" || field == "sample" ||
           field == "address" || field.find("distance") != std::string_view::npos;
  };
  visit_ops(ops, [&](std::string_view field, auto& column, std::string_view, std::string_view) {
    using Value = std::remove_cvref_t<decltype(column[0])>;
    column.reserve(rows + more);
    column.resize(rows, holds_none(field) ? static_cast<Value>(-1) : Value{});
  });
}

void fill_ops(Trace& trace, const Capture& capture) {
  const auto count = capture.events.size();
  auto& ops = trace.ops;
  resize_ops(ops, count, capture.outputs.size());
  trace.op_seconds.reserve(count + capture.outputs.size());
  trace.op_seconds.resize(count);
  for (std::size_t row = 0; row < count; ++row) {
    const auto& event = capture.events[row];
    ops.kind.mut(row) = static_cast<std::uint8_t>(event.kind);
    ops.flags.mut(row) = event.flags;
    ops.instruction.mut(row) = signed_row(event.instruction);
    ops.slot.mut(row) = event.slot;
    ops.num_slots.mut(row) = event.num_slots;
    ops.module_call.mut(row) = signed_row(event.module_call);
    ops.site_context.mut(row) = signed_row(event.site_context);
    ops.dtype.mut(row) = static_cast<std::uint8_t>(event.dtype);
    ops.device.mut(row) = static_cast<std::uint8_t>(event.device);
    ops.shape.mut(row) = signed_row(event.shape);
    ops.edge_begin.mut(row) = signed_row(event.edge_begin);
    ops.args_begin.mut(row) = signed_row(event.args_begin);
    (event.sampled ? ops.sample : ops.payload).mut(row) = signed_row(event.payload);
    ops.address.mut(row) = signed_row(event.address);
    ops.raw_index.mut(row) = static_cast<std::int32_t>(row + 1);
    trace.op_seconds.mut(row) = static_cast<float>(event.duration_ns * 1e-9);
  }
}

void count_types(Trace& trace) {
  const std::int32_t codes[] = {-1, trace.strings.intern("input"), trace.strings.intern("buffer"),
                                trace.strings.intern("output")};
  std::vector<std::int32_t> seen(trace.strings.size() + 1, 0);  // the last is for operations without a layer type
  auto& ops = trace.ops;
  for (std::size_t row = 0; row < trace.num_ops(); ++row) {
    auto code = codes[ops.kind[row]];
    if (code < 0 && ops.instruction[row] >= 0) {
      code = trace.instructions.layer_type[static_cast<std::size_t>(ops.instruction[row])];
    }
    ops.type_index.mut(row) = ++seen[code < 0 ? seen.size() - 1 : static_cast<std::size_t>(code)];
  }
}

void fill_edges(Trace& trace, const Capture& capture) {
  const auto count = capture.edges.size();
  visit_edges(trace.edges, [&](std::string_view, auto& column, std::string_view, std::string_view) {
    column.reserve(count + capture.outputs.size());
    column.resize(count);
  });
  for (std::size_t row = 0; row < count; ++row) {
    const auto& edge = capture.edges[row];
    trace.edges.parent.mut(row) = signed_row(edge.parent);
    trace.edges.arg.mut(row) = edge.arg;
    trace.edges.sub.mut(row) = edge.sub;
  }
}

void fill_param_uses(Trace& trace, const Capture& capture) {
  std::vector<std::size_t> order(capture.param_uses.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto op_of = [&](std::size_t row) { return capture.param_uses[row].op; };
  if (!std::ranges::is_sorted(order, {}, op_of)) std::ranges::stable_sort(order, {}, op_of);
  for (const auto row : order) {
    const auto& use = capture.param_uses[row];
    trace.param_uses.op.push_back(signed_row(use.op));
    trace.param_uses.param.push_back(signed_row(use.param));
    trace.param_uses.arg.push_back(use.arg);
  }
}

std::vector<std::int64_t> words_of(const BlockList<std::int64_t>& list) {
  std::vector<std::int64_t> words(list.size());
  for (std::size_t word = 0; word < words.size(); ++word) words[word] = list[word];
  return words;
}

void fill_args(Trace& trace, Capture& capture) {
  trace.args.assign(words_of(capture.args));
  trace.flow_args.assign(words_of(capture.flow_args));
  trace.flow = std::move(capture.flow);
  const auto events = static_cast<std::int32_t>(capture.events.size());
  for (auto& op : trace.flow.before_op.rows()) op = std::min(op, events);
}

/// A range that the run left open (the model raised inside) ends with the recording.
std::pair<std::int32_t, std::int32_t> closed_range(std::int64_t first, std::int64_t end, std::size_t events) {
  const auto last = static_cast<std::int64_t>(events);
  if (first < 0 || first > last) first = last;
  if (end < first || end > last) end = last;
  return {static_cast<std::int32_t>(first), static_cast<std::int32_t>(end)};
}

void fill_calls(Trace& trace, Capture& capture) {
  trace.module_calls = std::move(capture.module_calls);
  trace.module_call_seconds.assign(std::move(capture.module_call_seconds));
  auto& calls = trace.module_calls;
  for (std::size_t row = 0; row < calls.module.size(); ++row) {
    const auto [first, end] = closed_range(calls.first_op[row], calls.end_op[row], capture.events.size());
    calls.first_op.mut(row) = first;
    calls.end_op.mut(row) = end;
  }
  trace.module_call_seconds.resize(trace.module_call_seconds.empty() ? 0 : calls.module.size());
}

void fill_loops(Trace& trace, const Capture& capture) {
  auto& loops = trace.loops;
  for (std::size_t row = 0; row < capture.loops.size(); ++row) {
    const auto& loop = capture.loops[row];
    const auto [first, end] = closed_range(loop.first_op, loop.end_op, capture.events.size());
    loops.instruction.push_back(signed_row(loop.instruction));
    loops.module_call.push_back(signed_row(loop.module_call));
    loops.iterations.push_back(signed_row(loop.iterations));
    loops.first_op.push_back(first);
    loops.end_op.push_back(end);
  }
}

/// All executed arms, with the enclosing arm while the ranges still tell siblings from empty inner arms; and all
/// conditionals, with their full counts.
void fill_branches(Trace& trace, const Capture& capture) {
  auto& branches = trace.branches;
  auto& conditionals = trace.conditionals;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::int32_t> rows;
  std::vector<std::size_t> open;
  for (std::size_t row = 0; row < capture.branches.size(); ++row) {
    const auto& branch = capture.branches[row];
    const auto [first, end] = closed_range(branch.first_op, branch.end_op, capture.events.size());
    const auto known = static_cast<std::int32_t>(conditionals.instruction.size());
    const auto [found, is_new] = rows.try_emplace({branch.instruction, branch.site_context}, known);
    if (is_new) {
      conditionals.instruction.push_back(signed_row(branch.instruction));
      conditionals.site_context.push_back(signed_row(branch.site_context));
      conditionals.num_arms.push_back(1);
      conditionals.then_count.push_back(0);
      conditionals.else_count.push_back(0);
      conditionals.kind.push_back(static_cast<std::uint8_t>(ConditionalKind::kUnknown));
      conditionals.line.push_back(0);
      conditionals.line_end.push_back(0);
      conditionals.parent_arm.push_back(-1);
    }
    const auto conditional = static_cast<std::size_t>(found->second);
    auto& count = branch.arm == 0 ? conditionals.then_count : conditionals.else_count;
    ++count.mut(conditional);
    while (!open.empty() && first >= branches.end_op[open.back()]) open.pop_back();
    branches.conditional.push_back(found->second);
    branches.arm.push_back(branch.arm);
    branches.parent.push_back(open.empty() ? -1 : static_cast<std::int32_t>(open.back()));
    branches.module_call.push_back(signed_row(branch.module_call));
    branches.test_op.push_back(signed_row(branch.test_op));
    branches.first_op.push_back(first);
    branches.end_op.push_back(end);
    branches.conditional_arm.push_back(-1);
    open.push_back(row);
  }
}

}  // namespace

void materialise_ops(StepContext& context) {
  auto& trace = context.trace;
  auto& capture = context.capture;
  check_sizes(capture);
  move_static_tables(trace, capture);
  fill_ops(trace, capture);
  count_types(trace);
  fill_edges(trace, capture);
  fill_param_uses(trace, capture);
  fill_args(trace, capture);
  fill_calls(trace, capture);
  fill_loops(trace, capture);
  fill_branches(trace, capture);
  auto outputs = std::move(capture.outputs);
  capture = Capture{};
  capture.outputs = std::move(outputs);
}

}  // namespace tl
