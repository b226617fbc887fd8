#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "archive/exported_program.h"
#include "exported/attribution.h"
#include "program/operator_facts.h"
#include "program/program.h"
#include "program/static_tables.h"

namespace tl::lt {

/// Lowers the graph of an exported program to one flat Function: a slot a value, modules as marks, higher-order
/// operators as branches and loops over the same slots.
class ExportedLowering {
 public:
  /// `file` is used in messages; `device` is where the program will run.
  ExportedLowering(const ExportedProgram& source, Program& program, StaticTables& tables, std::string file,
                   c10::Device device);

  /// Lowers the whole program into `program.entry`, whose parameters are the graph's inputs in order and whose outputs
  /// are the user's, in order; mutations that the file lists as outputs become copies at the end. Throws Error:
  /// kFileDamaged (arguments that do not fit their schema), kUnsupportedProgram (an operator that this build cannot
  /// run).
  void lower();

  Attribution& attribution() { return attribution_; }

 private:
  /// A value of the graph at hand: where it lies.
  struct Scope {
    const ExportedGraph& graph;
    std::vector<std::uint32_t> slots;   ///< by value; kNoSlot before it is defined
    std::vector<std::size_t> last_use;  ///< by value: last_uses()
    std::vector<bool> only_mutates;     ///< by value: an output that is copied back into state and read by no node
  };
  struct OpenCall {
    std::string key;
    std::int32_t module;
    int repetition;
    std::int32_t call_site;
    std::uint32_t number;                ///< tells module calls apart
    std::vector<std::uint32_t> defined;  ///< values of the graph at hand made since it began
  };
  /// Where instructions of the graph at hand go.
  struct Output {
    Block& block;
    const NodePlace* base;       ///< of the operator around a subgraph
    std::size_t base_depth = 0;  ///< open calls that belong to the graph around
  };
  /// One argument of an instruction while it is built.
  struct Input {
    std::uint32_t slot;
    std::string text;     ///< literal of a constant; empty for values
    bool tensor = false;  ///< may hold tensors
  };
  class Functionalized;
  struct Call {
    std::vector<Input> inputs;
    std::vector<std::uint32_t> outputs;
    std::vector<c10::TypePtr> output_types;
    std::vector<std::string> names;  ///< of the arguments; may be shorter
    InstructionText text;
    const c10::FunctionSchema* schema = nullptr;
  };

  Scope root_scope() const;
  void lower_graph(Scope& scope, Output& out, const std::string& where);
  void lower_node(const ExportedNode& node, std::size_t index, Scope& scope, Output& out);
  void lower_operator(const ExportedNode& node, const c10::OperatorHandle& op, const NodePlace& place, Scope& scope,
                      Output& out);
  void lower_python(const ExportedNode& node, const NodePlace& place, Scope& scope, Output& out);
  void lower_predispatch(const ExportedNode& node, std::string_view name, const NodePlace& place, Scope& scope,
                         Output& out);
  void lower_higher_order(const ExportedNode& node, std::string_view name, const NodePlace& place, Scope& scope,
                          Output& out);
  void lower_cond(const ExportedNode& node, const NodePlace& place, Scope& scope, Output& out);
  void lower_while(const ExportedNode& node, const NodePlace& place, Scope& scope, Output& out);
  void lower_map(const ExportedNode& node, const NodePlace& place, Scope& scope, Output& out);
  void lower_scan(const ExportedNode& node, const NodePlace& place, Scope& scope, Output& out);
  void lower_associative_scan(const ExportedNode& node, const NodePlace& place, Scope& scope, Output& out);
  void lower_grad_mode(const ExportedNode& node, const NodePlace& place, Scope& scope, Output& out);
  void lower_autocast(const ExportedNode& node, const NodePlace& place, Scope& scope, Output& out);
  void lower_inline(const ExportedNode& node, std::size_t graph_at, std::size_t first_operand, const NodePlace& place,
                    Scope& scope, Output& out);
  void lower_functionalized(const ExportedNode& node, bool second_version, const NodePlace& place, Scope& scope,
                            Output& out);
  void lower_out_dtype(const ExportedNode& node, const NodePlace& place, Scope& scope, Output& out);
  void lower_with_effects(const ExportedNode& node, const NodePlace& place, Scope& scope, Output& out);
  void lower_torchbind_call(const ExportedNode& node, std::size_t first, std::size_t first_output,
                            const NodePlace& place, Scope& scope, Output& out);

  // --- subgraphs
  using Operands = std::vector<std::uint32_t>;
  /// Lowers a subgraph in place, its inputs bound to `operands`; returns the slots of its outputs. A subgraph is a
  /// place in the code of its own, though its nodes inherit the line of the operator that it belongs to: without
  /// `is_own_code` it is taken for a part of what stands around it.
  Operands lower_subgraph(const ExportedNode& node, const ExportedGraph& graph, const Operands& operands,
                          const NodePlace& place, Block& block, bool is_own_code = true);
  const ExportedGraph& graph_argument(const ExportedNode& node, std::size_t at) const;
  /// Slots of the arguments from `first` on, or of the elements of the list at `at`.
  Operands operands_from(const ExportedNode& node, std::size_t first, Scope& scope, Output& out);
  Operands operands_of_list(const ExportedNode& node, std::size_t at, Scope& scope, Output& out);
  /// Slots for the node's outputs, one a value; None and unused ones get a slot that nobody reads.
  Operands define_outputs(const ExportedNode& node, Scope& scope, Output& out, std::size_t first = 0);
  /// Binds the node's outputs to slots that exist already.
  void alias_outputs(const ExportedNode& node, const Operands& slots, Scope& scope, Output& out, std::size_t first = 0);

  // --- pieces
  std::uint32_t new_slot() { return next_slot_++; }
  std::uint32_t constant_slot(c10::IValue value);
  std::uint32_t define(std::uint32_t value, Scope& scope, Output& out);
  void define_as(std::uint32_t value, std::uint32_t slot, Scope& scope, Output& out);
  std::uint32_t slot_of(const ExportedRef& ref, const Scope& scope) const;
  /// The argument of a node as an input of type `type`.
  Input input_of(const ExportedNode& node, const std::string& name, const ExportedArgument& argument,
                 const c10::Argument& schema_argument, const NodePlace& place, Scope& scope, Output& out);
  Input list_input(const ExportedNode& node, const std::string& name, const ExportedList& list,
                   const c10::ListType& type, const NodePlace& place, Scope& scope, Output& out);
  Input list_of(const std::vector<Input>& inputs, const c10::TypePtr& element, const NodePlace& place, Output& out);
  Input converted(Input input, const ExportedGraphValue& value, const c10::TypePtr& type, const NodePlace& place,
                  Output& out);
  std::vector<const ExportedArgument*> bind(const ExportedNode& node, const c10::FunctionSchema& schema) const;
  Instruction& emit(Call call, const NodePlace& place, Output& out,
                    std::function<void(torch::jit::Stack&)> operation = {});
  Instruction& emit_operator(const c10::OperatorHandle& op, std::vector<Input> inputs,
                             std::vector<std::uint32_t> outputs, const NodePlace& place, Output& out,
                             std::string value_names = {});
  /// Calls an ATen operator that the lowering itself needs (select, stack, clone …); returns the slot of its output.
  std::uint32_t emit_aten(const char* name, const char* overload, std::vector<Input> inputs, const NodePlace& place,
                          Output& out);
  /// append or __getitem__ of a list of tensors: a value is moved, its producer stays its producer.
  std::uint32_t emit_container(const char* name, ContainerRule rule, Operands inputs, const NodePlace& place,
                               Output& out);
  Instruction& emit_mark(InstructionKind kind, const char* name, const NodePlace& place, Output& out);
  std::uint32_t to_bool(std::uint32_t slot, const NodePlace& place, Output& out);
  Input input_at(std::uint32_t slot, bool tensor = true) const { return {slot, {}, tensor}; }
  Input literal(c10::IValue value);

  // --- module calls
  void move_to(const NodePlace& place, std::size_t index, Scope& scope, Output& out);
  /// The first tensor that the signature of a call in the file names as an output; kNoSlot where there is none.
  std::uint32_t stated_value(const OpenCall& call, const Scope& scope) const;
  /// The value that a call returned; kNoSlot (0xffffffff) if it made none.
  std::uint32_t returned_value(const OpenCall& call, std::size_t index, const Scope& scope) const;
  void leave_calls(std::size_t depth, std::size_t index, Scope& scope, Output& out);

  void finish_outputs(Scope& scope, Output& out);

  [[noreturn]] void fail(const ExportedNode& node, const std::string& what) const;
  [[noreturn]] void refuse_overload(const ExportedNode& node, const c10::OperatorName& name) const;
  [[noreturn]] void refuse(const ExportedNode& node, const std::string& what, const std::string& hint) const;

  const ExportedProgram& source_;
  Program& program_;
  StaticTables& tables_;
  std::string file_;
  c10::Device device_;
  Attribution attribution_;
  Function* function_ = nullptr;
  std::uint32_t next_slot_ = 0;
  std::vector<OpenCall> open_;
  std::uint32_t calls_ = 0;
  std::unordered_map<std::string, const ExportedModuleCall*> signatures_;  ///< by fqn; calls without one are left out
  struct Subgraph {
    std::size_t levels;  ///< modules around the operator that it belongs to
    std::int32_t site;   ///< row of call_sites that stands for it
  };
  std::vector<Subgraph> subgraphs_;  ///< around the node that is being lowered, outermost first
  std::string graph_name_;
  const ExportedNode* node_ = nullptr;  ///< at hand, for source names and splitting lines
};

/// By value of a graph: the index of the last node that reads it, the number of nodes where the graph returns it; 0
/// where nothing reads it.
std::vector<std::size_t> last_uses(const ExportedGraph& graph);

/// The operator that a target names (`torch.ops.aten.add.Tensor`, `aten.add.Tensor`): namespace and name, overload.
/// nullopt for higher-order operators and functions of Python.
std::optional<c10::OperatorName> operator_name_of(std::string_view target);

/// T for Optional[T], any other type as it is.
inline const c10::Type& without_optional(const c10::Type& type) {
  return type.kind() == c10::TypeKind::OptionalType ? *type.expectRef<c10::OptionalType>().getElementType() : type;
}

/// The name of a higher-order operator (`torch.ops.higher_order.cond` → `cond`); empty for anything else.
std::string_view higher_order_name(std::string_view target);

/// Names of a function of torch._functorch.predispatch; empty for anything else.
std::string_view predispatch_name(std::string_view target);

}  // namespace tl::lt
