#include "executor/executor.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/class_type.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue_inl.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "bridge/tensor_bridge.h"
#include "core/error.h"

// `with` blocks and the marks of flat programs: autocast and gradient state are set as the file asks, since no pass
// rewrites the graph for them.
namespace tl::lt {

void Executor::enter_autocast(const void* owner, c10::DeviceType device, bool enabled, c10::ScalarType dtype) {
  autocast_.push_back(
      {owner, {at::autocast::is_autocast_enabled(device), at::autocast::get_autocast_dtype(device), device}});
  at::autocast::set_autocast_enabled(device, enabled);
  at::autocast::set_autocast_dtype(device, dtype);
  at::autocast::increment_nesting();
}

void Executor::leave_autocast() {
  TL_CHECK(!autocast_.empty(), "autocast ends that never began");
  const auto& state = autocast_.back().second;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(state.device, state.enabled);
  at::autocast::set_autocast_dtype(state.device, state.dtype);
  autocast_.pop_back();
}

void Executor::run_mark(Instruction& instruction, Frame& frame) {
  switch (instruction.kind) {
    case InstructionKind::kEnterModule:
      open_modules_.push_back(
          recorder_.enter_module(static_cast<std::uint32_t>(instruction.module_row), instruction.call_site));
      return;
    case InstructionKind::kLeaveModule:
      TL_CHECK(!open_modules_.empty(), "a module call ends that never began");
      recorder_.leave_module(open_modules_.back(),
                             instruction.inputs.empty() ? Prov{} : frame.prov[instruction.inputs[0]],
                             instruction.inputs.empty() ? nullptr : &frame.values[instruction.inputs[0]]);
      open_modules_.pop_back();
      recorder_.halt_if_asked();
      return;
    case InstructionKind::kEnterGrad:
      grad_modes_.push_back(c10::GradMode::is_enabled());
      c10::GradMode::set_enabled(instruction.ints[0] != 0);
      return;
    case InstructionKind::kLeaveGrad:
      TL_CHECK(!grad_modes_.empty(), "a grad mode ends that never began");
      c10::GradMode::set_enabled(grad_modes_.back());
      grad_modes_.pop_back();
      return;
    case InstructionKind::kEnterAutocast:
      enter_autocast(&instruction, c10::Device(instruction.name).type(), instruction.ints[1] != 0,
                     static_cast<c10::ScalarType>(instruction.ints[0]));
      return;
    default:
      leave_autocast();
      return;
  }
}

void Executor::run_enter(Instruction& instruction, Frame& frame) {
  const auto value = frame.values[instruction.inputs[0]];
  const auto object = value.toObject();
  const auto type = object->type();
  if (demangle(type->name()->qualifiedName()) == "torch.amp.autocast_mode.autocast") {
    // The interpreter knows autocast only as a pass over inlined graphs; here the dispatcher's own state is set.
    const auto device = c10::Device(object->getAttr("device").toStringRef()).type();
    enter_autocast(object.get(), device, object->getAttr("_enabled").toBool(),
                   static_cast<c10::ScalarType>(object->getAttr("fast_dtype").toInt()));
  }
  entered_.push_back(value);
  auto* method = program_.find_method(type, "__enter__");
  if (method == nullptr) throw UserError("a with block needs __enter__", "AttributeError");
  const auto outer = recorder_.enter_function(instruction);
  auto result = call(*method, {value}, {Prov{}});
  recorder_.leave_function(outer);
  if (!instruction.outputs.empty()) set(frame, instruction, 0, std::move(result.value), result.prov);
}

void Executor::run_exit(Instruction& instruction, Frame& frame) {
  TL_CHECK(!entered_.empty(), "a with block ends that never began");
  const auto value = entered_.back();
  entered_.pop_back();
  const auto object = value.toObject();
  if (!autocast_.empty() && autocast_.back().first == object.get()) {
    leave_autocast();
  }
  auto* method = program_.find_method(object->type(), "__exit__");
  if (method == nullptr) throw UserError("a with block needs __exit__", "AttributeError");
  const auto outer = recorder_.enter_function(instruction);
  auto result = call(*method, {value, c10::IValue(), c10::IValue(), c10::IValue()}, {Prov{}, Prov{}, Prov{}, Prov{}});
  recorder_.leave_function(outer);
  if (!instruction.outputs.empty()) set(frame, instruction, 0, std::move(result.value), result.prov);
}

}  // namespace tl::lt
