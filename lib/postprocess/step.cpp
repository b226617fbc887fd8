#include "postprocess/step.h"

namespace tl {
namespace {

ColumnGroup group_of_op_column(std::string_view field) {
  if (field == "flags") return kOpFlags;
  if (field == "edge_begin") return kEdgeRows;
  if (field == "args_begin") return kArgWords;
  if (field == "layer" || field == "pass_index") return kPasses;
  if (field == "branch") return kBranchOfOp;
  if (field == "payload" || field == "sample") return kPayloadOfOp;
  if (field.find("distance") != std::string_view::npos) return kDistances;
  return kOpRows;
}

}  // namespace

ColumnGroup column_group(std::string_view table, std::string_view field) {
  if (table == "ops") return group_of_op_column(field);
  if (table == "edges") return kEdgeRows;
  if (table == "args" || table == "flow_args" || field == "args_begin") return kArgWords;
  if (table == "param_uses") return kParamUses;
  if (table == "module_calls") return kCallRows;
  if (table == "branches" || table == "conditionals" || table == "conditional_arms") return kBranchRows;
  if (table == "bools") return kBranchRows;
  if (table == "loops") return kLoopRows;
  if (table == "flow") return kFlowRows;
  if (table == "op_seconds" || table == "module_call_seconds") return kTimes;
  if (table == "payloads") return kPayloadRows;
  if (table == "statistics") return kStatistics;
  if (table == "buffers" && (field == "num_versions" || field == "last_op")) return kBufferVersions;
  if (field == "type_num" || field == "total_num") return kLabels;
  if (table == "layers" || table == "layer_ops") return kPasses;
  if (table == "modules" && field == "num_calls") return kModuleCounts;
  if (table == "run") return kRunFacts;
  if (table == "graph_shape_hash") return kGraphHash;
  if (table == "finished") return kFinished;
  return kProgram;
}

}  // namespace tl
