#include <ATen/ATen.h>
#include <ATen/core/ivalue_inl.h>
#include <ATen/core/jit_type.h>
#include <ATen/native/TypeProperties.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <optional>

#include "bridge/tensor_bridge.h"
#include "core/error.h"
#include "exported/constants.h"
#include "exported/lowering.h"

// Higher-order operators as control flow over the slots of the one flat function: subgraphs are lowered in place, their
// inputs being the operands themselves. Semantics follow torch/_higher_order_ops/*.py of 2.13 (their dense, eager
// implementations).
namespace tl::lt {
namespace {

constexpr std::uint32_t kNoSlot = 0xffffffff;

/// Values that a list of outputs defines, in order; lists inside are opened.
void flatten_outputs(const std::vector<ExportedArgument>& outputs, std::vector<const ExportedRef*>& flat) {
  for (const auto& output : outputs) {
    if (const auto* list = output.list())
      flatten_outputs(list->items, flat);
    else
      flat.push_back(output.ref());
  }
}

}  // namespace

const ExportedGraph& ExportedLowering::graph_argument(const ExportedNode& node, std::size_t at) const {
  const auto* graph = at < node.inputs.size() ? node.inputs[at].argument.graph() : nullptr;
  if (graph == nullptr) fail(node, "has no graph as argument " + std::to_string(at));
  return *graph;
}

ExportedLowering::Operands ExportedLowering::operands_from(const ExportedNode& node, std::size_t first, Scope& scope,
                                                           Output& out) {
  Operands operands;
  for (auto i = first; i < node.inputs.size(); ++i) {
    const auto& argument = node.inputs[i].argument;
    if (node.inputs[i].keyword) continue;
    if (const auto* dict = argument.dict()) {  // of hints_wrapper: keyword arguments of the body
      for (const auto& item : dict->items) {
        operands.push_back(input_of(node, item.first, item.second, c10::Argument(item.first, c10::AnyType::get()),
                                    *out.base, scope, out)
                               .slot);
      }
      continue;
    }
    if (argument.list() != nullptr) {
      const auto more = operands_of_list(node, i, scope, out);
      operands.insert(operands.end(), more.begin(), more.end());
      continue;
    }
    operands.push_back(
        input_of(node, "operand", argument, c10::Argument("operand", c10::AnyType::get()), *out.base, scope, out).slot);
  }
  return operands;
}

ExportedLowering::Operands ExportedLowering::operands_of_list(const ExportedNode& node, std::size_t at, Scope& scope,
                                                              Output& out) {
  const auto* list = at < node.inputs.size() ? node.inputs[at].argument.list() : nullptr;
  if (list == nullptr) fail(node, "has no list as argument " + std::to_string(at));
  Operands operands;
  for (const auto& item : list->items) {
    operands.push_back(
        input_of(node, "operand", item, c10::Argument("operand", c10::AnyType::get()), *out.base, scope, out).slot);
  }
  return operands;
}

ExportedLowering::Operands ExportedLowering::define_outputs(const ExportedNode& node, Scope& scope, Output& out,
                                                            std::size_t first) {
  std::vector<const ExportedRef*> flat;
  flatten_outputs(node.outputs, flat);
  Operands slots;
  for (std::size_t i = first; i < flat.size(); ++i) {
    slots.push_back(flat[i] ? define(flat[i]->value, scope, out) : new_slot());
  }
  return slots;
}

void ExportedLowering::alias_outputs(const ExportedNode& node, const Operands& slots, Scope& scope, Output& out,
                                     std::size_t first) {
  std::vector<const ExportedRef*> flat;
  flatten_outputs(node.outputs, flat);
  if (flat.size() - std::min(first, flat.size()) != slots.size()) {
    fail(node, "lists " + std::to_string(flat.size()) + " outputs, its graph returns " + std::to_string(slots.size()));
  }
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (flat[first + i] != nullptr) define_as(flat[first + i]->value, slots[i], scope, out);
  }
}

ExportedLowering::Operands ExportedLowering::lower_subgraph(const ExportedNode& node, const ExportedGraph& graph,
                                                            const Operands& operands, const NodePlace& place,
                                                            Block& block, bool is_own_code) {
  if (graph.inputs.size() != operands.size()) {
    fail(node, "hands " + std::to_string(operands.size()) + " values to " + graph.name + ", which takes " +
                   std::to_string(graph.inputs.size()));
  }
  Scope scope{graph, std::vector<std::uint32_t>(graph.values.size(), kNoSlot), last_uses(graph),
              std::vector<bool>(graph.values.size(), false)};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (const auto* ref = graph.inputs[i].ref()) scope.slots[ref->value] = operands[i];
  }
  Output out{block, &place, open_.size()};
  if (is_own_code) subgraphs_.push_back({place.levels.size(), attribution_.subgraph_site(place, graph.name)});
  lower_graph(scope, out, graph.name);
  if (is_own_code) subgraphs_.pop_back();
  Operands results;
  for (const auto& output : graph.outputs) {
    if (const auto* ref = output.ref()) {
      results.push_back(slot_of(*ref, scope));
    } else if (const auto* list = output.list()) {
      for (const auto& item : list->items)
        results.push_back(item.ref() ? slot_of(*item.ref(), scope) : literal({}).slot);
    } else {
      const auto constant = constant_of(output, c10::AnyType::get(), device_);
      if (!constant) fail(node, "has a graph that returns no value");
      results.push_back(literal(*constant).slot);
    }
  }
  return results;
}

void ExportedLowering::lower_higher_order(const ExportedNode& node, std::string_view name, const NodePlace& place,
                                          Scope& scope, Output& outer) {
  Output out{outer.block, &place, outer.base_depth};
  if (name == "cond") return lower_cond(node, place, scope, out);
  if (name == "while_loop") return lower_while(node, place, scope, out);
  if (name == "map_impl") return lower_map(node, place, scope, out);
  if (name == "scan") return lower_scan(node, place, scope, out);
  if (name == "associative_scan") return lower_associative_scan(node, place, scope, out);
  if (name == "wrap_with_set_grad_enabled") return lower_grad_mode(node, place, scope, out);
  if (name == "wrap_with_autocast") return lower_autocast(node, place, scope, out);
  if (name == "auto_functionalized") return lower_functionalized(node, false, place, scope, out);
  if (name == "auto_functionalized_v2") return lower_functionalized(node, true, place, scope, out);
  if (name == "out_dtype") return lower_out_dtype(node, place, scope, out);
  if (name == "with_effects") return lower_with_effects(node, place, scope, out);
  if (name == "call_torchbind") return lower_torchbind_call(node, 0, 0, place, scope, out);
  if (name == "invoke_subgraph") return lower_inline(node, 0, 2, place, scope, out);
  // They only hint at how a compiler may treat the body.
  for (const auto* hint : {"wrap", "tag_activation_checkpoint", "wrap_activation_checkpoint", "strict_mode",
                           "hints_wrapper", "run_const_graph", "invoke_quant", "invoke_quant_packed"}) {
    if (name == hint) return lower_inline(node, 0, 1, place, scope, out);
  }
  refuse(node, "is a higher-order operator that this engine does not run",
         "export the model without it; torch.export.export(...).run_decompositions() removes some");
}

void ExportedLowering::lower_inline(const ExportedNode& node, std::size_t graph_at, std::size_t first_operand,
                                    const NodePlace& place, Scope& scope, Output& out) {
  const auto& graph = graph_argument(node, graph_at);
  const auto operands = operands_from(node, first_operand, scope, out);
  alias_outputs(node, lower_subgraph(node, graph, operands, place, out.block, false), scope, out);
}

void ExportedLowering::lower_grad_mode(const ExportedNode& node, const NodePlace& place, Scope& scope, Output& out) {
  const auto* enabled = node.inputs.empty() ? nullptr : std::get_if<bool>(&node.inputs[0].argument.data);
  if (enabled == nullptr) fail(node, "does not say whether gradients are on");
  emit_mark(InstructionKind::kEnterGrad, "torch::set_grad_enabled", place, out).ints = {*enabled ? 1 : 0};
  lower_inline(node, 1, 2, place, scope, out);
  emit_mark(InstructionKind::kLeaveGrad, "torch::set_grad_enabled", place, out);
}

void ExportedLowering::lower_autocast(const ExportedNode& node, const NodePlace& place, Scope& scope, Output& out) {
  if (node.inputs.size() < 5) fail(node, "has too few arguments");
  const auto* type = std::get_if<std::string>(&node.inputs[0].argument.data);
  const auto* enabled = std::get_if<bool>(&node.inputs[2].argument.data);
  const auto& dtype = node.inputs[1].argument;
  const auto* element = std::get_if<ExportedDType>(&dtype.data);
  if (type == nullptr || enabled == nullptr || (element == nullptr && !dtype.is_none())) {
    fail(node, "does not say which device, dtype and state it sets");
  }
  auto& mark = emit_mark(InstructionKind::kEnterAutocast, "torch::autocast", place, out);
  // A graph exported on another device runs on this one.
  mark.name = c10::DeviceTypeName(device_.type(), true);
  const auto chosen = element ? static_cast<std::int64_t>(element->dtype)
                              : static_cast<std::int64_t>(device_.is_cpu() ? at::kBFloat16 : at::kHalf);
  mark.ints = {chosen, *enabled ? 1 : 0};
  lower_inline(node, 4, 5, place, scope, out);
  emit_mark(InstructionKind::kLeaveAutocast, "torch::autocast", place, out);
}

// out_dtype(op, dtype, *args): the arguments are converted to what they and dtype promote to, and the result to dtype
// (out_dtype_fallback in torch/_higher_order_ops/out_dtype.py; dtype takes part as a tensor of one dimension does).
void ExportedLowering::lower_out_dtype(const ExportedNode& node, const NodePlace& place, Scope& scope, Output& out) {
  const auto* name =
      node.inputs.size() < 2 ? nullptr : std::get_if<ExportedOperatorName>(&node.inputs[0].argument.data);
  const auto* dtype = name ? std::get_if<ExportedDType>(&node.inputs[1].argument.data) : nullptr;
  if (dtype == nullptr) fail(node, "names no operator and dtype");
  const auto operator_name = operator_name_of(name->name);
  const auto op = operator_name ? c10::Dispatcher::singleton().findSchema(*operator_name) : std::nullopt;
  if (!op) refuse(node, "wraps a function that this engine does not run", "export the model again without it");
  const auto& schema = op->schema();
  const auto given = node.inputs.size() - 2;
  if (given > schema.arguments().size() || schema.returns().size() != 1) {
    fail(node,
         "does not fit " + name->name + ", which takes " + std::to_string(schema.arguments().size()) + " arguments");
  }
  const auto chosen = static_cast<at::ScalarType>(dtype->dtype);
  auto promoted = at::native::update_result_type_state(at::empty({1}, at::device(at::kMeta).dtype(chosen)), {});
  for (auto i = std::size_t{2}; i < node.inputs.size(); ++i) {
    const auto& argument = node.inputs[i].argument;
    const auto* ref = argument.ref();
    const auto* value = ref ? &scope.graph.values[ref->value] : nullptr;
    if (value != nullptr && value->kind == ExportedGraphValue::Kind::kTensor && value->meta >= 0) {
      const auto& meta = scope.graph.metas[static_cast<std::size_t>(value->meta)];
      const std::vector<std::int64_t> sizes(std::min<std::size_t>(meta.sizes.size(), 1), 1);
      promoted = at::native::update_result_type_state(
          at::empty(sizes, at::device(at::kMeta).dtype(static_cast<at::ScalarType>(meta.dtype))), promoted);
    } else if (const auto* number = std::get_if<double>(&argument.data)) {
      promoted = at::native::update_result_type_state(at::Scalar(*number), promoted);
    }
  }
  const auto convert = [&](std::uint32_t slot, at::ScalarType to) {
    return input_at(emit_aten("aten::to", "dtype",
                              {input_at(slot), literal(static_cast<std::int64_t>(to)), literal(false), literal(false),
                               literal(c10::IValue())},
                              place, out));
  };
  std::vector<Input> inputs;
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto& argument = schema.arguments()[i];
    if (i < given) {
      const auto input = input_of(node, argument.name(), node.inputs[i + 2].argument, argument, place, scope, out);
      inputs.push_back(input.tensor ? convert(input.slot, at::native::result_type(promoted)) : input);
    } else if (argument.default_value()) {
      inputs.push_back(literal(*argument.default_value()));
    } else {
      fail(node, "gives no value for the argument '" + argument.name() + "'");
    }
  }
  const auto result = new_slot();
  emit_operator(*op, std::move(inputs), {result}, place, out);
  alias_outputs(node, {convert(result, chosen).slot}, scope, out);
}

void ExportedLowering::lower_with_effects(const ExportedNode& node, const NodePlace& place, Scope& scope, Output& out) {
  const auto* name =
      node.inputs.size() < 2 ? nullptr : std::get_if<ExportedOperatorName>(&node.inputs[1].argument.data);
  if (name == nullptr) fail(node, "names no operator");
  std::vector<const ExportedRef*> flat;
  flatten_outputs(node.outputs, flat);
  // Tokens only order effects, which the list of instructions does already.
  if (!flat.empty() && flat[0] != nullptr) define_as(flat[0]->value, literal(c10::IValue()).slot, scope, out);
  if (higher_order_name(name->name) == "call_torchbind") return lower_torchbind_call(node, 2, 1, place, scope, out);
  const auto operator_name = operator_name_of(name->name);
  const auto op = operator_name ? c10::Dispatcher::singleton().findSchema(*operator_name) : std::nullopt;
  if (!op) refuse(node, "wraps a function that this engine does not run", "export the model again without it");
  ExportedNode call;
  call.target = name->name;
  call.name = node.name;
  call.modules = node.modules;
  call.source = node.source;
  call.inputs.assign(node.inputs.begin() + 2, node.inputs.end());
  if (!node.outputs.empty()) call.outputs.assign(node.outputs.begin() + 1, node.outputs.end());
  lower_operator(call, *op, place, scope, out);
}

void ExportedLowering::lower_torchbind_call(const ExportedNode& node, std::size_t first, std::size_t first_output,
                                            const NodePlace& place, Scope& scope, Output& out) {
  const auto* object = first + 1 < node.inputs.size() ? node.inputs[first].argument.ref() : nullptr;
  const auto* method = object ? std::get_if<std::string>(&node.inputs[first + 1].argument.data) : nullptr;
  if (method == nullptr) fail(node, "names no object and method");
  const auto& class_name = scope.graph.values[object->value].class_name;
  const auto type = torch::getCustomClass(class_name);
  const auto* function = type ? type->findMethod(*method) : nullptr;
  if (function == nullptr) refuse(node, "calls " + class_name + "." + *method + ", which no library registers", "");
  const auto& schema = function->getSchema();
  Call call;
  call.inputs.push_back(input_at(slot_of(*object, scope)));
  for (auto i = first + 2; i < node.inputs.size(); ++i) {
    const auto at = i - first - 1;
    if (at >= schema.arguments().size()) fail(node, "gives too many arguments");
    call.inputs.push_back(input_of(node, schema.arguments()[at].name(), node.inputs[i].argument, schema.arguments()[at],
                                   place, scope, out));
  }
  for (auto i = call.inputs.size(); i < schema.arguments().size(); ++i) {
    if (!schema.arguments()[i].default_value()) fail(node, "gives too few arguments");
    call.inputs.push_back(literal(*schema.arguments()[i].default_value()));
  }
  // A method of C++ yields one value: a tuple where it returns several, None where it returns nothing.
  const auto results = define_outputs(node, scope, out, first_output);
  const bool several = schema.returns().size() == 1 && schema.returns()[0].type()->kind() == c10::TypeKind::TupleType;
  call.outputs = {several || results.empty() ? new_slot() : results[0]};
  call.output_types = {schema.returns().empty() ? c10::TypePtr(c10::NoneType::get()) : schema.returns()[0].type()};
  for (const auto& argument : schema.arguments()) call.names.push_back(argument.name());
  call.text = {"torchbind::" + demangle(class_name) + "." + *method, "", *method, "", ""};
  const auto whole = call.outputs[0];
  auto& instruction = emit(std::move(call), place, out, [function](torch::jit::Stack& stack) {
    const_cast<torch::jit::Function*>(function)->run(stack);
  });
  instruction.foreign = true;
  if (!several) return;
  auto& mark = emit_mark(InstructionKind::kTupleUnpack, "prim::TupleUnpack", place, out);
  mark.inputs = {whole};
  mark.input_dies = {false};
  mark.outputs = results;
  mark.output_unused.assign(results.size(), false);
}

}  // namespace tl::lt
