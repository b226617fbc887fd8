#include "postprocess/classify_bools.h"

#include <cstdint>
#include <vector>

#include "trace/args.h"

namespace tl {
namespace {

/// By row of instructions: what an aten::Bool asks for; nothing for other instructions.
std::vector<std::optional<BoolContext>> contexts_of(const Trace& trace, SourcePlaces& places) {
  const auto& instructions = trace.instructions;
  std::vector<std::optional<BoolContext>> contexts(instructions.op_name.size());
  const auto name = trace.strings.find("aten::Bool");
  const auto overload = trace.strings.find("Tensor");
  if (name < 0 || overload < 0) return contexts;
  for (std::size_t row = 0; row < contexts.size(); ++row) {
    if (instructions.op_name[row] != name || instructions.overload[row] != overload) continue;
    const auto& place = places.place(instructions.call_site[row]);
    const auto* outline = places.outline(place.text);
    if (outline == nullptr) {
      contexts[row] = BoolContext::kUnknown;
      continue;
    }
    const auto* test = outline->test_at(place.begin);
    contexts[row] = test == nullptr ? BoolContext::kBoolCast : test->context;
  }
  return contexts;
}

/// Ops whose value a torch.cond went by.
std::vector<bool> predicates(const Trace& trace) {
  std::vector<bool> found(trace.num_ops(), false);
  const auto& branches = trace.branches;
  for (std::size_t row = 0; row < branches.conditional.size(); ++row) {
    const auto kind = trace.conditionals.kind[static_cast<std::size_t>(branches.conditional[row])];
    if (kind != static_cast<std::uint8_t>(ConditionalKind::kCond) || branches.test_op[row] < 0) continue;
    found[static_cast<std::size_t>(branches.test_op[row])] = true;
  }
  return found;
}

std::int32_t first_op(std::span<const std::int64_t> operands) {
  std::int32_t op = -1;
  for_each_arg(operands, [&](ArgHeader header, std::span<const std::int64_t> words) {
    if (header.tag == ArgTag::kOp && op < 0) op = static_cast<std::int32_t>(words[0]);
  });
  return op;
}

}  // namespace

void classify_bools(Trace& trace, SourcePlaces& places) {
  const auto contexts = contexts_of(trace, places);
  const auto of_cond = predicates(trace);
  trace.bools = {};
  for (std::size_t row = 0; row < trace.flow.instruction.size(); ++row) {
    const auto instruction = trace.flow.instruction[row];
    if (instruction < 0 || !contexts[static_cast<std::size_t>(instruction)]) continue;
    const auto op = first_op(flow_args(trace, row));
    if (op < 0) continue;
    auto context = *contexts[static_cast<std::size_t>(instruction)];
    if (context == BoolContext::kUnknown && of_cond[static_cast<std::size_t>(op)]) context = BoolContext::kCond;
    trace.bools.op.push_back(op);
    trace.bools.context.push_back(static_cast<std::uint8_t>(context));
    trace.bools.value.push_back(trace.flow.value[row] != 0 ? 1 : 0);
  }
}

}  // namespace tl
