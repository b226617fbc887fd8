#include <ATen/core/ivalue_inl.h>
#include <ATen/core/jit_type.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <functional>
#include <limits>

#include "core/error.h"
#include "exported/constants.h"
#include "exported/lowering.h"
#include "ops/op_semantics.h"

// Branches and loops: cond, while_loop, map, scan, associative_scan.
namespace tl::lt {
namespace {

constexpr std::uint32_t kNoSlot = 0xffffffff;

std::shared_ptr<torch::jit::Operator> jit_operator(const char* name, const char* overload) {
  for (const auto& op : torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(name))) {
    if (op->schema().overload_name() == overload) return op;
  }
  TL_CHECK(false, "LibTorch has the operator of lists that the lowering asks for");
}

}  // namespace

std::uint32_t ExportedLowering::emit_container(const char* name, ContainerRule rule, Operands inputs,
                                               const NodePlace& place, Output& out) {
  static const auto append = jit_operator("aten::append", "t");
  static const auto get_item = jit_operator("aten::__getitem__", "t");
  Instruction instruction;
  instruction.container = true;
  instruction.container_rule = rule;
  instruction.operation = (rule == ContainerRule::kAppend ? append : get_item)->getOperation();
  instruction.input_dies.assign(inputs.size(), false);
  instruction.inputs = std::move(inputs);
  instruction.outputs = {new_slot()};
  instruction.output_unused = {false};
  instruction.emits = {Emit::kContainer};
  instruction.writes = rule == ContainerRule::kAppend;
  if (instruction.writes) instruction.announced_writes = {0};
  instruction.call_site = place.call_site;
  instruction.frames = place.frames;
  append_instruction(tables_, instruction, {name, "t", std::string(func_name_of(name)), "", ""}, nullptr);
  const auto slot = instruction.outputs[0];
  out.block.instructions.push_back(std::move(instruction));
  return slot;
}

void ExportedLowering::lower_cond(const ExportedNode& node, const NodePlace& place, Scope& scope, Output& out) {
  if (node.inputs.size() != 4) fail(node, "has " + std::to_string(node.inputs.size()) + " arguments, cond takes 4");
  const auto& predicate = node.inputs[0].argument;
  std::uint32_t test = kNoSlot;
  if (const auto* ref = predicate.ref()) {
    test = slot_of(*ref, scope);
    if (scope.graph.values[ref->value].kind == ExportedGraphValue::Kind::kTensor) test = to_bool(test, place, out);
  } else if (const auto* value = std::get_if<bool>(&predicate.data)) {
    test = constant_slot(*value);
  } else {
    fail(node, "has a predicate that is neither a tensor nor a bool");
  }
  const auto operands = operands_of_list(node, 3, scope, out);
  std::vector<Block> blocks(2);
  for (std::size_t arm = 0; arm < 2; ++arm) {
    blocks[arm].outputs = lower_subgraph(node, graph_argument(node, arm + 1), operands, place, blocks[arm]);
  }
  node_ = &node;
  auto& mark = emit_mark(InstructionKind::kIf, "torch::cond", place, out);
  const bool else_block = !blocks[1].instructions.empty();
  if (else_block) tables_.instructions.flags.mut(mark.row) |= kInstrElseBlock;
  mark.inputs = {test};
  mark.input_dies = {false};
  mark.blocks = std::move(blocks);
  // The mark stays valid: defining outputs adds no instruction.
  mark.outputs = define_outputs(node, scope, out);
  mark.output_unused.assign(mark.outputs.size(), false);
  for (const auto& block : mark.blocks) {
    if (block.outputs.size() != mark.outputs.size()) {
      fail(node, "lists " + std::to_string(mark.outputs.size()) + " outputs, a branch returns " +
                     std::to_string(block.outputs.size()));
    }
  }
}

void ExportedLowering::lower_while(const ExportedNode& node, const NodePlace& place, Scope& scope, Output& out) {
  const auto& condition = graph_argument(node, 0);
  const auto& body = graph_argument(node, 1);
  const auto carried = operands_of_list(node, 2, scope, out);
  const auto additional = operands_of_list(node, 3, scope, out);
  const auto joined = [&](const Operands& values) {
    auto all = values;
    all.insert(all.end(), additional.begin(), additional.end());
    return all;
  };
  const auto test_of = [&](const Operands& values, Block& block) {
    const auto result = lower_subgraph(node, condition, joined(values), place, block);
    if (result.size() != 1) fail(node, "has a condition that returns " + std::to_string(result.size()) + " values");
    Output inner{block, &place, open_.size()};
    const auto* ref = condition.outputs[0].ref();
    const bool tensor = ref && condition.values[ref->value].kind == ExportedGraphValue::Kind::kTensor;
    return tensor ? to_bool(result[0], place, inner) : result[0];
  };
  const auto first = test_of(carried, out.block);
  Block block;
  block.params.push_back(new_slot());
  Operands current;
  for (std::size_t i = 0; i < carried.size(); ++i) current.push_back(new_slot());
  block.params.insert(block.params.end(), current.begin(), current.end());
  const auto next = lower_subgraph(node, body, joined(current), place, block);
  if (next.size() != carried.size()) {
    fail(node,
         "carries " + std::to_string(carried.size()) + " values, its body returns " + std::to_string(next.size()));
  }
  block.outputs.push_back(test_of(next, block));
  block.outputs.insert(block.outputs.end(), next.begin(), next.end());
  node_ = &node;
  auto& mark = emit_mark(InstructionKind::kLoop, "torch::while_loop", place, out);
  mark.inputs = {constant_slot(std::numeric_limits<std::int64_t>::max()), first};
  mark.inputs.insert(mark.inputs.end(), carried.begin(), carried.end());
  mark.input_dies.assign(mark.inputs.size(), false);
  mark.blocks.push_back(std::move(block));
  mark.outputs = define_outputs(node, scope, out);
  mark.output_unused.assign(mark.outputs.size(), false);
  if (mark.outputs.size() != carried.size()) fail(node, "lists another number of outputs than it carries values");
}

namespace {

/// Pieces of a loop over the first axis of some tensors.
struct AxisLoop {
  Block block;
  std::uint32_t iteration = 0;
  std::vector<std::uint32_t> lists;  ///< of what each iteration yields
};

}  // namespace

void ExportedLowering::lower_map(const ExportedNode& node, const NodePlace& place, Scope& scope, Output& out) {
  const auto& body = graph_argument(node, 0);
  const auto mapped = operands_of_list(node, 1, scope, out);
  const auto additional = operands_of_list(node, 2, scope, out);
  if (mapped.empty()) fail(node, "maps over nothing");
  Operands unbound;
  for (const auto slot : mapped) unbound.push_back(emit_aten("aten::unbind", "int", {input_at(slot)}, place, out));
  const auto count = emit_aten("aten::sym_size", "int", {input_at(mapped[0]), literal(std::int64_t{0})}, place, out);
  AxisLoop loop;
  loop.iteration = new_slot();
  loop.block.params.push_back(loop.iteration);
  Output inner{loop.block, &place, open_.size()};
  Operands operands;
  for (const auto slot : unbound) {
    operands.push_back(
        emit_container("aten::__getitem__", ContainerRule::kGetItem, {slot, loop.iteration}, place, inner));
  }
  operands.insert(operands.end(), additional.begin(), additional.end());
  const auto results = lower_subgraph(node, body, operands, place, loop.block);
  for (const auto result : results) {
    ExportedList empty;
    const auto list =
        list_input(node, "results", empty, *c10::ListType::create(c10::TensorType::get()), place, scope, out);
    loop.lists.push_back(list.slot);
    emit_container("aten::append", ContainerRule::kAppend, {list.slot, result}, place, inner);
  }
  loop.block.outputs.push_back(constant_slot(true));
  node_ = &node;
  auto& mark = emit_mark(InstructionKind::kLoop, "torch::map", place, out);
  mark.inputs = {count, constant_slot(true)};
  mark.input_dies = {false, false};
  mark.blocks.push_back(std::move(loop.block));
  Operands stacked;
  for (const auto list : loop.lists) stacked.push_back(emit_aten("aten::stack", "", {input_at(list)}, place, out));
  alias_outputs(node, stacked, scope, out);
}

void ExportedLowering::lower_scan(const ExportedNode& node, const NodePlace& place, Scope& scope, Output& out) {
  const auto& body = graph_argument(node, 0);
  const auto init = operands_of_list(node, 1, scope, out);
  const auto scanned = operands_of_list(node, 2, scope, out);
  const auto additional = node.inputs.size() > 3 ? operands_of_list(node, 3, scope, out) : Operands{};
  if (scanned.empty()) {
    alias_outputs(node, init, scope, out);
    return;
  }
  const auto count = emit_aten("aten::sym_size", "int", {input_at(scanned[0]), literal(std::int64_t{0})}, place, out);
  AxisLoop loop;
  loop.iteration = new_slot();
  loop.block.params.push_back(loop.iteration);
  Operands operands;
  for (std::size_t i = 0; i < init.size(); ++i) operands.push_back(new_slot());
  loop.block.params.insert(loop.block.params.end(), operands.begin(), operands.end());
  Output inner{loop.block, &place, open_.size()};
  for (const auto slot : scanned) {
    operands.push_back(emit_aten("aten::select", "int",
                                 {input_at(slot), literal(std::int64_t{0}), input_at(loop.iteration, false)}, place,
                                 inner));
  }
  operands.insert(operands.end(), additional.begin(), additional.end());
  const auto results = lower_subgraph(node, body, operands, place, loop.block);
  if (results.size() < init.size()) fail(node, "carries more values than its body returns");
  loop.block.outputs.push_back(constant_slot(true));
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (i < init.size()) {
      loop.block.outputs.push_back(results[i]);
      continue;
    }
    ExportedList empty;
    const auto list =
        list_input(node, "results", empty, *c10::ListType::create(c10::TensorType::get()), place, scope, out);
    loop.lists.push_back(list.slot);
    emit_container("aten::append", ContainerRule::kAppend, {list.slot, results[i]}, place, inner);
  }
  node_ = &node;
  Operands last;
  {
    auto& mark = emit_mark(InstructionKind::kLoop, "torch::scan", place, out);
    mark.inputs = {count, constant_slot(true)};
    mark.inputs.insert(mark.inputs.end(), init.begin(), init.end());
    mark.input_dies.assign(mark.inputs.size(), false);
    mark.blocks.push_back(std::move(loop.block));
    for (std::size_t i = 0; i < init.size(); ++i) last.push_back(new_slot());
    mark.outputs = last;
    mark.output_unused.assign(last.size(), false);
  }
  for (const auto list : loop.lists) last.push_back(emit_aten("aten::stack", "", {input_at(list)}, place, out));
  alias_outputs(node, last, scope, out);
}

void ExportedLowering::lower_associative_scan(const ExportedNode& node, const NodePlace& place, Scope& scope,
                                              Output& out) {
  // The recursion of generic_associative_scan, unrolled: its depth hangs on the length of the axis.
  const auto& combine = graph_argument(node, 0);
  const auto leaves = operands_of_list(node, 1, scope, out);
  const auto additional = node.inputs.size() > 2 ? operands_of_list(node, 2, scope, out) : Operands{};
  const auto* first =
      node.inputs[1].argument.list()->items.empty() ? nullptr : node.inputs[1].argument.list()->items[0].ref();
  const auto meta = first ? scope.graph.values[first->value].meta : -1;
  const auto* sizes = meta >= 0 ? &scope.graph.metas[static_cast<std::size_t>(meta)].sizes : nullptr;
  if (sizes == nullptr || sizes->empty() || !sizes->front().is_number()) {
    refuse(node, "scans over an axis whose length the file does not state", "export the model with that size fixed");
  }
  constexpr std::int64_t kMost = 1 << 16;  // every level of the recursion becomes instructions of its own
  const auto length = *sizes->front().value;
  if (length > kMost) refuse(node, "scans over " + std::to_string(length) + " elements, the limit is 65536", "");
  constexpr auto kEnd = std::numeric_limits<std::int64_t>::max();
  const auto slice = [&](std::uint32_t slot, std::int64_t begin, std::int64_t end, std::int64_t step) {
    return emit_aten("aten::slice", "Tensor",
                     {input_at(slot), literal(std::int64_t{0}), literal(begin), literal(end), literal(step)}, place,
                     out);
  };
  const auto sliced = [&](const Operands& slots, std::int64_t begin, std::int64_t end, std::int64_t step) {
    Operands result;
    for (const auto slot : slots) result.push_back(slice(slot, begin, end, step));
    return result;
  };
  const auto combined = [&](Operands left, const Operands& right) {
    left.insert(left.end(), right.begin(), right.end());
    left.insert(left.end(), additional.begin(), additional.end());
    auto result = lower_subgraph(node, combine, left, place, out.block);
    node_ = &node;
    return result;
  };
  const auto joined = [&](const char* name, const char* overload, std::vector<std::uint32_t> parts, std::int64_t dim) {
    auto& mark = emit_mark(InstructionKind::kListConstruct, "prim::ListConstruct", place, out);
    mark.type = c10::ListType::create(c10::TensorType::get());
    mark.holds_tensors = true;
    mark.inputs = std::move(parts);
    mark.input_dies.assign(mark.inputs.size(), false);
    mark.outputs = {new_slot()};
    mark.output_unused = {false};
    const auto list = mark.outputs[0];
    return emit_aten(name, overload, {input_at(list), literal(dim)}, place, out);
  };
  const auto interleaved = [&](std::uint32_t even, std::uint32_t odd, std::int64_t count) {
    const bool padded = count % 2 != 0;  // one more even than odd
    if (padded) {
      auto rank = static_cast<std::int64_t>(sizes->size());
      c10::List<std::int64_t> pad;
      for (std::int64_t i = 0; i < rank * 2; ++i) pad.push_back(i == (rank - 1) * 2 + 1 ? 1 : 0);
      odd = emit_aten("aten::constant_pad_nd", "", {input_at(odd), literal(pad)}, place, out);
    }
    auto result = joined("aten::stack", "", {even, odd}, 1);
    result = emit_aten("aten::flatten", "using_ints",
                       {input_at(result), literal(std::int64_t{0}), literal(std::int64_t{1})}, place, out);
    return padded ? slice(result, 0, count, 1) : result;
  };
  const std::function<Operands(const Operands&, std::int64_t)> scan = [&](const Operands& elements,
                                                                          std::int64_t count) -> Operands {
    if (count < 2) return elements;
    const auto reduced = combined(sliced(elements, 0, -1, 2), sliced(elements, 1, kEnd, 2));
    const auto odd = scan(reduced, count / 2);
    auto even = count % 2 == 0 ? combined(sliced(odd, 0, -1, 1), sliced(elements, 2, kEnd, 2))
                               : combined(odd, sliced(elements, 2, kEnd, 2));
    Operands result;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const auto head = slice(elements[i], 0, 1, 1);
      const auto whole = count > 2 ? joined("aten::cat", "", {head, even[i]}, 0) : head;
      result.push_back(interleaved(whole, odd[i], count));
    }
    return result;
  };
  alias_outputs(node, scan(leaves, length), scope, out);
}

}  // namespace tl::lt
