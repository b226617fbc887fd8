#include <ATen/core/ivalue_inl.h>
#include <ATen/core/jit_type.h>

#include <algorithm>

#include "core/error.h"
#include "executor/provenance.h"
#include "exported/constants.h"
#include "exported/lowering.h"
#include "exported/python_functions.h"
#include "ops/op_semantics.h"
#include "session.h"

// Calls of operators: arguments bound by the schema, outputs by position.
namespace tl::lt {
namespace {

bool is_symbolic(const ExportedGraphValue& value) {
  using Kind = ExportedGraphValue::Kind;
  return value.kind == Kind::kSymInt || value.kind == Kind::kSymFloat || value.kind == Kind::kSymBool;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) text += (i ? "," : "") + names[i];
  return text;
}

}  // namespace

std::vector<const ExportedArgument*> ExportedLowering::bind(const ExportedNode& node,
                                                            const c10::FunctionSchema& schema) const {
  const auto& arguments = schema.arguments();
  std::vector<const ExportedArgument*> bound(arguments.size(), nullptr);
  std::size_t position = 0;
  for (const auto& input : node.inputs) {
    auto at = arguments.size();
    if (input.name.empty()) {
      at = position;
    } else {
      const auto found = std::ranges::find(arguments, input.name, &c10::Argument::name);
      at = static_cast<std::size_t>(found - arguments.begin());
    }
    ++position;
    if (at >= arguments.size()) {
      const auto overload = schema.overload_name().empty() ? "default" : schema.overload_name();
      refuse(node,
             (input.name.empty() ? "gives argument " + std::to_string(position)
                                 : "gives the argument '" + input.name + "'") +
                 ", which " + schema.name() + "." + overload + " does not have: torch " + source_.torch_version +
                 " wrote the file, this is " + engine_version(),
             "export the model again with the version of torch that runs it");
    }
    if (bound[at] != nullptr) fail(node, "gives the argument '" + arguments[at].name() + "' twice");
    bound[at] = &input.argument;
  }
  return bound;
}

ExportedLowering::Input ExportedLowering::converted(Input input, const ExportedGraphValue& value,
                                                    const c10::TypePtr& type, const NodePlace& place, Output& out) {
  using Kind = ExportedGraphValue::Kind;
  const auto kind = without_optional(*type).kind();
  const auto helper = [&](const char* name, const c10::TypePtr& to, std::function<void(torch::jit::Stack&)> run) {
    Call call;
    call.inputs = {input};
    call.outputs = {new_slot()};
    call.output_types = {to};
    call.text = {name, "", std::string(func_name_of(name)), "", ""};
    const auto slot = call.outputs[0];
    emit(std::move(call), place, out, std::move(run));
    return slot;
  };
  if (is_symbolic(value) && kind == c10::TypeKind::TensorType) {
    const auto slot = helper("prim::NumToTensor", c10::TensorType::get(), [](torch::jit::Stack& stack) {
      auto number = std::move(stack.back());
      stack.back() = wrapped_number(number);
    });
    return {slot, {}, true};
  }
  if (value.kind == Kind::kSymInt && kind == c10::TypeKind::FloatType) {
    const auto slot = helper("aten::Float", c10::FloatType::get(), [](torch::jit::Stack& stack) {
      if (stack.back().isInt()) stack.back() = static_cast<double>(stack.back().toInt());
    });
    return {slot, {}, false};
  }
  return input;
}

ExportedLowering::Input ExportedLowering::list_input(const ExportedNode& node, const std::string& name,
                                                     const ExportedList& list, const c10::ListType& type,
                                                     const NodePlace& place, Scope& scope, Output& out) {
  const auto element = type.getElementType();
  std::vector<Input> inputs;
  for (const auto& item : list.items)
    inputs.push_back(input_of(node, name, item, c10::Argument(name, element), place, scope, out));
  return list_of(inputs, element, place, out);
}

ExportedLowering::Input ExportedLowering::list_of(const std::vector<Input>& inputs, const c10::TypePtr& element,
                                                  const NodePlace& place, Output& out) {
  Instruction instruction;
  instruction.kind = InstructionKind::kListConstruct;
  instruction.type = c10::ListType::create(element);
  instruction.holds_tensors = may_hold_tensor(*element);
  instruction.host_list = !instruction.holds_tensors;
  std::string text;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto& input = inputs[i];
    instruction.inputs.push_back(input.slot);
    text += (i ? ", " : "") + (input.text.empty() ? (input.tensor ? "%" : "$") + std::to_string(i) : input.text);
  }
  instruction.input_dies.assign(instruction.inputs.size(), false);
  instruction.outputs = {new_slot()};
  instruction.output_unused = {false};
  instruction.call_site = place.call_site;
  instruction.frames = place.frames;
  append_instruction(tables_, instruction, {"prim::ListConstruct", "", "listconstruct", text, ""}, nullptr);
  tables_.instructions.flags.mut(instruction.row) |= kInstrControl;
  const Input result{instruction.outputs[0], {}, instruction.holds_tensors};
  out.block.instructions.push_back(std::move(instruction));
  return result;
}

ExportedLowering::Input ExportedLowering::input_of(const ExportedNode& node, const std::string& name,
                                                   const ExportedArgument& argument,
                                                   const c10::Argument& schema_argument, const NodePlace& place,
                                                   Scope& scope, Output& out) {
  const auto& type = schema_argument.type();
  const auto& inner = without_optional(*type);
  const auto misfit = [&](const std::string& what) {
    fail(node, "gives " + what + " for the argument '" + name + "' of type " + type->repr_str());
  };
  if (const auto* ref = argument.ref()) {
    const auto& value = scope.graph.values[ref->value];
    const bool takes_tensor = may_hold_tensor(inner) || inner.kind() == c10::TypeKind::AnyType;
    const bool tensor = value.kind == ExportedGraphValue::Kind::kTensor;
    if (tensor && !takes_tensor) misfit("the tensor " + value.name);
    if (is_symbolic(value) && inner.kind() == c10::TypeKind::ListType) misfit("the number " + value.name);
    if (value.kind == ExportedGraphValue::Kind::kToken) return literal(c10::IValue());
    return converted({slot_of(*ref, scope), {}, tensor}, value, type, place, out);
  }
  if (argument.graph() != nullptr) misfit("a graph");
  if (const auto* list = argument.list(); list && has_ref(argument)) {
    if (inner.kind() != c10::TypeKind::ListType) misfit("a list");
    return list_input(node, name, *list, inner.expectRef<c10::ListType>(), place, scope, out);
  }
  const auto constant = constant_of(argument, type, device_, schema_argument.N());
  if (!constant) misfit("a value that does not fit");
  return literal(*constant);
}

void ExportedLowering::lower_operator(const ExportedNode& node, const c10::OperatorHandle& op, const NodePlace& place,
                                      Scope& scope, Output& out) {
  const auto& schema = op.schema();
  const auto bound = bind(node, schema);
  std::vector<Input> inputs;
  for (std::size_t i = 0; i < bound.size(); ++i) {
    const auto& argument = schema.arguments()[i];
    if (bound[i] != nullptr) {
      inputs.push_back(input_of(node, argument.name(), *bound[i], argument, place, scope, out));
    } else if (argument.default_value()) {
      inputs.push_back(literal(*argument.default_value()));
    } else {
      fail(node, "gives no value for the argument '" + argument.name() + "'");
    }
  }
  // One entry an output; a file may also hand all outputs of a call over as one list.
  auto outputs = node.outputs;
  const auto& returns = schema.returns();
  if (outputs.size() == 1 && returns.size() > 1 && outputs[0].list() != nullptr) {
    const auto items = outputs[0].list()->items;
    outputs.assign(items.begin(), items.end());
  }
  const bool nothing = outputs.empty() || (outputs.size() == 1 && outputs[0].is_none());
  if (outputs.size() != returns.size() && !(nothing && returns.empty())) {
    fail(node,
         "lists " + std::to_string(outputs.size()) + " outputs, its schema has " + std::to_string(returns.size()));
  }
  std::vector<std::uint32_t> slots;
  std::vector<std::string> names;  // one a tensor or number that the call yields; None is none
  std::vector<std::pair<std::uint32_t, const ExportedList*>> unpacked;
  for (std::size_t i = 0; i < returns.size(); ++i) {
    const auto& type = without_optional(*returns[i].type());
    slots.push_back(new_slot());
    if (const auto* ref = outputs[i].ref()) {
      const auto& value = scope.graph.values[ref->value];
      if (type.kind() == c10::TypeKind::ListType) {
        fail(node, "lists one value for its output of type " + type.repr_str());
      }
      if (is_symbolic(value) != is_host_type(type)) {
        fail(node, "calls its output " + value.name + " a " + (is_symbolic(value) ? "number" : "tensor") +
                       ", its schema says " + type.repr_str());
      }
      define_as(ref->value, slots.back(), scope, out);
      names.push_back(value.name);
    } else if (const auto* list = outputs[i].list()) {
      if (type.kind() != c10::TypeKind::ListType)
        fail(node, "lists several values for its output of type " + type.repr_str());
      unpacked.emplace_back(slots.back(), list);
      for (const auto& item : list->items)
        names.push_back(item.ref() ? scope.graph.values[item.ref()->value].name : "");
    }
  }
  emit_operator(op, std::move(inputs), slots, place, out, joined(names));
  for (const auto& [slot, list] : unpacked) {
    auto& mark = emit_mark(InstructionKind::kListUnpack, "prim::ListUnpack", place, out);
    mark.inputs = {slot};
    mark.input_dies = {false};
    for (const auto& item : list->items) {
      mark.outputs.push_back(item.ref() ? define(item.ref()->value, scope, out) : new_slot());
    }
    mark.output_unused.assign(mark.outputs.size(), false);
  }
}

void ExportedLowering::lower_python(const ExportedNode& node, const NodePlace& place, Scope& scope, Output& out) {
  const auto* function = python_function(node.target);
  const auto count = node.inputs.size();
  if (count < function->min_arguments || count > function->max_arguments) {
    fail(node, "gives " + std::to_string(count) + " arguments");
  }
  Call call;
  for (const auto& input : node.inputs) {
    const bool list = input.argument.list() != nullptr;
    const auto type = list ? c10::TypePtr(c10::ListType::create(c10::NumberType::get())) : c10::NumberType::get();
    call.inputs.push_back(input_of(node, input.name.empty() ? "operand" : input.name, input.argument,
                                   c10::Argument("operand", type), place, scope, out));
  }
  const auto* ref = node.outputs.size() == 1 ? node.outputs[0].ref() : nullptr;
  if (ref == nullptr || !is_symbolic(scope.graph.values[ref->value])) fail(node, "yields something else than a number");
  call.outputs = {define(ref->value, scope, out)};
  call.output_types = {c10::NumberType::get()};
  const auto dot = node.target.rfind('.');
  call.text = {node.target.substr(0, dot) + "::" + node.target.substr(dot + 1), "", function->short_name, "",
               scope.graph.values[ref->value].name};
  emit(std::move(call), place, out, [function, count](torch::jit::Stack& stack) {
    const std::vector<c10::IValue> arguments(stack.end() - static_cast<std::ptrdiff_t>(count), stack.end());
    stack.resize(stack.size() - count);
    stack.push_back(function->call(arguments));
  });
}

}  // namespace tl::lt
