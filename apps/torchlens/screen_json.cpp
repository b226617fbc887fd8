#include <nlohmann/json.hpp>

#include "json_output.h"
#include "screen.h"

namespace tl::cli {
namespace {

using Json = nlohmann::ordered_json;

Json io_json(const std::vector<IoRecord>& records) {
  Json list = Json::array();
  for (const auto& record : records) {
    Json item;
    item["role"] = record.role;
    if (!record.source.empty()) item["source"] = record.source;
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

Json run_json(const RunInfo& run) {
  return {{"model_file", run.model_file},
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
          {"save", run.save},
          {"load_seconds", run.load_seconds},
          {"forward_seconds", run.forward_seconds}};
}

Json health_json(const Health& health) {
  return {{"operator_calls", health.operator_calls},
          {"recorded_calls", health.recorded_calls},
          {"witnessed", health.witnessed},
          {"dispatcher_calls", health.dispatcher_calls},
          {"unaccounted_calls", health.unaccounted_calls},
          {"nonfinite_checked", health.nonfinite_checked},
          {"nonfinite", health.nonfinite},
          {"unannounced_writes", health.unannounced_writes},
          {"unknown_ops", health.unknown_ops},
          {"skipped_payloads", health.skipped_payloads},
          {"state_changed", health.state_changed}};
}

Json modules_json(const Trace& trace, const TraceSummary& summary) {
  Json list = Json::array();
  for (const auto& row : summary.rows) {
    Json item;
    item["module"] = row.module.valid() ? Json(row.name) : Json();
    item[row.module.valid() ? "class" : "operations"] = row.module.valid() ? row.class_name : row.name;
    item["num_calls"] = row.calls;
    item["num_ops"] = row.num_ops;
    if (row.output.valid()) {
      const auto sizes = trace.shapes[trace.ops.shape[row.output.index()]];
      item["shape"] = std::vector<std::int64_t>(sizes.begin(), sizes.end());
    }
    item["num_params"] = row.params;
    item["duration"] = row.seconds;
    item["saved_bytes"] = row.saved_bytes;
    list.push_back(std::move(item));
  }
  return list;
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
               {"n_ops_committed", outcome.n_ops_committed}});
  return item;
}

Json first_screen_json(const Trace& trace, const Verification& verification) {
  const auto summary = summarise(trace);
  Json body;
  body["run"] = run_json(trace.run);
  body["inputs"] = io_json(trace.run.inputs);
  body["outputs"] = io_json(trace.run.outputs);
  body["modules"] = modules_json(trace, summary);
  body["totals"] = {{"num_ops", summary.num_ops},
                    {"num_layers", summary.num_layers},
                    {"num_recurrent_layers", summary.num_recurrent},
                    {"num_params", summary.params},
                    {"duration", summary.seconds},
                    {"saved_bytes", summary.saved_bytes}};
  body["health"] = health_json(trace.run.health);
  body["outcome"] = outcome_json(trace.run.outcome);
  body["capture_verified"] = verification.verified ? Json(*verification.verified) : Json();
  body["capture_verification_reason"] = verification.reason;
  body["graph_shape_hash"] = trace.graph_shape_hash;
  return body;
}

}  // namespace tl::cli
