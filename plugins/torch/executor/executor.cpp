#include "executor/executor.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/class_type.h>
#include <ATen/core/ivalue_inl.h>

#include <algorithm>
#include <cctype>

#include "bridge/tensor_bridge.h"
#include "core/error.h"
#include "core/log.h"
#include "executor/batched_view.h"

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

c10::IValue Executor::take(Frame& frame, const Instruction& instruction, std::size_t input) {
  auto& value = frame.values[instruction.inputs[input]];
  return instruction.input_dies[input] ? std::move(value) : value;
}

void Executor::set(Frame& frame, const Instruction& instruction, std::size_t output, c10::IValue value, Prov prov) {
  if (instruction.output_unused[output]) return;
  const auto slot = instruction.outputs[output];
  frame.values[slot] = std::move(value);
  frame.prov[slot] = prov;
}

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

// --- operators

void Executor::run_operator(Instruction& instruction, Frame& frame) {
  const auto base = stack_.size();
  const auto count = instruction.inputs.size();
  arg_provs_.clear();
  for (std::size_t i = 0; i < count; ++i) {
    const auto slot = instruction.inputs[i];
    if (instruction.input_dies[i])
      stack_.push_back(std::move(frame.values[slot]));
    else
      stack_.push_back(frame.values[slot]);
    arg_provs_.push_back(frame.prov[slot]);
  }
  const c10::ArrayRef<c10::IValue> args(stack_.data() + base, count);
  recorder_.gather(instruction, args, arg_provs_.data());
  recorder_.count_execution(instruction);
  std::uint64_t start = 0;
  bool done = false;
  if (instruction.writes || instruction.foreign) {
    if (swap_storages_ && instruction.functional && recorder_.write_meets_payload(instruction, args)) {
      start = ticks();
      done = run_out_of_place(instruction, base);
    }
    if (!done) recorder_.before_writes(instruction, args);
  }
  if (!done) {
    start = ticks();
    if (instruction.vararg) stack_.emplace_back(static_cast<std::int64_t>(count));
    try {
      instruction.operation(stack_);
    } catch (...) {
      if (stack_.size() >= base + count) {  // not consumed yet
        const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(base);
        failed_operands_.assign(first, first + static_cast<std::ptrdiff_t>(count));
      }
      throw;
    }
  }
  const auto elapsed = ticks() - start;
  store_outputs(instruction, frame, elapsed > 0xffffffffULL ? 0xffffffffu : static_cast<std::uint32_t>(elapsed));
  stack_.resize(base);
  recorder_.halt_if_asked();
}

bool Executor::run_out_of_place(Instruction& instruction, std::size_t base) {
  // The in-place operator would overwrite bytes that payloads still show. Its out-of-place form writes to fresh memory
  // instead; swapping the two storages' bytes leaves every alias of the tensor with the new values and hands the old
  // bytes to the payloads: no copy.
  const auto& self = stack_[base].toTensor();
  auto* impl = self.unsafeGetTensorImpl();
  if (is_batched(self)) return false;
  if (self.layout() != at::kStrided || !self.device().is_cpu() || self.requires_grad() || self.is_quantized() ||
      self.is_conj() || self.is_neg() || !self.is_non_overlapping_and_dense() || self.storage_offset() != 0 ||
      static_cast<std::size_t>(self.numel()) * self.itemsize() != self.storage().nbytes()) {
    return false;
  }
  for (std::size_t i = base + 1; i < stack_.size(); ++i) {
    if (stack_[i].isList()) return false;
    if (!stack_[i].isTensor() || !stack_[i].toTensor().defined()) continue;
    const auto& other = stack_[i].toTensor();
    // Another view of the same memory: the in-place operator has rules for it (and may refuse), the other form has
    // none.
    if (other.has_storage() && other.storage().unsafeGetStorageImpl() == self.storage().unsafeGetStorageImpl() &&
        !(other.storage_offset() == self.storage_offset() && other.sizes() == self.sizes() &&
          other.strides() == self.strides())) {
      return false;
    }
    if (other.scalar_type() != self.scalar_type() || other.dim() > self.dim()) return false;
    for (std::int64_t d = 1; d <= other.dim(); ++d) {  // it must broadcast to self, never the other way round
      if (other.size(-d) != 1 && other.size(-d) != self.size(-d)) return false;
    }
    if (other.layout() != at::kStrided) return false;
  }
  torch::jit::Stack call(stack_.begin() + static_cast<std::ptrdiff_t>(base), stack_.end());
  instruction.functional->callBoxed(call);
  const auto result = call.back().toTensor();
  auto* fresh = result.unsafeGetTensorImpl();
  if (result.scalar_type() != self.scalar_type() || result.sizes() != self.sizes() ||
      result.strides() != self.strides() || result.storage_offset() != 0 ||
      result.storage().nbytes() != self.storage().nbytes() || result.storage().use_count() != 1 || fresh == impl) {
    return false;  // the in-place operator itself decides; nothing was written
  }
  auto* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  auto spare = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(result.storage().unsafeGetStorageImpl());
  recorder_.before_swap(storage);
  storage->swap_data_ptr(*spare);
  recorder_.payloads()->move_payloads(storage, std::move(spare));
  impl->bump_version();
  auto self_value = stack_[base];
  stack_.resize(base);
  stack_.push_back(std::move(self_value));
  return true;
}

namespace {

/// False for the outputs that an operator leaves out: undefined tensors and None are no Ops and take no slot.
bool is_defined(const c10::IValue& value) { return value.isTensor() && value.toTensor().defined(); }

}  // namespace

void Executor::store_outputs(Instruction& instruction, Frame& frame, std::uint32_t call_ticks) {
  const auto count = instruction.outputs.size();
  const auto base = stack_.size() - count;
  const auto events_before = recorder_.num_events();
  const auto flow_before = recorder_.num_flow_rows();
  std::uint16_t num_slots = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (instruction.emits[i] == Emit::kTensor && is_defined(stack_[base + i])) ++num_slots;
  }
  std::uint16_t slot = 0;
  for (std::size_t i = 0; i < count; ++i) {
    auto& value = stack_[base + i];
    Prov prov;
    switch (instruction.emits[i]) {
      case Emit::kTensor:
        if (value.isTensor()) {
          prov = recorder_.record_tensor(instruction, i, slot, num_slots, value.toTensor(), call_ticks);
        } else if (value.isTensorList() || value.isTuple()) {
          prov = record_list(instruction, value, call_ticks);
        }
        if (is_defined(value)) ++slot;
        break;
      case Emit::kTensorList:
        prov = record_list(instruction, value, call_ticks);
        break;
      case Emit::kHost:
        prov = recorder_.record_host(instruction, value);
        break;
      case Emit::kContainer:
        break;
    }
    set(frame, instruction, i, std::move(value), prov);
  }
  recorder_.note_recorded(events_before, flow_before, count != 0);
  if (instruction.writes || instruction.foreign) {
    const bool yielded = recorder_.num_events() > events_before;
    recorder_.after_writes(instruction, yielded ? events_before : 0xffffffffu);
  }
}

Prov Executor::record_list(Instruction& instruction, const c10::IValue& value, std::uint32_t call_ticks) {
  if (!value.isList() && !value.isTuple()) return Prov{};
  const auto elements = value.isList() ? value.toListRef().vec() : value.toTupleRef().elements().vec();
  std::vector<Prov> items;
  const auto num_slots =
      static_cast<std::uint16_t>(std::min<std::ptrdiff_t>(std::ranges::count_if(elements, is_defined), 0xffff));
  std::uint16_t slot = 0;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (!is_defined(elements[i])) {
      items.emplace_back();
      continue;
    }
    items.push_back(recorder_.record_tensor(instruction, std::min<std::size_t>(i, 63), slot++, num_slots,
                                            elements[i].toTensor(), call_ticks));
  }
  return recorder_.containers().make(std::move(items));
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
