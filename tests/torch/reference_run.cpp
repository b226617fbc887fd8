#include "torch/reference_run.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace tl::test {
namespace {

using Json = nlohmann::json;

std::string text_or_empty(const Json& json, const char* key) {
  return json.at(key).is_string() ? json.at(key).get<std::string>() : std::string();
}

ReferenceValue read_value(const Json& json) {
  ReferenceValue value;
  value.dtype = dtype_from_name(json.at("dtype").get<std::string>()).value();
  value.shape = json.at("shape").get<std::vector<std::int64_t>>();
  value.empty = !json.contains("sum");
  if (value.empty) return value;
  value.sum = json.at("sum").get<double>();
  value.mean = json.at("mean").get<double>();
  value.min = json.at("min").get<double>();
  value.max = json.at("max").get<double>();
  value.abs_mean = json.at("abs_mean").get<double>();
  if (json.contains("values")) value.values = json.at("values").get<std::vector<double>>();
  return value;
}

OpKind kind_of(const std::string& layer_type) {
  if (layer_type == "input") return OpKind::kInput;
  if (layer_type == "buffer") return OpKind::kBuffer;
  if (layer_type == "output") return OpKind::kOutput;
  return OpKind::kOperation;
}

/// The last frame of a recording is the script that made it.
void read_places(const Json& frames, ReferenceOp& op) {
  for (std::size_t i = 0; i + 1 < frames.size(); ++i) {
    const auto& frame = frames[i];
    op.places.push_back({frame.at("file").get<std::string>(), frame.at("line").get<int>(), frame.at("col").get<int>()});
  }
}

ReferenceOp read_op(const Json& json) {
  ReferenceOp op;
  op.label = json.at("label").get<std::string>();
  op.kind = kind_of(json.at("layer_type").get<std::string>());
  op.func_name = json.at("func_name").get<std::string>();
  if (op.kind == OpKind::kBuffer) op.address = text_or_empty(json, "address");
  if (op.kind == OpKind::kInput || op.kind == OpKind::kOutput) op.address = text_or_empty(json, "io_role");
  op.modules = json.at("modules").get<std::vector<std::string>>();
  op.params = json.at("param_names").get<std::vector<std::string>>();
  if (json.at("multi_output_index").is_number()) op.slot = json.at("multi_output_index").get<int>();
  op.reaches_output = json.at("min_distance_to_output").is_number();
  op.unchanged_write = json.at("buffer_value_changed").is_boolean() && !json.at("buffer_value_changed").get<bool>();
  op.value = read_value(json.at("out"));
  read_places(json.at("frames"), op);
  return op;
}

void read_layers(const Json& layers, const std::map<std::string, std::size_t>& row_of, ReferenceRun& run) {
  for (const auto& layer : layers) {
    const auto& labels = layer.at("op_labels");
    for (std::size_t pass = 0; pass < labels.size(); ++pass) {
      auto& op = run.ops[row_of.at(layer.at("observed_ops")[pass].get<std::string>())];
      op.layer = run.layer_sizes.size();
      op.layer_label = labels[pass].get<std::string>();
    }
    run.layer_sizes.push_back(labels.size());
  }
}

/// aten::add of aten.add.Tensor, as exported programs call it; other names as they are.
std::string operator_of(const std::string& name) {
  if (!name.starts_with("aten.")) return name;
  return "aten::" + name.substr(5, name.rfind('.') - 5);
}

}  // namespace

ReferenceRun read_reference_run(const std::filesystem::path& path, const std::string& inputs,
                                const std::string& artifact) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  const auto json = Json::parse(file);
  const auto& variant = json.at("variants").at("build/" + inputs);
  ReferenceRun run;
  std::map<std::string, std::size_t> row_of;
  for (const auto& op : variant.at("ops")) {
    run.ops.push_back(read_op(op));
    row_of[run.ops.back().label] = run.ops.size() - 1;
  }
  for (std::size_t row = 0; row < run.ops.size(); ++row) {
    for (const auto& parent : variant.at("ops")[row].at("parents")) {
      const auto label = parent.get<std::string>();  // the pass is left out where there is one only
      run.ops[row].parents.push_back(row_of.at(label.find(':') == std::string::npos ? label + ":1" : label));
    }
  }
  read_layers(variant.at("seed_rule_layers"), row_of, run);
  for (const auto& module : variant.at("modules")) {
    std::string addresses;
    for (const auto& address : module.at("all_addresses")) {
      addresses += (addresses.empty() ? "" : ",") + address.get<std::string>();
    }
    run.modules[module.at("address").get<std::string>()] = {addresses, module.at("num_calls").get<int>()};
  }
  for (const auto& name : json.at("artifacts").at(artifact).at("ops")) {
    run.file_ops.push_back(operator_of(name.get<std::string>()));
  }
  return run;
}

}  // namespace tl::test
