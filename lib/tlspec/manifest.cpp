#include "tlspec/manifest.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/json_text.h"
#include "tensor/dtype.h"
#include "tlspec/json_reader.h"

namespace tl {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kKindNames = {std::string_view("trace"), std::string_view("sparse")};
constexpr std::array kLevelNames = {std::string_view("portable"), std::string_view("audit")};

Json number(double value) { return Json(json_from_double(value)); }

Json optional_number(const std::optional<double>& value) { return value ? number(*value) : Json(nullptr); }

Json make_io(const IoRecord& record) {
  Json top = Json::array();
  for (const auto& [index, value] : record.top) top.push_back(Json::array({index, number(value)}));
  return Json{{"role", record.role},
              {"source", record.source},
              {"dtype", short_name(record.dtype)},
              {"shape", record.sizes},
              {"scalar", record.scalar},
              {"min", optional_number(record.min)},
              {"max", optional_number(record.max)},
              {"top", top}};
}

Json make_list(const std::vector<IoRecord>& records) {
  Json list = Json::array();
  for (const auto& record : records) list.push_back(make_io(record));
  return list;
}

Json make_files(const std::vector<ManifestFile>& files, bool is_volatile) {
  Json list = Json::array();
  for (const auto& file : files) {
    if (file.is_volatile != is_volatile) continue;
    list.push_back(Json{{"name", file.name}, {"bytes", file.bytes}, {"digest", file.digest}});
  }
  return list;
}

Json make_model(const RunInfo& run) {
  return Json{{"file", run.model_file},
              {"kind", run.model_kind},
              {"digest", run.model_digest},
              {"bytes", run.model_bytes},
              {"class", run.model_class}};
}

Json make_run(const RunInfo& run, const std::vector<ManifestFile>& files) {
  return Json{{"engine", run.engine},
              {"method", run.method},
              {"mode", run.mode},
              {"device", run.device},
              {"dtype", run.dtype},
              {"save", run.save},
              {"save_note", run.save_note},
              {"threads", run.threads},
              {"seed", run.seed},
              {"grad", run.grad},
              {"inputs", make_list(run.inputs)},
              {"outputs", make_list(run.outputs)},
              {"volatile", Json{{"load_seconds", number(run.load_seconds)},
                                {"forward_seconds", number(run.forward_seconds)},
                                {"files", make_files(files, true)}}}};
}

Json make_outcome(const Outcome& outcome) {
  return Json{{"status", outcome.status},
              {"phase", outcome.phase},
              {"origin", outcome.origin},
              {"reason", outcome.reason},
              {"error_type", outcome.error_type},
              {"boundary_kind", outcome.boundary_kind},
              {"boundary_label", outcome.boundary_label},
              {"n_ops_committed", outcome.n_ops_committed},
              {"frontier_labels", outcome.frontier_labels},
              {"module", outcome.module},
              {"call_site", outcome.call_site},
              {"operands", outcome.operands}};
}

Json make_health(const Health& health) {
  return Json{{"operator_calls", health.operator_calls},
              {"recorded_calls", health.recorded_calls},
              {"witnessed", health.witnessed},
              {"dispatcher_calls", health.dispatcher_calls},
              {"unaccounted_calls", health.unaccounted_calls},
              {"nonfinite", health.nonfinite},
              {"nonfinite_checked", health.nonfinite_checked},
              {"unannounced_writes", health.unannounced_writes},
              {"unknown_ops", health.unknown_ops},
              {"skipped_payloads", health.skipped_payloads},
              {"state_changed", health.state_changed}};
}

}  // namespace

std::string_view to_string(RecordingKind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }

std::string_view to_string(Level level) { return kLevelNames[static_cast<std::size_t>(level)]; }

std::optional<Level> level_from_name(std::string_view name) {
  const auto found = std::ranges::find(kLevelNames, name);
  if (found == kLevelNames.end()) return std::nullopt;
  return static_cast<Level>(found - kLevelNames.begin());
}

const ManifestFile* Manifest::find_file(std::string_view name) const {
  const auto found = std::ranges::find(files, name, &ManifestFile::name);
  return found == files.end() ? nullptr : &*found;
}

std::string shard_name(std::int64_t shard) {
  auto digits = std::to_string(shard);
  if (digits.size() < 5) digits.insert(0, 5 - digits.size(), '0');
  return "tensors-" + digits + ".safetensors";
}

std::string format_manifest(const Manifest& manifest) {
  Json counts = Json::object();
  for (const auto& [name, rows] : manifest.counts) counts[name] = rows;
  Json document{
      {"format", kTlspecFormat},
      {"version", manifest.version},
      {"producer", Json{{"name", manifest.producer_name}, {"version", manifest.producer_version}}},
      {"kind", to_string(manifest.kind)},
      {"level", to_string(manifest.level)},
      {"model", make_model(manifest.run)},
      {"run", make_run(manifest.run, manifest.files)},
      {"outcome", make_outcome(manifest.run.outcome)},
      {"capture_verified", manifest.capture_verified ? Json(*manifest.capture_verified) : Json(nullptr)},
      {"capture_verification_reason", manifest.capture_verification_reason},
      {"health", make_health(manifest.run.health)},
      {"counts", counts},
      {"graph_shape_hash", manifest.graph_shape_hash},
  };
  if (manifest.kind == RecordingKind::kSparse) document["event_shapes"] = manifest.event_shapes;
  document["files"] = make_files(manifest.files, false);
  return json_text(document, JsonStyle::kFile);
}

}  // namespace tl
