#include "executor/executor.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/class_type.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue_inl.h>

#include <algorithm>

#include "bridge/tensor_bridge.h"
#include "core/error.h"

// `with` blocks: autocast and gradient state are set as the objects ask, since no pass rewrites the graph for them.
namespace tl::lt {

void Executor::run_enter(Instruction& instruction, Frame& frame) {
  const auto value = frame.values[instruction.inputs[0]];
  const auto object = value.toObject();
  const auto type = object->type();
  if (demangle(type->name()->qualifiedName()) == "torch.amp.autocast_mode.autocast") {
    // The interpreter knows autocast only as a pass over inlined graphs; here the dispatcher's own state is set.
    const auto device = c10::Device(object->getAttr("device").toStringRef()).type();
    autocast_.push_back(
        {object.get(), {at::autocast::is_autocast_enabled(device), at::autocast::get_autocast_dtype(device), device}});
    at::autocast::set_autocast_enabled(device, object->getAttr("_enabled").toBool());
    at::autocast::set_autocast_dtype(device, static_cast<c10::ScalarType>(object->getAttr("fast_dtype").toInt()));
    at::autocast::increment_nesting();
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
    const auto& state = autocast_.back().second;
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(state.device, state.enabled);
    at::autocast::set_autocast_dtype(state.device, state.dtype);
    autocast_.pop_back();
  }
  auto* method = program_.find_method(object->type(), "__exit__");
  if (method == nullptr) throw UserError("a with block needs __exit__", "AttributeError");
  const auto outer = recorder_.enter_function(instruction);
  auto result = call(*method, {value, c10::IValue(), c10::IValue(), c10::IValue()}, {Prov{}, Prov{}, Prov{}, Prov{}});
  recorder_.leave_function(outer);
  if (!instruction.outputs.empty()) set(frame, instruction, 0, std::move(result.value), result.prov);
}

}  // namespace tl::lt
