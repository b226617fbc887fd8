#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tl {

/// What the dispatcher's schema cannot tell of an operator. One row an operator in op_table.cpp; an operator without a
/// row is handled by the default row and counted in trace.health where that matters.
struct OpSemantics {
  std::string_view name;  ///< qualified, without overload: aten::batch_norm
  std::string_view func_name =
      {};  ///< functional name people know, where it is not the operator's own: conv2d for aten::_convolution
  std::uint32_t hidden_writes = 0;  ///< bit k: argument k is written without an alias annotation
  int hidden_writes_if = -1;        ///< only when this bool argument is true; -1: always
  bool uninitialised = false;       ///< yields uninitialised memory
  std::string_view top_level_calls =
      {};  ///< what a composite JIT operation calls through the dispatcher, by comma; see docs/ops.md
  std::string_view why = {};
};

/// The row of a qualified operator name (without overload); the default row (empty name) if it has none.
const OpSemantics& op_semantics(std::string_view name);

/// Every row, sorted by name.
struct OpTable {
  const OpSemantics* begin;
  const OpSemantics* end;
};
OpTable op_table();

/// The functional name of an operator: the table's, or the operator's own without namespace: aten::relu_ → relu_.
/// conv rank is decided by the caller (aten::_convolution is conv1d, conv2d or conv3d by the rank of its weight).
std::string_view func_name_of(std::string_view qualified_name);

/// layer_type of a func name: lower case, without underscores: batch_norm → batchnorm, relu_ → relu, __iadd__ → iadd.
std::string layer_type_of(std::string_view func_name);

}  // namespace tl
