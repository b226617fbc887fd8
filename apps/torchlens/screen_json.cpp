#include <nlohmann/json.hpp>

#include "analysis/finite_check.h"
#include "json_output.h"
#include "screen.h"

namespace tl::cli {
namespace {

using Json = nlohmann::ordered_json;

Json io_json(const std::vector<IoRecord>& records, bool stable) {
  Json list = Json::array();
  for (const auto& record : records) {
    Json item;
    item["role"] = record.role;
    if (!record.source.empty() && !stable) item["source"] = record.source;
    if (record.dtype == DType::kNone) {
      item["value"] = record.scalar;
    } else {
      item["dtype"] = short_name(record.dtype);
      item["shape"] = record.sizes;
    }
    if (record.min && record.max) {
      item["min"] = json_number(*record.min);
      item["max"] = json_number(*record.max);
    }
    for (const auto& [index, value] : record.top)
      item["top"].push_back({{"index", index}, {"value", json_number(value)}});
    list.push_back(std::move(item));
  }
  return list;
}

Json run_json(const RunInfo& run, bool stable) {
  Json facts = {{"model_file", run.model_file},
                {"model_kind", run.model_kind},
                {"model_class", run.model_class},
                {"model_digest", run.model_digest},
                {"model_bytes", run.model_bytes},
                {"engine", run.engine},
                {"method", run.method},
                {"mode", run.mode},
                {"dtype", run.dtype},
                {"device", run.device},
                {"threads", run.threads},
                {"seed", run.seed},
                {"grad", run.grad},
                {"save", run.save}};
  if (!stable) {
    facts["load_seconds"] = run.load_seconds;
    facts["forward_seconds"] = run.forward_seconds;
  }
  return facts;
}

Json health_json(const Trace& trace) {
  const auto& health = trace.run.health;
  const auto counts = count_checked(trace);
  return {{"operator_calls", health.operator_calls},
          {"recorded_calls", health.recorded_calls},
          {"witnessed", health.witnessed},
          {"dispatcher_calls", health.dispatcher_calls},
          {"unaccounted_calls", health.unaccounted_calls},
          {"nonfinite_checked", !counts.nothing_checked()},
          {"values_checkable", counts.checkable},
          {"values_checked", counts.checked},
          {"values_sampled", counts.sampled},
          {"nonfinite", health.nonfinite},
          {"unannounced_writes", health.unannounced_writes},
          {"unknown_ops", health.unknown_ops},
          {"skipped_payloads", health.skipped_payloads},
          {"state_changed", health.state_changed}};
}

void add_costs(Json& item, const CostSum& cost, bool stable) {
  const bool none_counted = cost.uncounted_calls > 0 && cost.flops == 0;
  item["flops_forward"] = none_counted ? Json() : Json(cost.flops);
  item["macs_forward"] = none_counted ? Json() : Json(cost.macs);
  item["uncounted_calls"] = cost.uncounted_calls;
  item["bytes_read"] = cost.bytes_read;
  item["bytes_written"] = cost.bytes_written;
  item["activation_memory"] = cost.activation_bytes;
  if (!stable) item["duration"] = cost.seconds;
  item["saved_bytes"] = cost.saved_bytes;
}

Json module_json(const Trace& trace, const SummaryRow& row, bool stable) {
  Json item;
  item["module"] = row.module.valid() ? Json(trace.strings[trace.modules.address[row.module.index()]]) : Json();
  item[row.module.valid() ? "class" : "operations"] = row.module.valid() ? row.class_name : display_name(row);
  item["depth"] = row.depth;
  if (row.modules > 1) item["num_folded"] = row.modules;
  item["num_calls"] = row.calls;
  item["num_ops"] = row.cost.num_ops;
  if (row.output.valid()) {
    const auto sizes = trace.shapes[trace.ops.shape[row.output.index()]];
    item["shape"] = std::vector<std::int64_t>(sizes.begin(), sizes.end());
  }
  item["num_params"] = row.params.inclusive.elements;
  item["param_memory"] = row.params.inclusive.bytes;
  add_costs(item, row.cost, stable);
  return item;
}

Json totals_json(const Trace& trace, const TraceSummary& summary, bool stable) {
  Json totals = {{"num_ops", summary.num_ops},
                 {"num_layers", summary.num_layers},
                 {"num_recurrent_layers", summary.num_recurrent},
                 {"num_params", summary.params.all.elements},
                 {"num_params_trainable", summary.params.all.trainable},
                 {"num_params_executed", summary.params.used.elements},
                 {"num_tied_tensors", summary.params.tied},
                 {"param_memory", summary.params.all.bytes},
                 {"num_buffers", summary.params.buffers},
                 {"buffer_memory", summary.params.buffer_bytes},
                 {"flops_forward", summary.cost.flops},
                 {"macs_forward", summary.cost.macs},
                 {"is_lower_bound", summary.cost.is_lower_bound()}};
  totals["uncounted_operators"] = Json::array();
  for (const auto& uncounted : summary.cost.uncounted) {
    totals["uncounted_operators"].push_back({{"name", uncounted.name}, {"calls", uncounted.calls}});
  }
  totals["bytes_read"] = summary.cost.bytes_read;
  totals["bytes_written"] = summary.cost.bytes_written;
  totals["activation_memory"] = summary.memory.total_bytes;
  totals["peak_activation_memory"] = summary.memory.peak_bytes;
  totals["peak_activation_op"] =
      summary.memory.peak_op.valid() ? Json(op_label(trace, summary.memory.peak_op)) : Json();
  if (!stable) totals["duration"] = summary.seconds;
  totals["saved_bytes"] = summary.saved_bytes;
  return totals;
}

}  // namespace

Json outcome_json(const Outcome& outcome) {
  Json item = {{"status", outcome.status}};
  if (outcome.complete()) return item;
  item.update({{"phase", outcome.phase},
               {"origin", outcome.origin},
               {"reason", outcome.reason},
               {"error_type", outcome.error_type},
               {"boundary_kind", outcome.boundary_kind},
               {"boundary_label", outcome.boundary_label},
               {"n_ops_committed", outcome.n_ops_committed},
               {"frontier_labels", outcome.frontier_labels},
               {"module", outcome.module},
               {"call_site", outcome.call_site},
               {"operands", outcome.operands}});
  return item;
}

Json first_screen_json(const Trace& trace, const Verification& verification, const SummaryScreenOptions& options) {
  auto chosen = summary_options(options);
  chosen.memory = true;
  const auto summary = summarise(trace, chosen);
  Json body;
  body["run"] = run_json(trace.run, options.stable);
  body["inputs"] = io_json(trace.run.inputs, options.stable);
  body["outputs"] = io_json(trace.run.outputs, options.stable);
  body["modules"] = Json::array();
  for (const auto& row : summary.rows) body["modules"].push_back(module_json(trace, row, options.stable));
  body["totals"] = totals_json(trace, summary, options.stable);
  body["health"] = health_json(trace);
  body["outcome"] = outcome_json(trace.run.outcome);
  body["capture_verified"] = verification.verified ? Json(*verification.verified) : Json();
  body["capture_verification_reason"] = verification.reason;
  body["graph_shape_hash"] = trace.graph_shape_hash;
  return body;
}

}  // namespace tl::cli
