// Python TorchLens's recordings of the reference models: from its ops and the call sites in `seed_rule_layers` a
// Capture is made; grouping, labels and distances must come out as the files say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "postprocess/pipeline.h"
#include "support/trace_fixtures.h"
#include "trace/invariants.h"

namespace tl {
namespace {

using nlohmann::json;

class CaptureFromJson {
 public:
  explicit CaptureFromJson(const json& variant) : variant_(variant) {}

  Capture make() {
    for (const auto& layer : variant_["seed_rule_layers"]) {
      for (const auto& op : layer["observed_ops"]) key_of_[op.get<std::string>()] = layer["key"];
    }
    auto& calls = capture_.module_calls;
    calls.module.push_back(module("self"));
    calls.call_index.push_back(1);
    calls.parent_call.push_back(-1);
    calls.call_site.push_back(-1);
    calls.first_op.push_back(0);
    calls.end_op.push_back(-1);
    calls.output_op.push_back(-1);
    for (const auto& op : variant_["ops"]) add(op);
    return std::move(capture_);
  }

 private:
  std::int32_t code(const std::string& text) { return capture_.strings.intern(text); }

  std::int32_t module(const std::string& address) {
    const auto [found, is_new] = modules_.try_emplace(address, static_cast<std::int32_t>(modules_.size()));
    if (is_new) {
      auto& modules = capture_.modules;
      modules.address.push_back(code(address));
      modules.all_addresses.push_back(-1);
      modules.class_name.push_back(-1);
      modules.qualified_class.push_back(-1);
      modules.parent.push_back(found->second == 0 ? -1 : 0);
      modules.training.push_back(2);
      modules.num_calls.push_back(0);
    }
    return found->second;
  }

  /// Not interned on purpose: equal places get different rows, as two methods of a traced module have.
  std::int32_t site(const json& frame) {
    auto& sites = capture_.call_sites;
    sites.file.push_back(code(frame[0].get<std::string>()));
    sites.line.push_back(frame[1].get<std::int32_t>());
    sites.column.push_back(frame[3].is_null() ? -1 : frame[3].get<std::int32_t>());
    sites.column_end.push_back(-1);
    sites.function.push_back(code(frame[2].get<std::string>()));
    return static_cast<std::int32_t>(sites.file.size() - 1);
  }

  std::int32_t context(std::int32_t of_module, std::int32_t parent, std::int32_t at) {
    auto& contexts = capture_.site_contexts;
    contexts.module.push_back(of_module);
    contexts.parent.push_back(parent);
    contexts.call_site.push_back(at);
    return static_cast<std::int32_t>(contexts.module.size() - 1);
  }

  std::uint32_t instruction(const json& op, std::int32_t at) {
    auto& instructions = capture_.instructions;
    instructions.op_name.push_back(code("py::" + op["func_name"].get<std::string>()));
    instructions.overload.push_back(-1);
    instructions.func_name.push_back(code(op["func_name"].get<std::string>()));
    instructions.layer_type.push_back(code(op["layer_type"].get<std::string>()));
    instructions.call_site.push_back(at);
    instructions.arg_template.push_back(-1);
    instructions.value_names.push_back(-1);
    instructions.flags.push_back(0);
    return static_cast<std::uint32_t>(instructions.op_name.size() - 1);
  }

  void add(const json& op) {
    const auto label = op["label"].get<std::string>();
    if (op["is_output"].get<bool>()) {
      CaptureOutput output;
      output.role = op["io_role"].get<std::string>();
      output.op = row_of(op["parents"][0].get<std::string>());
      output.shape = static_cast<std::uint32_t>(capture_.shapes.intern({}));
      output.dtype = DType::kF32;
      capture_.outputs.push_back(output);
      return;
    }
    CaptureEvent event;
    event.edge_begin = static_cast<std::uint32_t>(capture_.edges.size());
    event.shape = static_cast<std::uint32_t>(capture_.shapes.intern({}));
    std::int16_t argument = 0;
    for (const auto& parent : op["parents"]) {
      capture_.edges.push_back({row_of(parent.get<std::string>()), argument++, -1});
    }
    if (op["is_input"].get<bool>()) {
      event.kind = OpKind::kInput;
      event.address = static_cast<std::uint32_t>(code(op["io_role"].get<std::string>()));
    } else if (op["is_buffer"].get<bool>()) {
      event.kind = OpKind::kBuffer;
      event.address = static_cast<std::uint32_t>(code(op["address"].get<std::string>()));
    } else {
      const auto& key = key_of_.at(label);
      const auto of_module = module(key[0].get<std::string>());
      const auto& frames = key[1];
      auto at = context(of_module, -1, -1);
      for (std::size_t i = 0; i + 1 < frames.size(); ++i) at = context(of_module, at, site(frames[i]));
      event.site_context = static_cast<std::uint32_t>(at);
      event.instruction = instruction(op, site(frames[frames.size() - 1]));
      const bool multi = op["in_multi_output"].get<bool>();
      event.slot = static_cast<std::uint16_t>(multi ? op["multi_output_index"].get<int>() : 0);
    }
    if (event.kind != OpKind::kOperation) event.site_context = 0;
    const auto row = static_cast<std::uint32_t>(capture_.events.size());
    capture_.events.push_back(event);
    rows_[label] = row;
    if (op["num_passes"].get<int>() == 1) rows_[op["layer_label"].get<std::string>()] = row;
  }

  std::uint32_t row_of(const std::string& label) const { return rows_.at(label); }

  const json& variant_;
  Capture capture_;
  std::map<std::string, json> key_of_;
  std::map<std::string, std::int32_t> modules_;
  std::map<std::string, std::uint32_t> rows_;
};

std::vector<std::string> expected_labels(const json& variant) {
  std::map<std::string, std::string> label_of;
  for (const auto& layer : variant["seed_rule_layers"]) {
    for (std::size_t i = 0; i < layer["observed_ops"].size(); ++i) {
      label_of[layer["observed_ops"][i].get<std::string>()] = layer["op_labels"][i].get<std::string>();
    }
  }
  std::vector<std::string> labels;
  for (const auto& op : variant["ops"]) labels.push_back(label_of.at(op["label"].get<std::string>()));
  return labels;
}

void expect_distances(const json& op, const Trace& trace, std::size_t row) {
  const auto expect = [&](const char* name, std::int32_t stored) {
    EXPECT_EQ(stored, op[name].is_null() ? -1 : op[name].get<std::int32_t>()) << name << " of " << op["label"];
  };
  expect("min_distance_from_input", trace.ops.min_distance_from_input[row]);
  expect("max_distance_from_input", trace.ops.max_distance_from_input[row]);
  expect("min_distance_to_output", trace.ops.min_distance_to_output[row]);
  expect("max_distance_to_output", trace.ops.max_distance_to_output[row]);
}

TEST(ReferenceModels, GroupingLabelsAndDistancesAreThoseOfTheRule) {
  const auto folder = test::shared_file("reference");
  if (folder.empty()) GTEST_SKIP() << "the reference recordings are not here (" << TL_SHARED_DIR << "/reference)";
  std::size_t variants = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream file(entry.path());
    const auto document = json::parse(file);
    if (!document.contains("variants")) continue;
    for (const auto& [name, variant] : document["variants"].items()) {
      if (!variant.contains("seed_rule_layers")) continue;
      SCOPED_TRACE(entry.path().filename().string() + " " + name);
      ++variants;
      const auto trace = run_pipeline(CaptureFromJson(variant).make());
      EXPECT_EQ(test::labels(trace), expected_labels(variant));
      ASSERT_EQ(trace.num_ops(), variant["ops"].size());
      for (std::size_t row = 0; row < trace.num_ops(); ++row) {
        const auto& op = variant["ops"][row];
        expect_distances(op, trace, row);
        if (op["is_output"].get<bool>()) continue;
        EXPECT_EQ((trace.ops.flags[row] & kOpOutputParent) != 0, op["is_output_parent"].get<bool>()) << op["label"];
        EXPECT_EQ((trace.ops.flags[row] & kOpInternalSink) != 0, op["is_internal_sink"].get<bool>()) << op["label"];
        if (op["is_buffer"].get<bool>()) continue;
        EXPECT_EQ((trace.ops.flags[row] & kOpInternalSource) != 0, op["is_internal_source"].get<bool>()) << op["label"];
      }
    }
  }
  EXPECT_GE(variants, 15U);
}

}  // namespace
}  // namespace tl
