#include "exported/bare_run.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/ivalue_inl.h>
#include <ATen/core/jit_type.h>
#include <ATen/core/stack.h>
#include <c10/core/GradMode.h>

#include "core/error.h"

namespace tl::lt {
namespace {

class BareRun {
 public:
  explicit BareRun(const Function& function) : values_(function.num_slots) {
    for (const auto& [slot, value] : function.constants) values_[slot] = value;
  }

  std::vector<c10::IValue>& values() { return values_; }

  void block(const Block& block) {
    for (const auto& instruction : block.instructions) {
      one(instruction);
      for (const auto slot : instruction.release) values_[slot] = c10::IValue();
    }
  }

 private:
  c10::IValue take(const Instruction& instruction, std::size_t input) {
    auto& value = values_[instruction.inputs[input]];
    return instruction.input_dies[input] ? std::move(value) : value;
  }

  void call(const Instruction& instruction) {
    stack_.clear();
    for (std::size_t i = 0; i < instruction.inputs.size(); ++i) stack_.push_back(take(instruction, i));
    instruction.operation(stack_);
    const auto base = stack_.size() - instruction.outputs.size();
    for (std::size_t i = 0; i < instruction.outputs.size(); ++i) {
      if (!instruction.output_unused[i]) values_[instruction.outputs[i]] = std::move(stack_[base + i]);
    }
  }

  void one(const Instruction& instruction) {
    switch (instruction.kind) {
      case InstructionKind::kOperator:
        return call(instruction);
      case InstructionKind::kListConstruct: {
        c10::impl::GenericList list(instruction.type->expectRef<c10::ListType>().getElementType());
        for (std::size_t i = 0; i < instruction.inputs.size(); ++i) list.push_back(take(instruction, i));
        values_[instruction.outputs[0]] = std::move(list);
        return;
      }
      case InstructionKind::kListUnpack: {
        const auto list = take(instruction, 0);
        const auto elements = list.toListRef();
        if (elements.size() != instruction.outputs.size()) {
          throw Error(ErrorCode::kModelRaised, "a list has " + std::to_string(elements.size()) + " elements, " +
                                                   std::to_string(instruction.outputs.size()) + " are unpacked");
        }
        for (std::size_t i = 0; i < elements.size(); ++i) values_[instruction.outputs[i]] = elements[i];
        return;
      }
      case InstructionKind::kTupleUnpack: {
        const auto tuple = take(instruction, 0);
        const auto& elements = tuple.toTupleRef().elements();
        for (std::size_t i = 0; i < instruction.outputs.size(); ++i) values_[instruction.outputs[i]] = elements[i];
        return;
      }
      case InstructionKind::kIf:
        return branch(instruction);
      case InstructionKind::kLoop:
        return loop(instruction);
      default:
        return mark(instruction);
    }
  }

  void branch(const Instruction& instruction) {
    const auto& arm = instruction.blocks[values_[instruction.inputs[0]].toBool() ? 0 : 1];
    block(arm);
    for (std::size_t i = 0; i < instruction.outputs.size(); ++i) {
      values_[instruction.outputs[i]] = values_[arm.outputs[i]];
    }
  }

  void loop(const Instruction& instruction) {
    const auto limit = values_[instruction.inputs[0]].toInt();
    bool go_on = values_[instruction.inputs[1]].toBool();
    const auto& body = instruction.blocks[0];
    const auto carried = instruction.inputs.size() - 2;
    for (std::size_t k = 0; k < carried; ++k) values_[body.params[k + 1]] = take(instruction, k + 2);
    std::vector<c10::IValue> next(carried);
    for (std::int64_t iteration = 0; iteration < limit && go_on; ++iteration) {
      values_[body.params[0]] = iteration;
      block(body);
      go_on = values_[body.outputs[0]].toBool();
      for (std::size_t k = 0; k < carried; ++k) next[k] = values_[body.outputs[k + 1]];
      for (std::size_t k = 0; k < carried; ++k) values_[body.params[k + 1]] = std::move(next[k]);
    }
    for (std::size_t k = 0; k < carried; ++k) values_[instruction.outputs[k]] = values_[body.params[k + 1]];
  }

  void mark(const Instruction& instruction) {
    switch (instruction.kind) {
      case InstructionKind::kEnterGrad:
        grad_.push_back(c10::GradMode::is_enabled());
        c10::GradMode::set_enabled(instruction.ints[0] != 0);
        return;
      case InstructionKind::kLeaveGrad:
        c10::GradMode::set_enabled(grad_.back());
        grad_.pop_back();
        return;
      case InstructionKind::kEnterAutocast: {
        const auto device = c10::Device(instruction.name).type();
        autocast_.push_back(
            {device, at::autocast::is_autocast_enabled(device), at::autocast::get_autocast_dtype(device)});
        at::autocast::set_autocast_enabled(device, instruction.ints[1] != 0);
        at::autocast::set_autocast_dtype(device, static_cast<at::ScalarType>(instruction.ints[0]));
        at::autocast::increment_nesting();
        return;
      }
      case InstructionKind::kLeaveAutocast: {
        const auto& state = autocast_.back();
        if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
        at::autocast::set_autocast_enabled(state.device, state.enabled);
        at::autocast::set_autocast_dtype(state.device, state.dtype);
        autocast_.pop_back();
        return;
      }
      default:
        return;  // module calls leave no trace here
    }
  }

  struct Autocast {
    c10::DeviceType device;
    bool enabled;
    at::ScalarType dtype;
  };

  std::vector<c10::IValue> values_;
  torch::jit::Stack stack_;
  std::vector<bool> grad_;
  std::vector<Autocast> autocast_;
};

}  // namespace

std::vector<c10::IValue> run_bare(const Program& program, std::vector<c10::IValue> arguments) {
  const auto& function = *program.entry;
  BareRun run(function);
  TL_CHECK(arguments.size() == function.body.params.size(), "one value a parameter");
  for (std::size_t i = 0; i < arguments.size(); ++i) run.values()[function.body.params[i]] = std::move(arguments[i]);
  arguments.clear();
  run.block(function.body);
  std::vector<c10::IValue> outputs;
  for (const auto slot : function.body.outputs) outputs.push_back(run.values()[slot]);
  return outputs;
}

}  // namespace tl::lt
