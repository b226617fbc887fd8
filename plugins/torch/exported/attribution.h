#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "archive/exported_program.h"
#include "program/static_tables.h"

namespace tl::lt {

/// One level of a node's module stack.
struct ModuleLevel {
  std::string key;         ///< tells calls of one module apart (`blk@1`), except in strict exports
  std::int32_t module;     ///< row of modules
  int repetition;          ///< k of the k-th further call of the module
  std::int32_t call_site;  ///< where the parent's forward calls it; -1 for the root or where no frame tells
};

/// Where a node stands: the modules around it, outermost first (the root included), and its place in the innermost
/// module's forward.
struct NodePlace {
  std::vector<ModuleLevel> levels;
  std::int32_t call_site = -1;
  std::vector<std::int32_t> frames;  ///< call sites of the functions around it inside the innermost forward
};

/// Modules and call sites of an exported program, from nn_module_stack, stack_trace and module_call_graph.
class Attribution {
 public:
  /// Fills the rows of modules: the root, every module that the call graph or a node names, and their parents.
  Attribution(const ExportedProgram& program, StaticTables& tables);

  /// `base`: the place of the higher-order operator around a subgraph, for nodes whose metadata has no modules.
  NodePlace place(const ExportedNode& node, const NodePlace& base);

  /// The call site that stands for a subgraph of an operator at `place`: the operator's line, the graph's name.
  std::int32_t subgraph_site(const NodePlace& place, const std::string& graph);

  /// Notes that `node` at `place` became `instruction` (a row of instructions), which calls `func_name`. `call`
  /// identifies the module call around it.
  void note_call(const ExportedNode& node, const NodePlace& place, std::string_view func_name, std::uint32_t call,
                 std::uint32_t instruction);

  /// Gives the calls of one function on one line call sites of their own, in the rows of instructions: a line without
  /// columns that names a function k times gives its (i mod k)-th name to the i-th of the calls noted inside one module
  /// call. Where these are no multiple of k the text does not say what ran, and the line stays one place.
  void split_lines();

  /// Row of the module that owns a parameter or buffer of that name: the longest address before a dot.
  std::int32_t owner_of(const std::string& name) const;

  CallSiteRows& call_sites() { return call_sites_; }

 private:
  struct Frame {
    std::int32_t site;
    std::int32_t level;
    const ExportedSourceFrame* source;
  };
  struct CallOnLine {
    std::uint32_t instruction;
    const ExportedSourceFrame* source;
  };

  std::int32_t module_row(const std::string& path, const std::string& class_name);
  std::int32_t site_of(const ExportedSourceFrame& frame);
  /// The call site of a node whose innermost frame, the exporter's aside, is `frame`.
  std::int32_t innermost_site(const ExportedNode& node, const Frame& frame);
  std::vector<Frame> frames_of(const ExportedNode& node, std::size_t levels);

  const ExportedProgram& program_;
  StaticTables& tables_;
  CallSiteRows call_sites_;
  std::unordered_map<std::string, std::int32_t> modules_;
  std::map<std::pair<std::int32_t, std::int32_t>, NodePlace> places_;  ///< by (modules, source) of a node
  /// By module call, place and function.
  std::map<std::tuple<std::uint32_t, std::int32_t, std::vector<std::int32_t>, std::string>, std::vector<CallOnLine>>
      calls_on_line_;
};

}  // namespace tl::lt
