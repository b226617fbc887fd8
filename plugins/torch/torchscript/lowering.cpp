#include "torchscript/lowering.h"

#include <ATen/core/class_type.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "bridge/tensor_bridge.h"
#include "core/error.h"
#include "executor/provenance.h"
#include "ops/op_semantics.h"
#include "program/operator_facts.h"
#include "torchscript/source_frames.h"

namespace tl::lt {

using torch::jit::Node;
using torch::jit::Value;
namespace prim = c10::prim;
namespace attr = c10::attr;

/// Slots and facts of the values of one function.
struct Lowering::Scope {
  Function& function;
  std::string name;
  std::unordered_map<const Value*, std::uint32_t> slots;
  std::unordered_map<const Value*, std::string> constant_text;  ///< values that are constant in the program

  std::uint32_t slot(const Value* value) {
    return slots.emplace(value, static_cast<std::uint32_t>(slots.size())).first->second;
  }
  bool constant(const Value* value) const { return constant_text.contains(value); }
};

namespace {

/// True for operations that move values in and out of containers: generic over an element type, or of the JIT registry
/// alone with a container first.
bool is_container_operation(const c10::FunctionSchema& schema, bool dispatched) {
  if (dispatched) return false;
  if (schema.returns().size() == 1 && schema.returns()[0].type()->kind() == c10::TypeKind::TensorType) {
    return false;  // aten::tensor, aten::as_tensor: generic over what they read, but they make a tensor
  }
  for (const auto& argument : schema.arguments()) {
    if (argument.type()->hasFreeVariables() || argument.type()->kind() == c10::TypeKind::VarType) return true;
  }
  if (schema.arguments().empty()) return false;
  const auto kind = schema.arguments()[0].type()->kind();
  return kind == c10::TypeKind::ListType || kind == c10::TypeKind::DictType || kind == c10::TypeKind::TupleType;
}

ContainerRule rule_for(const c10::FunctionSchema& schema) {
  struct Row {
    std::string_view name;
    ContainerRule list;
    ContainerRule dict;
  };
  using Rule = ContainerRule;
  static constexpr Row kRules[] = {
      {"aten::append", Rule::kAppend, Rule::kByIdentity},
      {"aten::__getitem__", Rule::kGetItem, Rule::kDictGet},
      {"aten::_set_item", Rule::kSetItem, Rule::kDictSet},
      {"aten::pop", Rule::kPop, Rule::kDictPop},
      {"aten::insert", Rule::kInsert, Rule::kByIdentity},
      {"aten::extend", Rule::kExtend, Rule::kByIdentity},
      {"aten::clear", Rule::kClear, Rule::kClear},
      {"aten::reverse", Rule::kReverse, Rule::kByIdentity},
      {"aten::Delete", Rule::kDelete, Rule::kDictPop},
      {"aten::list", Rule::kCopy, Rule::kByIdentity},
      {"aten::copy", Rule::kCopy, Rule::kDictCopy},
      {"aten::slice", Rule::kSlice, Rule::kByIdentity},
      {"aten::add", Rule::kConcat, Rule::kByIdentity},
      {"aten::add_", Rule::kExtend, Rule::kByIdentity},
      {"aten::get", Rule::kByIdentity, Rule::kDictGet},
      {"aten::_unwrap_optional", Rule::kPass, Rule::kPass},
      {"aten::mul", Rule::kRepeat, Rule::kByIdentity},
      {"aten::values", Rule::kByIdentity, Rule::kDictValues},
      {"aten::items", Rule::kByIdentity, Rule::kDictItems},
      {"aten::setdefault", Rule::kByIdentity, Rule::kDictSetDefault},
      {"aten::update", Rule::kByIdentity, Rule::kDictUpdate},
      {"aten::dict", Rule::kByIdentity, Rule::kDictCopy},
      {"prim::unchecked_unwrap_optional", Rule::kPass, Rule::kPass},
  };
  const auto row = std::ranges::find(kRules, schema.name(), &Row::name);
  if (row == std::end(kRules) || schema.arguments().empty()) return Rule::kByIdentity;
  if (row->list == Rule::kPass) return Rule::kPass;
  switch (schema.arguments()[0].type()->kind()) {
    case c10::TypeKind::ListType:
      return row->list;
    case c10::TypeKind::DictType:
      return row->dict;
    default:
      return Rule::kByIdentity;
  }
}

std::size_t list_length(const Value* value) {
  const auto* node = value->node();
  if (node->kind() == prim::ListConstruct) return node->inputs().size();
  const auto constant = torch::jit::toIValue(value);
  return constant && constant->isList() ? constant->toListRef().size() : 0;
}

/// conv1d, conv2d, conv3d or their transposed forms: aten::_convolution says it by its arguments only.
std::string convolution_name(const Node& node) {
  const auto rank = list_length(node.input(3));
  const auto transposed = torch::jit::toIValue(node.input(6));
  const bool is_transposed = transposed && transposed->isBool() && transposed->toBool();
  return (is_transposed ? "conv_transpose" : "conv") + std::to_string(rank == 0 ? 2 : rank) + "d";
}

/// Names that the source gives the outputs. Serialised code numbers what has none (`_3`), and tells equal names apart
/// by a number behind (`y0` for a second `y`), which stays: it cannot be told from a name of the user's.
std::string source_names(const Node& node) {
  std::string names;
  for (const auto* output : node.outputs()) {
    if (!output->hasDebugName()) continue;
    const auto name = output->debugNameBase();
    if (name.empty() || name.front() == '_') continue;
    names += (names.empty() ? "" : ",") + name;
  }
  return names;
}

/// `forward`; `forward1` … in traces, where each further call of a module has a method of its own; `forward__0` … in
/// scripts, where an overloaded forward (RNN, LSTM, GRU) has a method for each overload.
bool is_forward(const std::string& method) {
  if (!method.starts_with("forward")) return false;
  const auto number = method.substr(method.starts_with("forward__") ? 9 : 7);
  return std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

Function* Lowering::lower(const torch::jit::Function& function) {
  if (const auto found = lowered_.find(&function); found != lowered_.end()) return found->second;
  program_.functions.push_back(std::make_unique<Function>());
  auto* lowered = program_.functions.back().get();
  lowered_.emplace(&function, lowered);
  lowered->name = function.name();
  lowered->qualified_name = function.qualname().qualifiedName();
  for (const auto& argument : function.getSchema().arguments()) lowered->argument_names.push_back(argument.name());
  lower_graph(*torch::jit::toGraphFunction(const_cast<torch::jit::Function&>(function)).graph(), *lowered,
              lowered->name);
  return lowered;
}

void Lowering::lower_graph(const torch::jit::Graph& graph, Function& function, const std::string& name) {
  Scope scope{function, name, {}, {}};
  lower_block(*graph.block(), function.body, scope);
  function.num_slots = scope.slots.size();
  std::vector<bool> constant(function.num_slots, false);
  for (const auto& [slot, value] : function.constants) constant[slot] = true;
  for (std::uint32_t slot = 0; slot < function.num_slots; ++slot) {
    if (!constant[slot]) function.variable_slots.push_back(slot);
  }
}

void Lowering::lower_block(const torch::jit::Block& block, Block& out, Scope& scope) {
  for (const auto* value : block.inputs()) out.params.push_back(scope.slot(value));
  for (const auto* node : block.nodes()) lower_node(*node, out, scope);
  for (const auto* value : block.outputs()) out.outputs.push_back(scope.slot(value));
  mark_last_uses(block, out, scope);
}

void Lowering::lower_constant(const Node& node, Scope& scope) {
  const auto* output = node.output();
  const auto slot = scope.slot(output);
  auto value = torch::jit::toIValue(output).value_or(c10::IValue());
  // A file that was saved on another device runs on this one; what it makes there, it makes here.
  if (value.isDevice() && !value.toDevice().is_cpu() && !value.toDevice().is_meta()) value = device_;
  scope.function.constants.emplace_back(slot, value);
  scope.constant_text.emplace(output, literal_of(value));
  if (value.isTensor() && value.toTensor().defined()) {
    scope.function.constant_params.emplace_back(slot, constant_row(value.toTensor()));
  }
}

std::uint32_t Lowering::constant_row(const at::Tensor& tensor) {
  for (const auto& [known, row] : constants_) {
    if (known.is_same(tensor)) return row;
  }
  const auto row =
      append_param(tables_, tensor, "CONSTANTS.c" + std::to_string(constants_.size()), -1, ParamKind::kConstant);
  constants_.emplace_back(tensor, row);
  return row;
}

void Lowering::lower_node(const Node& node, Block& out, Scope& scope) {
  if (node.kind() == prim::Constant) {
    lower_constant(node, scope);
    return;
  }
  Instruction instruction;
  for (const auto* value : node.inputs()) instruction.inputs.push_back(scope.slot(value));
  for (const auto* value : node.outputs()) {
    instruction.outputs.push_back(scope.slot(value));
    instruction.output_unused.push_back(!value->hasUses());
  }
  instruction.input_dies.assign(instruction.inputs.size(), false);
  locate(node, instruction, scope.name);
  if (!lower_control(node, instruction, scope)) lower_operator(node, instruction, scope);
  out.instructions.push_back(std::move(instruction));
}

bool Lowering::lower_control(const Node& node, Instruction& instruction, Scope& scope) {
  using Kind = InstructionKind;
  const auto kind = node.kind();
  const auto output_type = node.outputs().size() == 1 ? node.output()->type() : c10::TypePtr();
  if (output_type) instruction.holds_tensors = may_hold_tensor(*output_type);
  if (kind == prim::GetAttr || kind == prim::SetAttr) {
    instruction.kind = kind == prim::GetAttr ? Kind::kGetAttr : Kind::kSetAttr;
    instruction.name = node.s(attr::name);
    const auto& type = node.input(0)->type()->expectRef<c10::ClassType>();
    instruction.attribute_slot = type.getAttributeSlot(instruction.name);
    instruction.holds_tensors = may_hold_tensor(*type.getAttribute(instruction.attribute_slot));
  } else if (kind == prim::CallMethod || kind == prim::CallFunction || kind == prim::fork) {
    lower_call(node, instruction, scope);
    return true;  // described there: a builtin method is an operator
  } else if (kind == prim::If || kind == prim::Loop) {
    instruction.kind = kind == prim::If ? Kind::kIf : Kind::kLoop;
    for (const auto* block : node.blocks()) lower_block(*block, instruction.blocks.emplace_back(), scope);
  } else if (kind == prim::ListConstruct) {
    instruction.kind = Kind::kListConstruct;
    instruction.type = output_type;
    const bool constant = std::ranges::all_of(node.inputs(), [&](const auto* value) { return scope.constant(value); });
    if (is_host_type(*output_type)) {
      instruction.host_list = !constant;
      if (constant) {
        std::string text = "[";
        for (const auto* value : node.inputs()) text += (text.size() > 1 ? ", " : "") + scope.constant_text.at(value);
        scope.constant_text.emplace(node.output(), text + "]");
      }
    }
  } else if (kind == prim::TupleConstruct) {
    instruction.kind = Kind::kTupleConstruct;
    instruction.type = output_type;
  } else if (kind == prim::DictConstruct) {
    instruction.kind = Kind::kDictConstruct;
    instruction.type = output_type;
  } else if (kind == prim::ListUnpack) {
    instruction.kind = Kind::kListUnpack;
  } else if (kind == prim::TupleUnpack) {
    instruction.kind = Kind::kTupleUnpack;
  } else if (kind == prim::TupleIndex) {
    instruction.kind = Kind::kTupleIndex;
  } else if (kind == prim::TupleSlice) {
    instruction.kind = Kind::kTupleSlice;
    instruction.ints = {node.i(attr::beg), node.i(attr::end)};
  } else if (kind == prim::ModuleContainerIndex) {
    instruction.kind = Kind::kModuleIndex;
  } else if (kind == prim::CreateObject) {
    instruction.kind = Kind::kCreateObject;
    instruction.type = output_type;
  } else if (kind == prim::isinstance) {
    instruction.kind = Kind::kIsInstance;
    instruction.types = node.tys(attr::types);
  } else if (kind == prim::unchecked_cast) {
    instruction.kind = Kind::kUncheckedCast;
    if (scope.constant(node.input(0)))
      scope.constant_text.emplace(node.output(), scope.constant_text.at(node.input(0)));
  } else if (kind == prim::Uninitialized) {
    instruction.kind = Kind::kUninitialized;
  } else if (kind == prim::RaiseException) {
    instruction.kind = Kind::kRaise;
  } else if (kind == c10::aten::wait) {
    instruction.kind = Kind::kWait;
  } else if (kind == c10::aten::warn) {
    instruction.kind = Kind::kWarn;
  } else if (kind == prim::Enter || kind == prim::Exit) {
    instruction.kind = kind == prim::Enter ? Kind::kEnter : Kind::kExit;
    if (const auto type = node.input(0)->type()->cast<c10::ClassType>()) {
      if (const auto* method = type->findMethod(kind == prim::Enter ? "__enter__" : "__exit__")) lower(*method);
    }
  } else {
    return false;
  }
  describe(node, instruction, scope, kind.toQualString(), "", nullptr);
  const bool else_block = instruction.kind == Kind::kIf && !instruction.blocks[1].instructions.empty();
  tables_.instructions.flags.mut(instruction.row) |= kInstrControl | (else_block ? kInstrElseBlock : 0u);
  return true;
}

void Lowering::lower_call(const Node& node, Instruction& instruction, Scope& scope) {
  using Kind = InstructionKind;
  if (node.kind() == prim::fork) {
    instruction.kind = Kind::kFork;
    program_.functions.push_back(std::make_unique<Function>());
    instruction.callee = program_.functions.back().get();
    instruction.callee->name = scope.name;
    lower_graph(*node.g(attr::Subgraph), *instruction.callee, scope.name);
  } else if (node.kind() == prim::CallFunction) {
    instruction.kind = Kind::kCallFunction;
    auto* function = node.input(0)->type()->expectRef<c10::FunctionType>().function();
    instruction.inputs.erase(instruction.inputs.begin());
    instruction.input_dies.pop_back();
    instruction.name = function->name();
    if (!function->isGraphFunction()) return lower_builtin_method(*function, node, instruction);
    instruction.callee = lower(*function);
  } else if (const auto type = node.input(0)->type()->cast<c10::ClassType>()) {
    instruction.kind = Kind::kCallMethod;
    instruction.name = node.s(attr::name);
    auto& method = type->getMethod(instruction.name);
    if (!method.isGraphFunction()) return lower_builtin_method(method, node, instruction);
    instruction.callee = lower(method);
    instruction.module_call = type->is_module() && is_forward(instruction.name);
  } else {
    instruction.kind = Kind::kCallInterface;
    instruction.name = node.s(attr::name);
    instruction.module_call = is_forward(instruction.name);
  }
  describe(node, instruction, scope, node.kind().toQualString(), instruction.name, nullptr);
  tables_.instructions.flags.mut(instruction.row) |= kInstrControl;
}

void Lowering::lower_builtin_method(const torch::jit::Function& method, const Node& node, Instruction& instruction) {
  // Methods of registered C++ classes (torchbind): opaque, so their outputs are Ops and unannounced writes are looked
  // for.
  instruction.kind = InstructionKind::kOperator;
  instruction.foreign = true;
  auto* callee = const_cast<torch::jit::Function*>(&method);
  instruction.operation = [callee](torch::jit::Stack& stack) { callee->run(stack); };
  const auto inputs = node.kind() == prim::CallFunction ? node.inputs().slice(1) : node.inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (may_hold_tensor(*inputs[i]->type())) instruction.tensor_inputs.push_back(static_cast<std::uint16_t>(i));
  }
  for (const auto* output : node.outputs()) {
    instruction.emits.push_back(emit_for(*output->type(), false));
    instruction.any_tensor_out |= may_hold_tensor(*output->type());
  }
  Scope none{*program_.functions.front(), "", {}, {}};
  describe(node, instruction, none, "torchbind::" + demangle(method.qualname().prefix()) + "." + method.name(), "",
           nullptr);
}

void Lowering::lower_operator(const Node& node, Instruction& instruction, Scope& scope) {
  const auto* op = node.maybeOperator();
  const std::string kind = node.kind().toQualString();
  if (op == nullptr) {
    throw Error(ErrorCode::kUnsupportedProgram,
                "the program holds '" + kind + "' at " + place_of(tables_, instruction.call_site) +
                    ", which this engine does not run",
                "export the model again without the transformation that put it there");
  }
  const auto& schema = op->schema();
  instruction.dispatched = op->isC10Op();
  instruction.vararg = op->hasOperation() && schema.is_vararg();
  instruction.operation = op->getOperation(&node);
  instruction.container = is_container_operation(schema, instruction.dispatched);
  if (instruction.container) instruction.container_rule = rule_for(schema);
  const auto tags = op->getTags();
  instruction.random =
      instruction.dispatched && std::ranges::find(tags, at::Tag::nondeterministic_seeded) != tags.end();
  set_operator_facts(instruction, schema);
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    const auto* value = node.input(i);
    const auto position = static_cast<std::uint16_t>(i);
    if (may_hold_tensor(*value->type()))
      instruction.tensor_inputs.push_back(position);
    else if (!scope.constant(value))
      instruction.host_inputs.push_back(position);
  }
  for (const auto* output : node.outputs()) {
    const auto emit = emit_for(*output->type(), instruction.container);
    instruction.emits.push_back(emit);
    instruction.any_tensor_out |= emit == Emit::kTensor || emit == Emit::kTensorList;
    instruction.any_host_out |= emit == Emit::kHost;
  }
  describe(node, instruction, scope, schema.name().empty() ? kind : schema.name(), schema.overload_name(), &schema);
}

void Lowering::describe(const Node& node, Instruction& instruction, Scope& scope, const std::string& op_name,
                        const std::string& overload, const c10::FunctionSchema* schema) {
  const auto func_name = op_name == "aten::_convolution" ? convolution_name(node) : std::string(func_name_of(op_name));
  std::string arguments;
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    const auto* value = node.input(i);
    if (i) arguments += ", ";
    if (schema && !schema->is_vararg() && i < schema->arguments().size())
      arguments += schema->arguments()[i].name() + "=";
    if (const auto found = scope.constant_text.find(value); found != scope.constant_text.end())
      arguments += found->second;
    else
      arguments += (may_hold_tensor(*value->type()) ? "%" : "$") + std::to_string(i);
  }
  append_instruction(tables_, instruction, {op_name, overload, func_name, arguments, source_names(node)}, schema);
}

void Lowering::locate(const Node& node, Instruction& instruction, const std::string& function_name) {
  auto range = node.sourceRange();
  if (const auto original = range.findSourceRangeThatGenerated()) {
    const auto text = original->source() ? original->source()->text_str().str() : std::string();
    if (const auto frames = parse_stack_frames(text); !frames.empty()) {
      // A trace: the text is the Python stack, innermost first, up to the module's own call.
      instruction.call_site = call_sites_.row(frames[0].file, frames[0].line, -1, -1, frames[0].function);
      for (std::size_t i = frames.size(); i-- > 1;) {
        instruction.frames.push_back(call_sites_.row(frames[i].file, frames[i].line, -1, -1, frames[i].function));
      }
      return;
    }
    range = *original;
  }
  if (const auto place = range.file_line_col()) {
    const auto& [file, line, column] = *place;
    instruction.call_site = call_sites_.row(file, static_cast<std::int64_t>(line), static_cast<std::int64_t>(column),
                                            static_cast<std::int64_t>(column + range.size()), function_name);
  } else {
    instruction.call_site = call_sites_.row("", 0, -1, -1, function_name);
  }
}

void Lowering::mark_last_uses(const torch::jit::Block& block, Block& out, Scope& scope) {
  // Position of every node of this block; a use inside a nested block counts for the node that holds the block.
  std::unordered_map<const Node*, std::size_t> position;
  std::size_t index = 0;
  for (const auto* node : block.nodes()) {
    if (node->kind() != prim::Constant) position.emplace(node, index++);
  }
  const auto holder = [&](const Node* node) -> const Node* {
    while (node && !position.contains(node)) {
      if (node == block.return_node()) return nullptr;
      const auto* owner = node->owningBlock();
      node = owner ? owner->owningNode() : nullptr;
    }
    return node;
  };
  const auto handle = [&](const Value* value) {
    if (scope.constant_text.contains(value) && value->node()->kind() == prim::Constant) return;
    const Node* last = nullptr;
    bool nested = false;
    for (const auto& use : value->uses()) {
      if (use.user == block.return_node()) return;
      const auto* at = holder(use.user);
      if (at == nullptr) return;
      if (last == nullptr || position.at(at) > position.at(last)) {
        last = at;
        nested = at != use.user;
      } else if (at == last) {
        nested |= at != use.user;
      }
    }
    if (last == nullptr) return;
    auto& instruction = out.instructions[position.at(last)];
    const auto slot = scope.slot(value);
    if (nested) {
      instruction.release.push_back(slot);
      return;
    }
    for (std::size_t i = instruction.inputs.size(); i-- > 0;) {
      if (instruction.inputs[i] == slot) {
        instruction.input_dies[i] = true;
        return;
      }
    }
  };
  for (const auto* value : block.inputs()) handle(value);
  for (const auto* node : block.nodes()) {
    for (const auto* value : node->outputs()) handle(value);
  }
  out.output_dies.assign(out.outputs.size(), false);
  for (std::size_t i = 0; i < out.outputs.size(); ++i) {
    const auto* value = block.outputs()[i];
    const bool local = value->node()->owningBlock() == &block && value->node()->kind() != prim::Constant;
    const bool again = std::find(out.outputs.begin() + static_cast<std::ptrdiff_t>(i) + 1, out.outputs.end(),
                                 out.outputs[i]) != out.outputs.end();
    out.output_dies[i] = local && !again;
  }
}

}  // namespace tl::lt
