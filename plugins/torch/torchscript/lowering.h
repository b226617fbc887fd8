#pragma once

#include <torch/csrc/jit/api/module.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "program/program.h"
#include "program/static_tables.h"

namespace tl::lt {

/// Lowers un-inlined TorchScript graphs to a Program: one Function a method or function, one slot a value.
class Lowering {
 public:
  /// `device`: where the program will run; devices that the file names become it.
  Lowering(Program& program, StaticTables& tables, c10::Device device)
      : program_(program), tables_(tables), device_(device), call_sites_(tables) {}

  /// The lowered form of a function or method, made on first use. Throws Error(kUnsupportedProgram) for a node kind
  /// that the executor does not run, with its name and place.
  Function* lower(const torch::jit::Function& function);

  /// Every constant tensor met so far, by row of params.
  const std::vector<std::pair<at::Tensor, std::uint32_t>>& constants() const { return constants_; }

 private:
  struct Scope;  ///< slots of one function

  void lower_graph(const torch::jit::Graph& graph, Function& function, const std::string& name);
  void lower_block(const torch::jit::Block& block, Block& out, Scope& scope);
  void lower_node(const torch::jit::Node& node, Block& out, Scope& scope);
  void lower_constant(const torch::jit::Node& node, Scope& scope);
  void lower_operator(const torch::jit::Node& node, Instruction& instruction, Scope& scope);
  void lower_call(const torch::jit::Node& node, Instruction& instruction, Scope& scope);
  bool lower_control(const torch::jit::Node& node, Instruction& instruction, Scope& scope);
  void lower_builtin_method(const torch::jit::Function& method, const torch::jit::Node& node, Instruction& instruction);
  void describe(const torch::jit::Node& node, Instruction& instruction, Scope& scope, const std::string& op_name,
                const std::string& overload, const c10::FunctionSchema* schema);
  void locate(const torch::jit::Node& node, Instruction& instruction, const std::string& function_name);
  std::uint32_t constant_row(const at::Tensor& tensor);
  void mark_last_uses(const torch::jit::Block& block, Block& out, Scope& scope);

  Program& program_;
  StaticTables& tables_;
  c10::Device device_;
  std::unordered_map<const void*, Function*> lowered_;
  CallSiteRows call_sites_;
  std::vector<std::pair<at::Tensor, std::uint32_t>> constants_;
};

}  // namespace tl::lt
