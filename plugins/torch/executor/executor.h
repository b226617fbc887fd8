#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <memory>
#include <string>
#include <vector>

#include "executor/recorder.h"
#include "program/program.h"

namespace tl::lt {

/// Raised by prim::RaiseException: the user's error with its text.
class UserError : public std::runtime_error {
 public:
  UserError(const std::string& message, std::string class_name)
      : std::runtime_error(message), type(std::move(class_name)) {}
  std::string type;  ///< builtins.ValueError → ValueError; Exception where the file names none
};

/// Runs a Program instruction by instruction and tells a Recorder what happens. One a run; not re-entrant.
class Executor {
 public:
  /// `swap_storages`: run pointwise in-place operators out of place where a payload would have to be copied (off for
  /// the census, which counts operators by name).
  Executor(Program& program, Recorder& recorder, bool swap_storages = true)
      : program_(program), recorder_(recorder), swap_storages_(swap_storages) {}

  /// Runs the root module's hooks and entry on `self` and the arguments, inside the root module call. Inputs and
  /// outputs are recorded. Throws whatever the model raises; `current()` then names the instruction.
  c10::IValue run(const c10::IValue& self, std::vector<c10::IValue> arguments, std::uint32_t root_module);

  /// A value handed to a flat program.
  struct FlatInput {
    c10::IValue value;
    std::string role;  ///< structural path of an input that the user gave, recorded as one; empty for state
    Prov prov;         ///< of state
  };
  /// Runs the entry of a flat program (no self, no hooks): one value a parameter, inside the root module call. `roles`
  /// names the outputs. Returns the outputs in order.
  std::vector<c10::IValue> run_flat(std::vector<FlatInput> inputs, const std::vector<std::string>& roles,
                                    std::uint32_t root_module);

  const Instruction* current() const { return current_; }
  /// The arguments of the operation that raised, where it left them.
  const std::vector<c10::IValue>& failed_operands() const { return failed_operands_; }
  static const Instruction* current_of_process() { return process_current_; }

 private:
  struct Returned {
    c10::IValue value;
    Prov prov;
  };
  class FrameHolder;

  Returned run_function(Function& function, Frame& frame);
  Returned call(Function& function, std::vector<c10::IValue> arguments, std::vector<Prov> provs);
  void run_block(Block& block, Frame& frame);
  void run_instruction(Instruction& instruction, Frame& frame);

  void run_operator(Instruction& instruction, Frame& frame);
  bool run_out_of_place(Instruction& instruction, std::size_t base);
  void store_outputs(Instruction& instruction, Frame& frame, std::uint32_t call_ticks);
  Prov record_list(Instruction& instruction, const c10::IValue& value, std::uint32_t call_ticks);
  void run_container(Instruction& instruction, Frame& frame);
  Prov move_provenance(const Instruction& instruction, const std::vector<c10::IValue>& args,
                       const std::vector<Prov>& provs);
  Prov move_dict_provenance(ContainerRule rule, const std::vector<c10::IValue>& args, const std::vector<Prov>& provs);
  void refresh_containers(const Instruction& instruction, const std::vector<c10::IValue>& args,
                          const std::vector<Prov>& provs, const ContainerTree::Known& known);

  void run_call(Instruction& instruction, Frame& frame);
  void run_if(Instruction& instruction, Frame& frame);
  void run_loop(Instruction& instruction, Frame& frame);
  void run_get_attr(Instruction& instruction, Frame& frame);
  void run_set_attr(Instruction& instruction, Frame& frame);
  void run_enter(Instruction& instruction, Frame& frame);
  void run_exit(Instruction& instruction, Frame& frame);
  void run_mark(Instruction& instruction, Frame& frame);
  void enter_autocast(const void* owner, c10::DeviceType device, bool enabled, c10::ScalarType dtype);
  void leave_autocast();
  void run_construct(Instruction& instruction, Frame& frame);
  void run_unpack(Instruction& instruction, Frame& frame);
  void run_simple(Instruction& instruction, Frame& frame);
  // Of every operator's inputs and outputs: inline.
  static void set(Frame& frame, const Instruction& instruction, std::size_t output, c10::IValue value, Prov prov) {
    if (instruction.output_unused[output]) return;
    const auto slot = instruction.outputs[output];
    frame.values[slot] = std::move(value);
    frame.prov[slot] = prov;
  }
  static c10::IValue take(Frame& frame, const Instruction& instruction, std::size_t input) {
    auto& value = frame.values[instruction.inputs[input]];
    return instruction.input_dies[input] ? std::move(value) : value;
  }

  void set_current(const Instruction* instruction) {
    current_ = instruction;
    process_current_ = instruction;
  }

  Program& program_;
  Recorder& recorder_;
  bool swap_storages_;
  torch::jit::Stack stack_;
  std::vector<Prov> arg_provs_;
  std::vector<c10::IValue> failed_operands_;
  std::vector<c10::IValue> entered_;  ///< objects of open `with` blocks
  struct AutocastState {
    bool enabled;
    c10::ScalarType dtype;
    c10::DeviceType device;
  };
  std::vector<std::pair<const void*, AutocastState>> autocast_;
  std::vector<bool> grad_modes_;                 ///< what kLeaveGrad restores
  std::vector<Recorder::Context> open_modules_;  ///< what kLeaveModule returns to
  const Instruction* current_ = nullptr;
  static const Instruction* volatile process_current_;  ///< read by the signal handler; one executor runs at a time
};

}  // namespace tl::lt
