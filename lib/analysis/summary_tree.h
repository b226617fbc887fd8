#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cost/module_costs.h"
#include "trace/trace.h"

namespace tl {

/// What stands in one place of the tree of calls: a module under the module that called it, or operations that stand
/// loose between such calls.
struct SummaryNode {
  static constexpr std::size_t kNamesKept = 3;

  std::vector<std::int32_t> modules;  ///< rows; empty for loose operations, several where blocks are folded
  std::int32_t layer = -1;            ///< of loose operations: the Layer that began their first run
  std::int64_t calls = 0;             ///< of the module; runs of the loose operations
  OpId output;                        ///< first output of the first call; last of the loose operations in a run
  CostSum cost;                       ///< inclusive
  ModuleParams params;                ///< distinct tensors below the module
  std::vector<std::size_t> children;  ///< nodes, in order of first execution
  std::int64_t num_loose = 0;         ///< loose operations in the first run
  std::array<std::int32_t, kNamesKept> names{-1, -1, -1};     ///< func_name codes of the first of them
  std::array<std::int32_t, kNamesKept> distinct{-1, -1, -1};  ///< func_name codes of the first that differ
  bool has_more_names = false;                                ///< some of them have other names than `distinct`

  bool is_module() const { return !modules.empty(); }
};

/// The calls of a recording, all calls of a module from the same place together. Node 0 is the root. Children come
/// after their parents.
class SummaryTree {
 public:
  /// `by_layer`: loose operations are kept apart by Layer, not run by run. Linear in Ops and calls.
  SummaryTree(const Trace& trace, const std::vector<OpCost>& costs, bool by_layer);

  const Trace& trace() const { return trace_; }
  const SummaryNode& operator[](std::size_t node) const { return nodes_[node]; }
  std::size_t size() const { return nodes_.size(); }

  /// Address of the first module of a node; empty for loose operations.
  std::string_view address(std::size_t node) const;
  std::string_view class_name(std::size_t node) const;

  /// One node for several of the same kind: sums, and so many levels of children joined by name, so that nothing is
  /// lost. Made anew in the tree; the members stay as they are.
  std::size_t merge(std::span<const std::size_t> members, int levels);

 private:
  friend class SummaryTreeBuilder;
  std::string key_of(std::size_t node) const;

  const Trace& trace_;
  std::vector<SummaryNode> nodes_;
};

}  // namespace tl
