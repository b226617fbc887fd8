#include "cost/module_costs.h"

#include <algorithm>

namespace tl {
namespace {

std::size_t row(std::int32_t value) { return static_cast<std::size_t>(value); }

bool is_inner(const Trace& trace, std::size_t call) {
  const auto parent = trace.module_calls.parent_call[call];
  return parent >= 0 && row(parent) < call;
}

std::vector<CostSum> sums_of_own_ops(const Trace& trace, const std::vector<OpCost>& costs) {
  std::vector<CostSum> calls(trace.module_calls.module.size());
  for (std::size_t op = 0; op < costs.size(); ++op) {
    const auto call = trace.ops.module_call[op];
    if (call < 0 || row(call) >= calls.size()) continue;
    calls[row(call)] += cost_of_op(trace, costs, OpId{static_cast<std::uint32_t>(op)});
  }
  return calls;
}

/// For each call, whether none around it is of the same module.
std::vector<bool> find_outermost(const Trace& trace) {
  const auto calls = trace.module_calls.module.size();
  std::vector<bool> outermost(calls, true);
  std::vector<std::size_t> stack;
  std::vector<std::int32_t> open(trace.modules.address.size(), 0);
  for (std::size_t call = 0; call < calls; ++call) {
    const auto parent = trace.module_calls.parent_call[call];
    while (!stack.empty() && static_cast<std::int64_t>(stack.back()) != parent) {
      --open[row(trace.module_calls.module[stack.back()])];
      stack.pop_back();
    }
    auto& inside = open[row(trace.module_calls.module[call])];
    outermost[call] = inside == 0;
    ++inside;
    stack.push_back(call);
  }
  return outermost;
}

/// Seconds of calls, inclusive and without the calls inside.
void set_seconds(const Trace& trace, std::vector<CostSum>& inclusive, std::vector<CostSum>& exclusive) {
  const auto& measured = trace.module_call_seconds;
  if (measured.size() != inclusive.size()) return;
  for (std::size_t call = 0; call < measured.size(); ++call) {
    inclusive[call].seconds = measured[call];
    exclusive[call].seconds = measured[call];
  }
  for (std::size_t call = 1; call < measured.size(); ++call) {
    if (is_inner(trace, call)) exclusive[row(trace.module_calls.parent_call[call])].seconds -= measured[call];
  }
  for (auto& sum : exclusive) sum.seconds = std::max(sum.seconds, 0.0);
}

}  // namespace

CostSum& operator+=(CostSum& sum, const CostSum& other) {
  sum.num_ops += other.num_ops;
  sum.flops = saturating_add(sum.flops, other.flops);
  sum.macs = saturating_add(sum.macs, other.macs);
  sum.uncounted_calls += other.uncounted_calls;
  sum.bytes_read = saturating_add(sum.bytes_read, other.bytes_read);
  sum.bytes_written = saturating_add(sum.bytes_written, other.bytes_written);
  sum.activation_bytes = saturating_add(sum.activation_bytes, other.activation_bytes);
  sum.saved_bytes = saturating_add(sum.saved_bytes, other.saved_bytes);
  sum.seconds += other.seconds;
  return sum;
}

CostSum cost_of_op(const Trace& trace, const std::vector<OpCost>& costs, OpId op) {
  CostSum sum;
  const auto i = op.index();
  for (const auto payload : {trace.ops.payload[i], trace.ops.sample[i]}) {
    if (payload < 0 || trace.payloads.first_op[row(payload)] != static_cast<std::int32_t>(op.value)) continue;
    sum.saved_bytes = saturating_add(sum.saved_bytes, trace.payloads.bytes[row(payload)]);
  }
  if (trace.ops.kind[i] != static_cast<std::uint8_t>(OpKind::kOperation)) return sum;
  const auto& cost = costs[i];
  sum.num_ops = 1;
  sum.flops = cost.flops.value_or(0);
  sum.macs = cost.macs.value_or(0);
  sum.uncounted_calls = !cost.flops && is_first_output(trace, op) ? 1 : 0;
  sum.bytes_read = cost.bytes_read;
  sum.bytes_written = cost.bytes_written;
  sum.activation_bytes = activation_bytes(trace, op);
  if (i < trace.op_seconds.size()) sum.seconds = static_cast<double>(trace.op_seconds[i]);
  return sum;
}

ModuleCosts module_costs(const Trace& trace, const std::vector<OpCost>& costs) {
  ModuleCosts result;
  auto exclusive = sums_of_own_ops(trace, costs);
  result.calls = exclusive;
  for (auto call = result.calls.size(); call-- > 1;) {
    if (is_inner(trace, call)) result.calls[row(trace.module_calls.parent_call[call])] += result.calls[call];
  }
  set_seconds(trace, result.calls, exclusive);
  result.modules.resize(trace.modules.address.size());
  const auto outermost = find_outermost(trace);
  for (std::size_t call = 0; call < exclusive.size(); ++call) {
    auto& module = result.modules[row(trace.module_calls.module[call])];
    module.exclusive += exclusive[call];
    if (outermost[call]) module.inclusive += result.calls[call];
  }
  auto params = module_params(trace);
  for (std::size_t module = 0; module < params.size(); ++module) result.modules[module].params = params[module];
  return result;
}

}  // namespace tl
