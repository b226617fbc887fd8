#include "cost/op_costs.h"

#include <algorithm>
#include <limits>

#include "cost/call_facts.h"
#include "cost/flop_formulas.h"
#include "ops/flop_rules.h"

namespace tl {
namespace {

std::size_t row(std::int32_t value) { return static_cast<std::size_t>(value); }

bool is_operation(const Trace& trace, std::size_t op) {
  return trace.ops.kind[op] == static_cast<std::uint8_t>(OpKind::kOperation);
}

std::int64_t bytes_of(std::span<const std::int64_t> sizes, DType dtype) {
  const auto bytes = times(numel(sizes), static_cast<std::int64_t>(item_bytes(dtype)));
  return bytes.value_or(std::numeric_limits<std::int64_t>::max());
}

/// The rules of the instructions, looked up once each. What only names elements anew costs nothing by its schema.
std::vector<FlopRule> rules_of_instructions(const Trace& trace) {
  const auto& instructions = trace.instructions;
  std::vector<FlopRule> rules(instructions.op_name.size());
  for (std::size_t i = 0; i < rules.size(); ++i) {
    rules[i] = flop_rule(trace.strings[instructions.op_name[i]], trace.strings[instructions.overload[i]]);
    if (rules[i].formula == FlopFormula::kUnknown && (instructions.flags[i] & kInstrView) != 0) {
      rules[i].formula = FlopFormula::kZero;
    }
  }
  return rules;
}

std::int64_t bytes_read(const FlopRule& rule, const CallFacts& facts, std::int64_t bytes_yielded) {
  const auto tensors = facts.tensors();
  std::int64_t total = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& arg = tensors[i];
    // Arguments are few: a short look back is cheaper than a set. Long lists are taken as distinct.
    constexpr std::size_t kLookBack = 16;
    bool seen = false;
    for (std::size_t j = i - std::min(i, kLookBack); j < i; ++j) seen |= tensors[j].identity == arg.identity;
    if (seen) continue;
    if (rule.formula == FlopFormula::kOverwrite && arg.position == 0) continue;
    auto bytes = bytes_of(arg.sizes, arg.dtype);
    if (rule.formula == FlopFormula::kGather && arg.position == 0) bytes = std::min(bytes, bytes_yielded);
    total = saturating_add(total, bytes);
  }
  return total;
}

}  // namespace

std::int64_t activation_bytes(const Trace& trace, OpId op) {
  return bytes_of(trace.shapes[trace.ops.shape[op.index()]], static_cast<DType>(trace.ops.dtype[op.index()]));
}

bool is_first_output(const Trace& trace, OpId op) {
  const auto& ops = trace.ops;
  const auto i = op.index();
  if (i == 0 || ops.num_slots[i] <= 1 || ops.kind[i] != ops.kind[i - 1]) return true;
  return ops.instruction[i] != ops.instruction[i - 1] || ops.module_call[i] != ops.module_call[i - 1] ||
         ops.slot[i] <= ops.slot[i - 1];
}

std::vector<OpCost> op_costs(const Trace& trace) {
  std::vector<OpCost> costs(trace.num_ops());
  const auto rules = rules_of_instructions(trace);
  CallFacts facts(trace);
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const OpId op{static_cast<std::uint32_t>(i)};
    auto& cost = costs[i];
    if (!is_operation(trace, i) || trace.ops.instruction[i] < 0) {
      if (!is_operation(trace, i)) cost.flops = cost.macs = 0;
      continue;
    }
    const auto flags = trace.ops.flags[i];
    const bool is_view = (flags & kOpView) != 0 && (flags & kOpInPlace) == 0;
    const auto bytes = activation_bytes(trace, op);
    cost.bytes_written = is_view || (flags & kOpUninitialised) != 0 ? 0 : bytes;
    if (!is_first_output(trace, op)) {
      const bool known = costs[i - 1].flops.has_value();
      if (known) cost.flops = cost.macs = 0;
      continue;
    }
    const auto& rule = rules[row(trace.ops.instruction[i])];
    facts.visit(op);
    const auto count = count_flops(rule, facts);
    cost.flops = count.flops;
    cost.macs = count.macs;
    if (!is_view) cost.bytes_read = bytes_read(rule, facts, bytes);
  }
  return costs;
}

CostTotals cost_totals(const Trace& trace, const std::vector<OpCost>& costs) {
  CostTotals totals;
  std::vector<std::int32_t> entry_of_string(trace.strings.size(), -1);
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const auto& cost = costs[i];
    totals.flops = saturating_add(totals.flops, cost.flops.value_or(0));
    totals.macs = saturating_add(totals.macs, cost.macs.value_or(0));
    totals.bytes_read = saturating_add(totals.bytes_read, cost.bytes_read);
    totals.bytes_written = saturating_add(totals.bytes_written, cost.bytes_written);
    if (cost.flops || trace.ops.instruction[i] < 0 || !is_first_output(trace, OpId{static_cast<std::uint32_t>(i)})) {
      continue;
    }
    const auto name = trace.instructions.op_name[row(trace.ops.instruction[i])];
    if (name < 0 || row(name) >= entry_of_string.size()) continue;
    auto& entry = entry_of_string[row(name)];
    if (entry < 0) {
      entry = static_cast<std::int32_t>(totals.uncounted.size());
      totals.uncounted.push_back({std::string(trace.strings[name]), 0});
    }
    ++totals.uncounted[row(entry)].calls;
  }
  return totals;
}

}  // namespace tl
