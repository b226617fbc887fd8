#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/source_text.h"
#include "trace/capture.h"
#include "trace/trace.h"

namespace tl {

/// Sets of columns that steps read and write. Every column belongs to one (column_group); a step names those it
/// touches.
enum ColumnGroup : std::uint32_t {
  kCaptureEvents = 1u << 0,   ///< what the Capture holds: there before the first step
  kCaptureOutputs = 1u << 1,  ///< Capture::outputs: there before the first step
  kProgram = 1u << 2,         ///< instructions, call_sites, site_contexts, modules, params, buffers: the static part
  kOpRows = 1u << 3,          ///< ops: kind, instruction, slot, call, context, dtype, shape, address, raw labels
  kOpFlags = 1u << 4,         ///< ops.flags
  kEdgeRows = 1u << 5,        ///< ops.edge_begin, edges
  kArgWords = 1u << 6,        ///< args, flow_args, ops.args_begin, flow.args_begin
  kParamUses = 1u << 7,
  kCallRows = 1u << 8,     ///< module_calls
  kBranchRows = 1u << 9,   ///< branches, conditionals, conditional_arms, bools
  kBranchOfOp = 1u << 10,  ///< ops.branch
  kLoopRows = 1u << 11,
  kFlowRows = 1u << 12,     ///< flow without its arguments
  kTimes = 1u << 13,        ///< op_seconds, module_call_seconds
  kPayloadOfOp = 1u << 14,  ///< ops.payload, ops.sample
  kPayloadRows = 1u << 15,
  kDistances = 1u << 16,       ///< the four distance columns of ops
  kBufferVersions = 1u << 17,  ///< buffers.num_versions, buffers.last_op
  kPasses = 1u << 18,          ///< ops.layer, ops.pass_index, layers without numbers, layer_ops
  kLabels = 1u << 19,          ///< layers.type_num, layers.total_num
  kRunFacts = 1u << 20,        ///< run
  kModuleCounts = 1u << 21,    ///< modules.num_calls
  kGraphHash = 1u << 22,
  kFinished = 1u << 23,
  kStatistics = 1u << 24,  ///< statistics
};

/// The group of a column of columns.def, or of the members of Trace that are no tables: args, flow_args, op_seconds,
/// module_call_seconds, statistics, graph_shape_hash, run, finished (with an empty field).
ColumnGroup column_group(std::string_view table, std::string_view field);

/// What a step works on.
struct StepContext {
  Trace& trace;
  Capture& capture;  ///< emptied by materialise-ops but for its outputs, by add-output-nodes of those
  std::span<const SourceText> sources = {};  ///< texts of the model's functions; empty where the file holds none
};

/// One row of the pipeline.
struct Step {
  std::string_view name;
  std::uint32_t reads = 0;   ///< ColumnGroup bits
  std::uint32_t writes = 0;  ///< ColumnGroup bits
  void (*run)(StepContext&) = nullptr;
  std::string_view about;  ///< one line for --list-steps
};

/// Watches the steps; see observers.h.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  virtual void before(const Step& step, const Trace& trace) {
    (void)step;
    (void)trace;
  }
  virtual void after(const Step& step, const Trace& trace) {
    (void)step;
    (void)trace;
  }
};

// The steps, one file each, in the order of kSteps (pipeline.cpp).
void materialise_ops(StepContext& context);
void add_output_nodes(StepContext& context);
void mark_output_ancestors(StepContext& context);
void remove_orphans(StepContext& context);
void mark_depths(StepContext& context);
void attribute_branches(StepContext& context);
void fix_buffers(StepContext& context);
void group_loops(StepContext& context);
void assign_labels(StepContext& context);
void rename_references(StepContext& context);
void settle_payloads(StepContext& context);
void build_modules(StepContext& context);
void hash_graph(StepContext& context);
void freeze(StepContext& context);

}  // namespace tl
