#include "exported/lowering.h"

#include <ATen/core/ivalue_inl.h>
#include <ATen/core/jit_type.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>

#include "bridge/tensor_bridge.h"
#include "core/error.h"
#include "executor/provenance.h"
#include "exported/constants.h"
#include "exported/python_functions.h"
#include "ops/op_semantics.h"
#include "program/lifetimes.h"
#include "session.h"

namespace tl::lt {
namespace {

constexpr std::uint32_t kNoSlot = 0xffffffff;
constexpr std::string_view kOps = "torch.ops.";
constexpr std::string_view kHigherOrder = "torch.ops.higher_order.";
constexpr std::string_view kPredispatch = "torch._functorch.predispatch.";

void note_uses(const ExportedArgument& argument, std::size_t node, std::vector<std::size_t>& last_use) {
  if (const auto* ref = argument.ref()) last_use[ref->value] = node;
  if (const auto* list = argument.list()) {
    for (const auto& item : list->items) note_uses(item, node, last_use);
  }
  if (const auto* dict = argument.dict()) {
    for (const auto& item : dict->items) note_uses(item.second, node, last_use);
  }
}

/// Sets the call sites of instructions to those of their rows.
void take_call_sites(const StaticTables& tables, Block& block) {
  for (auto& instruction : block.instructions) {
    instruction.call_site = tables.instructions.call_site[instruction.row];
    for (auto& nested : instruction.blocks) take_call_sites(tables, nested);
  }
}

/// conv1d, conv2d, conv3d or their transposed forms: aten::convolution says it by its arguments only.
std::string convolution_name(const ExportedNode& node) {
  std::size_t rank = 2;
  bool transposed = false;
  for (const auto& input : node.inputs) {
    if (input.name == "stride" && input.argument.list() != nullptr) rank = input.argument.list()->items.size();
    if (const auto* value = std::get_if<bool>(&input.argument.data); value && input.name == "transposed")
      transposed = *value;
  }
  return (transposed ? "conv_transpose" : "conv") + std::to_string(rank) + "d";
}

}  // namespace

std::vector<std::size_t> last_uses(const ExportedGraph& graph) {
  std::vector<std::size_t> last_use(graph.values.size(), 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const auto& input : graph.nodes[i].inputs) note_uses(input.argument, i, last_use);
  }
  for (const auto& output : graph.outputs) note_uses(output, graph.nodes.size(), last_use);
  return last_use;
}

std::optional<c10::OperatorName> operator_name_of(std::string_view target) {
  if (target.starts_with(kHigherOrder)) return std::nullopt;
  if (target.starts_with(kOps)) target.remove_prefix(kOps.size());
  const auto first = target.find('.');
  const auto last = target.rfind('.');
  if (first == std::string_view::npos || last == first || target.starts_with("torch.") ||
      target.starts_with("_operator.")) {
    return std::nullopt;
  }
  const auto name =
      std::string(target.substr(0, first)) + "::" + std::string(target.substr(first + 1, last - first - 1));
  const auto overload = target.substr(last + 1);
  return c10::OperatorName(name, overload == "default" ? std::string() : std::string(overload));
}

std::string_view higher_order_name(std::string_view target) {
  return target.starts_with(kHigherOrder) ? target.substr(kHigherOrder.size()) : std::string_view();
}

std::string_view predispatch_name(std::string_view target) {
  return target.starts_with(kPredispatch) ? target.substr(kPredispatch.size()) : std::string_view();
}

ExportedLowering::ExportedLowering(const ExportedProgram& source, Program& program, StaticTables& tables,
                                   std::string file, c10::Device device)
    : source_(source),
      program_(program),
      tables_(tables),
      file_(std::move(file)),
      device_(device),
      attribution_(source, tables) {
  for (const auto& call : source.module_calls) {
    if (call.has_signature) signatures_.emplace(call.fqn, &call);
  }
}

void ExportedLowering::fail(const ExportedNode& node, const std::string& what) const {
  throw Error(
      ErrorCode::kFileDamaged,
      file_ + ": node " + (node.name.empty() ? node.target : node.name + " (" + node.target + ")") + " " + what);
}

void ExportedLowering::refuse(const ExportedNode& node, const std::string& what, const std::string& hint) const {
  throw Error(ErrorCode::kUnsupportedProgram,
              file_ + ": node " + (node.name.empty() ? node.target : node.name + " (" + node.target + ")") + " " + what,
              hint);
}

ExportedLowering::Scope ExportedLowering::root_scope() const {
  Scope scope{source_.graph, std::vector<std::uint32_t>(source_.graph.values.size(), kNoSlot), last_uses(source_.graph),
              std::vector<bool>(source_.graph.values.size(), false)};
  std::vector<std::size_t> read_at(source_.graph.values.size(), 0);
  std::vector<bool> read_by_nodes(source_.graph.values.size(), false);
  for (const auto& node : source_.graph.nodes) {
    for (const auto& input : node.inputs) note_uses(input.argument, 1, read_at);
  }
  for (std::size_t i = 0; i < read_at.size(); ++i) read_by_nodes[i] = read_at[i] != 0;
  // Values that the file lists only to be copied back into state.
  using Kind = ExportedOutputSpec::Kind;
  for (const auto& spec : source_.output_specs) {
    const auto* ref = spec.argument.ref();
    if (ref == nullptr || spec.kind == Kind::kUserOutput || spec.kind == Kind::kLoss) continue;
    scope.only_mutates[ref->value] = !read_by_nodes[ref->value];
  }
  for (const auto& spec : source_.output_specs) {
    const auto* ref = spec.argument.ref();
    if (ref != nullptr && (spec.kind == Kind::kUserOutput || spec.kind == Kind::kLoss)) {
      scope.only_mutates[ref->value] = false;
    }
  }
  return scope;
}

void ExportedLowering::lower() {
  program_.functions.push_back(std::make_unique<Function>());
  function_ = program_.functions.back().get();
  function_->name = "forward";
  function_->qualified_name = "forward";
  program_.entry = function_;
  auto scope = root_scope();
  NodePlace root;
  root.levels.push_back({"", 0, 0, -1});
  Output out{function_->body, &root, 0};
  for (const auto& input : source_.graph.inputs) {
    const auto slot = new_slot();
    function_->body.params.push_back(slot);
    if (const auto* ref = input.ref()) scope.slots[ref->value] = slot;
  }
  lower_graph(scope, out, "");
  finish_outputs(scope, out);
  attribution_.split_lines();
  take_call_sites(tables_, function_->body);
  mark_last_uses(function_->body);
  function_->num_slots = next_slot_;
  std::vector<bool> constant(next_slot_, false);
  for (const auto& [slot, value] : function_->constants) constant[slot] = true;
  for (std::uint32_t slot = 0; slot < next_slot_; ++slot) {
    if (!constant[slot]) function_->variable_slots.push_back(slot);
  }
}

void ExportedLowering::lower_graph(Scope& scope, Output& out, const std::string& where) {
  const auto outer_name = std::exchange(graph_name_, where);
  const auto* outer_node = node_;
  for (std::size_t i = 0; i < scope.graph.nodes.size(); ++i) lower_node(scope.graph.nodes[i], i, scope, out);
  node_ = outer_node;
  leave_calls(out.base_depth, scope.graph.nodes.size(), scope, out);
  graph_name_ = outer_name;
}

void ExportedLowering::lower_node(const ExportedNode& node, std::size_t index, Scope& scope, Output& out) {
  node_ = &node;
  auto place = attribution_.place(node, *out.base);
  std::vector<std::int32_t> around;
  for (const auto& subgraph : subgraphs_) {
    if (subgraph.levels == place.levels.size()) around.push_back(subgraph.site);
  }
  place.frames.insert(place.frames.begin(), around.begin(), around.end());
  move_to(place, index, scope, out);
  if (const auto name = higher_order_name(node.target); !name.empty()) {
    lower_higher_order(node, name, place, scope, out);
  } else if (const auto function = predispatch_name(node.target); !function.empty()) {
    lower_predispatch(node, function, place, scope, out);
  } else if (python_function(node.target) != nullptr) {
    lower_python(node, place, scope, out);
  } else {
    const auto name_of = operator_name_of(node.target);
    const auto op = name_of ? c10::Dispatcher::singleton().findSchema(*name_of) : std::nullopt;
    if (!op && name_of) refuse_overload(node, *name_of);
    if (!op) refuse(node, "calls a function that this engine does not run", "export the model again without it");
    lower_operator(node, *op, place, scope, out);
  }
}

void ExportedLowering::refuse_overload(const ExportedNode& node, const c10::OperatorName& name) const {
  std::string overloads;
  for (const auto& known : c10::Dispatcher::singleton().getAllOpNames()) {
    if (known.name != name.name) continue;
    overloads += (overloads.empty() ? "" : ", ") + (known.overload_name.empty() ? "default" : known.overload_name);
  }
  refuse(node,
         "calls an overload of " + name.name + " that is not there: torch " + source_.torch_version +
             " wrote the file, this is " + engine_version() + (overloads.empty() ? "" : ", which has " + overloads),
         "export the model again with the version of torch that runs it");
}

// --- module calls

void ExportedLowering::move_to(const NodePlace& place, std::size_t index, Scope& scope, Output& out) {
  // Strict exports name a module by an object id, the same in each of its calls: there the place of the call tells.
  const auto same = [&](const ModuleLevel& level, const OpenCall& open) {
    if (level.key != open.key || level.module != open.module) return false;
    const bool object_id =
        !level.key.empty() && std::ranges::all_of(level.key, [](char c) { return c >= '0' && c <= '9'; });
    return !object_id || level.call_site == open.call_site;
  };
  std::size_t common = 0;
  while (common < open_.size() && common + 1 < place.levels.size() && same(place.levels[common + 1], open_[common])) {
    ++common;
  }
  if (common < out.base_depth) return;  // a subgraph's node that names other modules than the operator around it
  leave_calls(common, index, scope, out);
  for (auto level = common + 1; level < place.levels.size(); ++level) {
    const auto& module = place.levels[level];
    open_.push_back({module.key, module.module, module.repetition, module.call_site, ++calls_, {}});
    NodePlace at;
    at.call_site = module.call_site;
    auto& mark = emit_mark(InstructionKind::kEnterModule, "torchlens::enter_module", at, out);
    mark.module_row = module.module;
  }
}

std::uint32_t ExportedLowering::stated_value(const OpenCall& call, const Scope& scope) const {
  if (&scope.graph != &source_.graph) return kNoSlot;
  const auto address = tables_.modules.address[static_cast<std::size_t>(call.module)];
  const auto found = signatures_.find(std::string(tables_.strings[address]) +
                                      (call.repetition > 0 ? "@" + std::to_string(call.repetition) : ""));
  if (found == signatures_.end()) return kNoSlot;
  for (const auto& output : found->second->outputs) {
    const auto* ref = output.ref();
    const bool tensor = ref && scope.graph.values[ref->value].kind == ExportedGraphValue::Kind::kTensor;
    if (tensor && scope.slots[ref->value] != kNoSlot) return ref->value;
  }
  return kNoSlot;
}

std::uint32_t ExportedLowering::returned_value(const OpenCall& call, std::size_t index, const Scope& scope) const {
  if (const auto stated = stated_value(call, scope); stated != kNoSlot) return stated;
  const auto& values = scope.graph.values;
  const auto producer = [&](std::uint32_t value) { return values[value].producer; };
  // What is read after the call, copies to buffers aside: its outputs, of which the one produced first, tensors before
  // numbers. Where nothing is, the first output of the newest node.
  auto returned = kNoSlot;
  const auto rank = [&](std::uint32_t value) {
    return std::pair(values[value].kind != ExportedGraphValue::Kind::kTensor, producer(value));
  };
  for (const auto value : call.defined) {
    if (scope.last_use[value] < index || scope.only_mutates[value]) continue;
    if (returned == kNoSlot || rank(value) < rank(returned)) returned = value;
  }
  if (returned != kNoSlot) return returned;
  for (const auto value : call.defined) {
    if (returned == kNoSlot || producer(value) > producer(returned)) returned = value;
  }
  return returned;
}

void ExportedLowering::leave_calls(std::size_t depth, std::size_t index, Scope& scope, Output& out) {
  while (open_.size() > depth) {
    auto call = std::move(open_.back());
    open_.pop_back();
    NodePlace at;
    at.call_site = call.call_site;
    auto& mark = emit_mark(InstructionKind::kLeaveModule, "torchlens::leave_module", at, out);
    mark.module_row = call.module;
    const auto value = returned_value(call, index, scope);
    if (value != kNoSlot) mark.inputs.push_back(scope.slots[value]);
    mark.input_dies.assign(mark.inputs.size(), false);
    if (open_.size() <= out.base_depth) continue;
    auto& around = open_.back().defined;
    around.insert(around.end(), call.defined.begin(), call.defined.end());
  }
}

// --- pieces

std::uint32_t ExportedLowering::constant_slot(c10::IValue value) {
  const auto slot = new_slot();
  function_->constants.emplace_back(slot, std::move(value));
  return slot;
}

ExportedLowering::Input ExportedLowering::literal(c10::IValue value) {
  auto text = literal_of(value);
  return {constant_slot(std::move(value)), std::move(text), false};
}

std::uint32_t ExportedLowering::define(std::uint32_t value, Scope& scope, Output& out) {
  const auto slot = new_slot();
  define_as(value, slot, scope, out);
  return slot;
}

void ExportedLowering::define_as(std::uint32_t value, std::uint32_t slot, Scope& scope, Output& out) {
  scope.slots[value] = slot;
  if (open_.size() > out.base_depth) open_.back().defined.push_back(value);
}

std::uint32_t ExportedLowering::slot_of(const ExportedRef& ref, const Scope& scope) const {
  if (scope.slots[ref.value] == kNoSlot) {  // an object that the graph holds as a literal
    throw Error(
        ErrorCode::kUnsupportedProgram,
        file_ + ": the graph uses the object " + scope.graph.values[ref.value].name + ", which is none of its inputs",
        "export the model with the object as an attribute of the module");
  }
  return scope.slots[ref.value];
}

Instruction& ExportedLowering::emit(Call call, const NodePlace& place, Output& out,
                                    std::function<void(torch::jit::Stack&)> operation) {
  Instruction instruction;
  instruction.operation = std::move(operation);
  instruction.frames = place.frames;
  instruction.call_site = place.call_site;
  if (call.schema != nullptr) {
    const auto handle = c10::Dispatcher::singleton().findSchema(call.schema->operator_name());
    instruction.dispatched = handle.has_value();
    set_operator_facts(instruction, *call.schema);
    if (handle) {
      instruction.random = handle->hasTag(at::Tag::nondeterministic_seeded);
      instruction.operation = [op = *handle](torch::jit::Stack& stack) { op.callBoxed(stack); };
    }
  }
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const auto& input = call.inputs[i];
    instruction.inputs.push_back(input.slot);
    const auto position = static_cast<std::uint16_t>(i);
    if (input.tensor)
      instruction.tensor_inputs.push_back(position);
    else if (input.text.empty())
      instruction.host_inputs.push_back(position);
    call.text.arguments += i ? ", " : "";
    if (i < call.names.size()) call.text.arguments += call.names[i] + "=";
    call.text.arguments += !input.text.empty() ? input.text : (input.tensor ? "%" : "$") + std::to_string(i);
  }
  instruction.input_dies.assign(instruction.inputs.size(), false);
  instruction.outputs = call.outputs;
  instruction.output_unused.assign(call.outputs.size(), false);
  for (const auto& type : call.output_types) {
    const auto emitted = emit_for(*type, false);
    instruction.emits.push_back(emitted);
    instruction.any_tensor_out |= emitted == Emit::kTensor || emitted == Emit::kTensorList;
    instruction.any_host_out |= emitted == Emit::kHost;
  }
  append_instruction(tables_, instruction, call.text, call.schema);
  if (node_ != nullptr) {
    const auto module_call = open_.empty() ? 0 : open_.back().number;
    attribution_.note_call(*node_, place, call.text.func_name, module_call, instruction.row);
  }
  out.block.instructions.push_back(std::move(instruction));
  return out.block.instructions.back();
}

Instruction& ExportedLowering::emit_operator(const c10::OperatorHandle& op, std::vector<Input> inputs,
                                             std::vector<std::uint32_t> outputs, const NodePlace& place, Output& out,
                                             std::string value_names) {
  const auto& schema = op.schema();
  Call call;
  call.inputs = std::move(inputs);
  call.outputs = std::move(outputs);
  for (const auto& result : schema.returns()) call.output_types.push_back(result.type());
  for (const auto& argument : schema.arguments()) call.names.push_back(argument.name());
  call.text.op_name = schema.name();
  call.text.overload = schema.overload_name();
  call.text.func_name = schema.name() == "aten::convolution" && node_ ? convolution_name(*node_)
                                                                      : std::string(func_name_of(schema.name()));
  call.text.value_names = std::move(value_names);
  call.schema = &schema;
  return emit(std::move(call), place, out);
}

std::uint32_t ExportedLowering::emit_aten(const char* name, const char* overload, std::vector<Input> inputs,
                                          const NodePlace& place, Output& out) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  const auto& arguments = op.schema().arguments();
  for (auto i = inputs.size(); i < arguments.size(); ++i) {
    TL_CHECK(arguments[i].default_value().has_value(), "the lowering gives every argument without a default");
    inputs.push_back(literal(*arguments[i].default_value()));
  }
  const auto slot = new_slot();
  emit_operator(op, std::move(inputs), {slot}, place, out);
  return slot;
}

Instruction& ExportedLowering::emit_mark(InstructionKind kind, const char* name, const NodePlace& place, Output& out) {
  Instruction instruction;
  instruction.kind = kind;
  instruction.call_site = place.call_site;
  instruction.frames = place.frames;
  const auto qualified = std::string(name);
  append_instruction(tables_, instruction, {qualified, "", std::string(func_name_of(qualified)), "", ""}, nullptr);
  tables_.instructions.flags.mut(instruction.row) |= kInstrControl;
  out.block.instructions.push_back(std::move(instruction));
  return out.block.instructions.back();
}

std::uint32_t ExportedLowering::to_bool(std::uint32_t slot, const NodePlace& place, Output& out) {
  static const auto found = [] {
    for (const auto& op : torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString("aten::Bool"))) {
      if (op->schema().overload_name() == "Tensor") return op;
    }
    return std::shared_ptr<torch::jit::Operator>();
  }();
  TL_CHECK(found != nullptr, "LibTorch has aten::Bool.Tensor");
  Call call;
  call.inputs = {input_at(slot)};
  call.outputs = {new_slot()};
  call.output_types = {c10::BoolType::get()};
  call.text = {"aten::Bool", "Tensor", "bool", "", ""};
  const auto result = call.outputs[0];
  emit(std::move(call), place, out, found->getOperation());
  return result;
}

// --- outputs

void ExportedLowering::finish_outputs(Scope& scope, Output& out) {
  using Kind = ExportedOutputSpec::Kind;
  node_ = nullptr;
  NodePlace end = *out.base;
  end.call_site = attribution_.call_sites().row("", 0, -1, -1, "forward");
  const auto target_slot = [&](const ExportedOutputSpec& spec) {
    for (std::size_t i = 0; i < source_.input_specs.size(); ++i) {
      const auto& input = source_.input_specs[i];
      const auto* ref = input.argument.ref();
      const bool user = spec.kind == Kind::kUserInputMutation && input.kind == ExportedInputSpec::Kind::kUserInput &&
                        ref != nullptr && source_.graph.values[ref->value].name == spec.target;
      const bool state = spec.kind != Kind::kUserInputMutation && input.kind != ExportedInputSpec::Kind::kUserInput &&
                         input.target == spec.target;
      if (user || state) return function_->body.params[i];
    }
    throw Error(ErrorCode::kFileDamaged,
                file_ + ": an output is to be written to '" + spec.target + "', which is no input of the graph");
  };
  for (const auto& spec : source_.output_specs) {
    if (spec.kind != Kind::kBufferMutation && spec.kind != Kind::kUserInputMutation &&
        spec.kind != Kind::kParameterMutation) {
      continue;
    }
    const auto* ref = spec.argument.ref();
    if (ref == nullptr) continue;
    const auto from = slot_of(*ref, scope);
    const auto to = target_slot(spec);
    if (from != to) emit_aten("aten::copy_", "", {input_at(to), input_at(from)}, end, out);
  }
  for (const auto& spec : source_.output_specs) {
    if (spec.kind != Kind::kUserOutput && spec.kind != Kind::kLoss) continue;
    if (const auto* ref = spec.argument.ref()) {
      function_->body.outputs.push_back(slot_of(*ref, scope));
      continue;
    }
    const auto constant = constant_of(spec.argument, c10::AnyType::get(), device_);
    if (!constant) throw Error(ErrorCode::kUnsupportedProgram, file_ + ": an output is no value that can be returned");
    function_->body.outputs.push_back(constant_slot(*constant));
  }
}

}  // namespace tl::lt
