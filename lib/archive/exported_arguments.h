#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "archive/exported_parts.h"

namespace tl {

/// Reads the Arguments of one graph: those that use its values, and those that define them.
class ExportedArguments {
 public:
  /// `depth`: graphs around the values, the program's own counts 1.
  ExportedArguments(ExportedReading& reading, ExportedGraph& graph, ExportedScope& scope, std::size_t depth)
      : reading_(reading), graph_(&graph), scope_(scope), defined_(&scope), depth_(depth) {}
  /// For arguments outside of graphs, which define nothing and hold no graphs.
  ExportedArguments(ExportedReading& reading, const ExportedScope& scope)
      : reading_(reading), graph_(nullptr), scope_(scope), defined_(nullptr), depth_(0) {}

  /// Every value named must be defined.
  ExportedArgument use(JsonRef json);
  /// Every name is a new value of `producer`, a node's index or -1 for the graph's inputs, which may be constants too.
  ExportedArgument define(JsonRef json, std::int32_t producer);

 private:
  using ValueKind = ExportedGraphValue::Kind;

  ExportedArgument read(JsonRef json);
  ExportedArgument constant(std::string_view kind, JsonRef value);
  ExportedArgument named(JsonRef object, std::string_view key, ValueKind kind);
  ExportedArgument symbol(JsonRef value, ValueKind kind);
  ExportedArgument optional_tensor(JsonRef value);
  ExportedArgument custom_object(JsonRef value);
  ExportedArgument graph_argument(JsonRef value);
  ExportedArgument dict(JsonRef value);
  template <typename Item>
  ExportedArgument list(std::string_view kind, JsonRef value, Item item);
  ExportedRef define_value(std::string_view name, ValueKind kind);
  ExportedRef use_value(std::string_view name, ValueKind kind);

  ExportedReading& reading_;
  ExportedGraph* graph_;
  const ExportedScope& scope_;
  ExportedScope* defined_;
  std::size_t depth_;
  bool defining_ = false;
  std::int32_t producer_ = -1;
};

/// Reads a graph within a graph; `depth` counts the graphs around its values, itself included.
ExportedGraph read_exported_subgraph(ExportedReading& reading, JsonRef json, std::string_view name, std::size_t depth);

}  // namespace tl
