#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.h"
#include "trace/capture.h"
#include "trace/dump.h"
#include "trace/run_info.h"
#include "trace/statistics_table.h"
#include "trace/string_pool.h"
#include "trace/tables.h"

namespace tl {

/// One finished recording: columns and pools. Postprocess builds it from a Capture; a reader maps it from a `.tlspec`.
/// Views (OpView, LayerView …, trace/views.h) are a pointer and a row.
struct Trace {
  RunInfo run;
  StringPool strings;
  ShapePool shapes;
  OpsTable ops;
  EdgesTable edges;
  ParamUsesTable param_uses;
  InstructionsTable instructions;
  CallSitesTable call_sites;
  SiteContextsTable site_contexts;
  LayersTable layers;
  LayerOpsTable layer_ops;
  ModulesTable modules;
  ModuleCallsTable module_calls;
  ParamsTable params;
  BuffersTable buffers;
  BranchesTable branches;
  ConditionalsTable conditionals;
  ConditionalArmsTable conditional_arms;
  BoolsTable bools;
  LoopsTable loops;
  FlowTable flow;
  PayloadsTable payloads;
  Column<std::int64_t> args;           ///< packed run-time arguments of Ops, trace/args.h
  Column<std::int64_t> flow_args;      ///< packed operands and list values of flow rows
  Column<float> op_seconds;            ///< wall time a call, a row an Op; timing.safetensors, volatile
  Column<double> module_call_seconds;  ///< inclusive wall time, a row a module call; volatile
  StatisticsTable statistics;          ///< of values, kept or not; statistics.safetensors
  std::string graph_shape_hash;        ///< hex; over ops, func names, edges, roles and module addresses
  std::shared_ptr<const PayloadSource> payload_source;  ///< index = row of payloads; null when read without payloads
  bool finished = false;                                ///< set by the step `freeze`

  std::size_t num_ops() const { return ops.kind.size(); }
};

/// Calls visitor(table name, table) for every table of the trace, in the order of columns.def.
template <typename TraceT, typename Visitor>
void for_each_table(TraceT& trace, Visitor&& visitor) {
#define TL_TABLE_BEGIN(table) \
  visitor(std::string_view(#table), trace.table, [](auto& rows, auto&& visit) { visit_##table(rows, visit); });
#define TL_COLUMN(table, field, type, unit, meaning)
#define TL_TABLE_END(table)
#include "trace/columns.def"
#undef TL_TABLE_BEGIN
#undef TL_COLUMN
#undef TL_TABLE_END
}

/// Raw label of an event of a capture: relu_1_4_raw. Counts the events before it.
std::string raw_label(const Capture& capture, std::uint32_t event);
/// Raw label of an Op as during capture: relu_1_4_raw.
std::string raw_label(const Trace& trace, OpId op);
/// Label of a Layer: relu_1_2, or input_1 for inputs, outputs and buffers. Needs the step assign-labels.
std::string layer_label(const Trace& trace, LayerId layer);
/// Label of an Op: the Layer's, with `:pass` when the Layer has several passes (always, if `always_pass`).
std::string op_label(const Trace& trace, OpId op, bool always_pass = false);
/// relu_1 (layer_type and type_num only).
std::string layer_label_short(const Trace& trace, LayerId layer);
/// layer_type of an Op: that of its instruction, or input, output, buffer.
std::string_view layer_type(const Trace& trace, OpId op);
std::string_view func_name(const Trace& trace, OpId op);
/// `address:k` of a module call; the root call is self:1.
std::string module_call_label(const Trace& trace, ModuleCallId call);
/// The stack of module calls around an Op, outermost first, without the root call.
std::vector<ModuleCallId> module_stack(const Trace& trace, OpId op);
/// Edges of an Op as a range of row numbers of trace.edges.
inline std::pair<std::size_t, std::size_t> edge_range(const Trace& trace, OpId op) {
  const auto& begin = trace.ops.edge_begin;
  const auto next = op.index() + 1;
  return {static_cast<std::size_t>(begin[op.index()]),
          next < begin.size() ? static_cast<std::size_t>(begin[next]) : trace.edges.parent.size()};
}
/// Packed run-time arguments of an Op, and operands (with the list value, if it is one) of a flow row. The begins must
/// be monotone and in range.
std::span<const std::int64_t> op_args(const Trace& trace, OpId op);
std::span<const std::int64_t> flow_args(const Trace& trace, std::size_t flow_row);
/// Distinct parents in argument order.
std::vector<OpId> parents(const Trace& trace, OpId op);
/// Children of every Op as CSR: begin has num_ops()+1 rows. Built on demand, O(edges).
struct ChildIndex {
  std::vector<std::int32_t> begin;
  std::vector<std::int32_t> child;
};
ChildIndex make_child_index(const Trace& trace);
/// On what the recorded value of an Op rests, as far as the columns of ops and payloads tell: full where its payload is
/// at hand or stored, sampled where elements at fixed positions are, else shape. `statistics`: the recording has
/// numbers of the Op.
Evidence evidence_of(const Trace& trace, OpId op, bool statistics = false);
/// site key: s1|addr/addr|layer_type|slot or empty|ordinal, %-escaped; grouping-independent. One string an Op (empty
/// for inputs, outputs, buffers).
std::vector<std::string> site_keys(const Trace& trace);

}  // namespace tl
