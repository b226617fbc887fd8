#include "executor/executor.h"

#include <ATen/ATen.h>
#include <ATen/core/class_type.h>
#include <ATen/core/ivalue_inl.h>

#include <algorithm>
#include <cctype>

#include "bridge/tensor_bridge.h"
#include "core/error.h"
#include "core/log.h"

namespace tl::lt {

const Instruction* volatile Executor::process_current_ = nullptr;

/// A frame of a function, handed back to its cache however the call ends.
class Executor::FrameHolder {
 public:
  explicit FrameHolder(Function& function) : function_(function) {
    if (!function.free_frames.empty()) {
      frame_ = std::move(function.free_frames.back());
      function.free_frames.pop_back();
      return;
    }
    frame_ = std::make_unique<Frame>();
    frame_->values.resize(function.num_slots);
    frame_->prov.resize(function.num_slots);
    for (const auto& [slot, value] : function.constants) frame_->values[slot] = value;
    for (const auto& [slot, param] : function.constant_params) frame_->prov[slot] = Prov::param(param);
  }
  ~FrameHolder() {
    for (const auto slot : function_.variable_slots) frame_->values[slot] = c10::IValue();  // nothing outlives the call
    function_.free_frames.push_back(std::move(frame_));
  }
  FrameHolder(const FrameHolder&) = delete;
  FrameHolder& operator=(const FrameHolder&) = delete;
  Frame& operator*() { return *frame_; }

 private:
  Function& function_;
  std::unique_ptr<Frame> frame_;
};

c10::IValue Executor::run(const c10::IValue& self, std::vector<c10::IValue> arguments, std::uint32_t root_module) {
  const auto outer = recorder_.enter_module(root_module, -1);
  std::vector<Prov> provs;
  const auto& names = program_.entry->argument_names;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    provs.push_back(
        recorder_.record_input("input." + (i + 1 < names.size() ? names[i + 1] : std::to_string(i)), arguments[i]));
  }
  recorder_.halt_if_asked();
  for (auto* hook : program_.pre_hooks) {
    auto tuple = c10::ivalue::Tuple::create(arguments);
    const auto tuple_prov = recorder_.containers().make(provs);
    auto result = call(*hook, {self, tuple}, {Prov{}, tuple_prov});
    if (result.value.isNone()) continue;
    if (result.value.isTuple()) {
      arguments = result.value.toTupleRef().elements().vec();
      provs.clear();
      for (std::size_t i = 0; i < arguments.size(); ++i) {
        provs.push_back(recorder_.containers().item(result.prov, static_cast<std::int64_t>(i)));
      }
    } else {
      arguments = {result.value};
      provs = {result.prov};
    }
  }
  std::vector<c10::IValue> entry_arguments = {self};
  std::vector<Prov> entry_provs = {Prov{}};
  entry_arguments.insert(entry_arguments.end(), arguments.begin(), arguments.end());
  entry_provs.insert(entry_provs.end(), provs.begin(), provs.end());
  auto result = call(*program_.entry, std::move(entry_arguments), std::move(entry_provs));
  for (auto* hook : program_.hooks) {
    auto tuple = c10::ivalue::Tuple::create(arguments);
    auto hooked = call(*hook, {self, tuple, result.value}, {Prov{}, recorder_.containers().make(provs), result.prov});
    if (!hooked.value.isNone()) result = std::move(hooked);
  }
  recorder_.record_outputs(result.value, result.prov);
  recorder_.leave_module(outer, result.prov, &result.value);
  recorder_.halt_if_asked();
  set_current(nullptr);
  return result.value;
}

std::vector<c10::IValue> Executor::run_flat(std::vector<FlatInput> inputs, const std::vector<std::string>& roles,
                                            std::uint32_t root_module) {
  const auto outer = recorder_.enter_module(root_module, -1);
  std::vector<c10::IValue> values;
  std::vector<Prov> provs;
  for (auto& input : inputs) {
    provs.push_back(input.role.empty() ? input.prov : recorder_.record_input(input.role, input.value));
    values.push_back(std::move(input.value));
  }
  inputs.clear();
  recorder_.halt_if_asked();
  FrameHolder holder(*program_.entry);
  auto& frame = *holder;
  const auto& body = program_.entry->body;
  TL_CHECK(values.size() == body.params.size(), "a flat program gets one value a parameter");
  for (std::size_t i = 0; i < values.size(); ++i) {
    frame.values[body.params[i]] = std::move(values[i]);
    frame.prov[body.params[i]] = provs[i];
  }
  run_block(program_.entry->body, frame);
  std::vector<c10::IValue> outputs;
  TL_CHECK(roles.size() == body.outputs.size(), "every output of a flat program has a role");
  for (std::size_t i = 0; i < roles.size(); ++i) {
    const auto slot = body.outputs[i];
    recorder_.record_output(roles[i], frame.values[slot], frame.prov[slot]);
    outputs.push_back(frame.values[slot]);
  }
  recorder_.leave_module(outer, roles.empty() ? Prov{} : frame.prov[body.outputs[0]],
                         roles.empty() ? nullptr : &frame.values[body.outputs[0]]);
  recorder_.halt_if_asked();
  set_current(nullptr);
  return outputs;
}

Executor::Returned Executor::call(Function& function, std::vector<c10::IValue> arguments, std::vector<Prov> provs) {
  FrameHolder holder(function);
  auto& frame = *holder;
  const auto& params = function.body.params;
  TL_CHECK(arguments.size() == params.size(), "a call hands over as many values as the function takes");
  for (std::size_t i = 0; i < params.size(); ++i) {
    frame.values[params[i]] = std::move(arguments[i]);
    frame.prov[params[i]] = provs[i];
  }
  return run_function(function, frame);
}

Executor::Returned Executor::run_function(Function& function, Frame& frame) {
  run_block(function.body, frame);
  const auto& outputs = function.body.outputs;
  if (outputs.size() == 1) return {frame.values[outputs[0]], frame.prov[outputs[0]]};
  std::vector<c10::IValue> values;
  std::vector<Prov> items;
  for (const auto slot : outputs) {
    values.push_back(frame.values[slot]);
    items.push_back(frame.prov[slot]);
  }
  return {c10::ivalue::Tuple::create(std::move(values)), recorder_.containers().make(std::move(items))};
}

void Executor::run_block(Block& block, Frame& frame) {
  for (auto& instruction : block.instructions) {
    set_current(&instruction);
    if (instruction.kind == InstructionKind::kOperator && !instruction.container)
      run_operator(instruction, frame);
    else
      run_instruction(instruction, frame);
    for (const auto slot : instruction.release) frame.values[slot] = c10::IValue();
  }
}

void Executor::run_instruction(Instruction& instruction, Frame& frame) {
  switch (instruction.kind) {
    case InstructionKind::kOperator:
      run_container(instruction, frame);
      return;
    case InstructionKind::kGetAttr:
      run_get_attr(instruction, frame);
      return;
    case InstructionKind::kSetAttr:
      run_set_attr(instruction, frame);
      return;
    case InstructionKind::kCallMethod:
    case InstructionKind::kCallInterface:
    case InstructionKind::kCallFunction:
    case InstructionKind::kFork:
      run_call(instruction, frame);
      return;
    case InstructionKind::kIf:
      run_if(instruction, frame);
      return;
    case InstructionKind::kLoop:
      run_loop(instruction, frame);
      return;
    case InstructionKind::kListConstruct:
    case InstructionKind::kTupleConstruct:
    case InstructionKind::kDictConstruct:
      run_construct(instruction, frame);
      return;
    case InstructionKind::kListUnpack:
    case InstructionKind::kTupleUnpack:
    case InstructionKind::kTupleIndex:
    case InstructionKind::kTupleSlice:
    case InstructionKind::kModuleIndex:
      run_unpack(instruction, frame);
      return;
    case InstructionKind::kEnter:
      run_enter(instruction, frame);
      return;
    case InstructionKind::kExit:
      run_exit(instruction, frame);
      return;
    case InstructionKind::kEnterModule:
    case InstructionKind::kLeaveModule:
    case InstructionKind::kEnterGrad:
    case InstructionKind::kLeaveGrad:
    case InstructionKind::kEnterAutocast:
    case InstructionKind::kLeaveAutocast:
      run_mark(instruction, frame);
      return;
    default:
      run_simple(instruction, frame);
      return;
  }
}

namespace {

/// An assert's text begins with the class that the file names nowhere else: `AssertionError: first size must be 99`.
void split_error_class(std::string& text, std::string& type) {
  const auto colon = text.find(": ");
  if (colon == std::string::npos || colon == 0) return;
  const auto prefix = std::string_view(text).substr(0, colon);
  if (!prefix.ends_with("Error") && !prefix.ends_with("Exception")) return;
  if (!std::ranges::all_of(prefix, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }))
    return;
  type = std::string(prefix);
  text.erase(0, colon + 2);
}

}  // namespace

void Executor::run_simple(Instruction& instruction, Frame& frame) {
  switch (instruction.kind) {
    case InstructionKind::kUncheckedCast: {
      const auto prov = frame.prov[instruction.inputs[0]];
      set(frame, instruction, 0, take(frame, instruction, 0), prov);
      return;
    }
    case InstructionKind::kUninitialized:
      set(frame, instruction, 0, c10::IValue(), Prov{});
      return;
    case InstructionKind::kWait: {
      const auto prov = frame.prov[instruction.inputs[0]];
      auto future = take(frame, instruction, 0).toFuture();
      future->wait();
      set(frame, instruction, 0, future->value(), recorder_.containers().item(prov, 0));
      return;
    }
    case InstructionKind::kCreateObject: {
      const auto type = instruction.type->expect<c10::ClassType>();
      auto object =
          c10::ivalue::Object::create(c10::StrongTypePtr(type->compilation_unit(), type), type->numAttributes());
      recorder_.forget_object(object.get(), type->numAttributes());
      set(frame, instruction, 0, c10::IValue(std::move(object)), Prov{});
      return;
    }
    case InstructionKind::kIsInstance: {
      const auto& value = frame.values[instruction.inputs[0]];
      const auto type = value.type();
      const bool yes =
          std::ranges::any_of(instruction.types, [&](const auto& candidate) { return type->isSubtypeOf(*candidate); });
      set(frame, instruction, 0, yes, Prov{});
      return;
    }
    case InstructionKind::kRaise: {
      const auto& message = frame.values[instruction.inputs[0]];
      std::string type = "Exception";
      if (instruction.inputs.size() > 1 && frame.values[instruction.inputs[1]].isString()) {
        type = frame.values[instruction.inputs[1]].toStringRef();
        if (const auto dot = type.rfind('.'); dot != std::string::npos) type = type.substr(dot + 1);
      }
      auto text = message.isString() ? message.toStringRef() : text_of(message);
      if (type == "Exception") split_error_class(text, type);
      throw UserError(text, type);
    }
    case InstructionKind::kWarn: {
      const auto& message = frame.values[instruction.inputs[0]];
      write_error_lines("model warning: " + (message.isString() ? message.toStringRef() : text_of(message)));
      return;
    }
    default:
      TL_CHECK(false, "an instruction kind has no runner");
  }
}

// --- attributes and control flow

void Executor::run_get_attr(Instruction& instruction, Frame& frame) {
  const auto& object = frame.values[instruction.inputs[0]].toObjectRef();
  auto value = object.getSlot(instruction.attribute_slot);
  Prov prov;
  if (instruction.holds_tensors) {
    if (instruction.attribute_object != &object || recorder_.writes_attributes()) {
      instruction.attribute_info = recorder_.attribute(&object, instruction.attribute_slot);
      // Plain parameters and buffers of modules never change their meaning; anything else is looked up each time.
      const auto* info = static_cast<const AttributeInfo*>(instruction.attribute_info);
      const bool fixed = info && (info->buffer >= 0 || info->prov.is(Prov::Tag::kParam)) &&
                         object.type()->is_module() && !recorder_.writes_attributes();
      instruction.attribute_object = fixed ? &object : nullptr;
    }
    prov = recorder_.attribute_prov(&object, instruction.attribute_slot, value,
                                    static_cast<const AttributeInfo*>(instruction.attribute_info));
  }
  set(frame, instruction, 0, std::move(value), prov);
}

void Executor::run_set_attr(Instruction& instruction, Frame& frame) {
  auto& object = const_cast<c10::ivalue::Object&>(frame.values[instruction.inputs[0]].toObjectRef());
  const auto prov = frame.prov[instruction.inputs[1]];
  auto value = take(frame, instruction, 1);
  recorder_.note_attribute_write(&object, instruction.name);
  if (instruction.holds_tensors) {
    auto& info = recorder_.set_attribute(&object, instruction.attribute_slot, prov);
    if (info.buffer >= 0 && value.isTensor()) {
      recorder_.buffer_rebound(static_cast<std::uint32_t>(info.buffer), value.toTensor(), prov);
    }
  }
  object.setSlot(instruction.attribute_slot, std::move(value));
}

void Executor::run_call(Instruction& instruction, Frame& frame) {
  const auto& inputs = instruction.inputs;
  auto* callee = instruction.callee;
  if (instruction.kind == InstructionKind::kCallInterface) {
    const auto type = frame.values[inputs[0]].toObjectRef().type();
    callee = program_.find_method(type, instruction.name);
    if (callee == nullptr) throw UserError("no method '" + instruction.name + "' in " + type->str(), "RuntimeError");
  }
  std::int32_t module = -1;
  if (instruction.module_call && frame.values[inputs[0]].isObject()) {
    const auto* object = &frame.values[inputs[0]].toObjectRef();
    if (instruction.attribute_object != object) {
      instruction.module_row = recorder_.module_of(object);
      instruction.attribute_object = instruction.module_row >= 0 ? object : nullptr;
    }
    module = instruction.module_row;
  }
  FrameHolder holder(*callee);
  auto& inner = *holder;
  const auto& params = callee->body.params;
  TL_CHECK(inputs.size() == params.size(), "a call hands over as many values as the function takes");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inner.prov[params[i]] = frame.prov[inputs[i]];
    inner.values[params[i]] = take(frame, instruction, i);
  }
  const auto outer = module >= 0 ? recorder_.enter_module(static_cast<std::uint32_t>(module), instruction.call_site)
                                 : recorder_.enter_function(instruction);
  auto result = run_function(*callee, inner);
  set_current(&instruction);
  if (module >= 0) {
    recorder_.leave_module(outer, result.prov, &result.value);
    recorder_.halt_if_asked();
  } else {
    recorder_.leave_function(outer);
  }
  if (instruction.outputs.empty()) return;
  if (instruction.kind == InstructionKind::kFork) {
    auto future = c10::make_intrusive<c10::ivalue::Future>(result.value.type());
    future->markCompleted(std::move(result.value));
    set(frame, instruction, 0, c10::IValue(std::move(future)), recorder_.containers().make({result.prov}));
    return;
  }
  set(frame, instruction, 0, std::move(result.value), result.prov);
}

void Executor::run_if(Instruction& instruction, Frame& frame) {
  const auto test_prov = frame.prov[instruction.inputs[0]];
  const bool yes = frame.values[instruction.inputs[0]].toBool();
  auto& block = instruction.blocks[yes ? 0 : 1];
  const auto branch = recorder_.begin_branch(instruction, yes, test_prov);
  run_block(block, frame);
  recorder_.end_branch(branch);
  for (std::size_t i = 0; i < instruction.outputs.size(); ++i) {
    const auto from = block.outputs[i];
    auto& value = frame.values[from];
    set(frame, instruction, i, block.output_dies[i] ? std::move(value) : value, frame.prov[from]);
  }
}

void Executor::run_loop(Instruction& instruction, Frame& frame) {
  const auto limit = frame.values[instruction.inputs[0]].toInt();
  bool go_on = frame.values[instruction.inputs[1]].toBool();
  auto& block = instruction.blocks[0];
  const auto carried = instruction.inputs.size() - 2;
  for (std::size_t k = 0; k < carried; ++k) {
    frame.prov[block.params[k + 1]] = frame.prov[instruction.inputs[k + 2]];
    frame.values[block.params[k + 1]] = take(frame, instruction, k + 2);
  }
  const auto loop = recorder_.begin_loop(instruction);
  std::vector<c10::IValue> values(carried);
  std::vector<Prov> provs(carried);
  std::int64_t iteration = 0;
  for (; iteration < limit && go_on; ++iteration) {
    frame.values[block.params[0]] = iteration;
    recorder_.begin_iteration(loop);
    run_block(block, frame);
    go_on = frame.values[block.outputs[0]].toBool();
    for (std::size_t k = 0; k < carried; ++k) {
      auto& value = frame.values[block.outputs[k + 1]];
      values[k] = block.output_dies[k + 1] ? std::move(value) : value;
      provs[k] = frame.prov[block.outputs[k + 1]];
    }
    for (std::size_t k = 0; k < carried; ++k) {
      frame.values[block.params[k + 1]] = std::move(values[k]);
      frame.prov[block.params[k + 1]] = provs[k];
    }
  }
  recorder_.end_loop(loop);
  for (std::size_t k = 0; k < carried; ++k) {
    set(frame, instruction, k, std::move(frame.values[block.params[k + 1]]), frame.prov[block.params[k + 1]]);
  }
}

}  // namespace tl::lt
