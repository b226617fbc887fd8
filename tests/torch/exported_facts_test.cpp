#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "torch/executions.h"
#include "torch/recording.h"
#include "torch/small_files.h"
#include "trace/tables.h"

// What ran, in order, and the types and shapes that came out, against the list that record_oracle.py --facts wrote when
// the fixtures were made: the oracle where no Python is at hand.
namespace tl {
namespace {

using nlohmann::json;

constexpr std::int64_t kSeed = 1234;

std::filesystem::path facts_of(const test::ZooFile& file) {
  const auto stem = file.model.stem().string() + (file.program.empty() ? "" : "." + file.program);
  return file.model.parent_path() / (stem + ".facts.json");
}

std::vector<test::ZooFile> files_with_facts() {
  auto files = test::runnable_exported_files();
  std::erase_if(files, [](const auto& file) { return !std::filesystem::exists(facts_of(file)); });
  return files;
}

std::string text_of(std::string_view dtype, const std::vector<std::int64_t>& sizes) {
  std::string text = " " + std::string(dtype) + "[";
  for (std::size_t i = 0; i < sizes.size(); ++i) text += (i ? "," : "") + std::to_string(sizes[i]);
  return text + "]";
}

/// Tensors of a value as `float32[2,3]`; lists are opened, what is no tensor is left out.
std::string text_of(const json& value) {
  if (value.is_array()) {
    std::string text;
    for (const auto& part : value) text += text_of(part);
    return text;
  }
  if (!value.is_object()) return {};
  return text_of(value.at("dtype").get<std::string>(), value.at("shape").get<std::vector<std::int64_t>>());
}

/// `aten::add.Tensor` of torch.ops.aten.add.Tensor; empty for functions of Python and higher-order operators.
std::string operator_of(const std::string& target) {
  const std::string prefix = "torch.ops.";
  if (!target.starts_with(prefix) || target.starts_with("torch.ops.higher_order.")) return {};
  const auto first = target.find('.', prefix.size());
  const auto last = target.rfind('.');
  const auto overload = target.substr(last);
  return target.substr(prefix.size(), first - prefix.size()) + "::" + target.substr(first + 1, last - first - 1) +
         (overload == ".default" ? "" : overload);
}

class ExportedFacts : public testing::TestWithParam<test::ZooFile> {
 protected:
  void SetUp() override {
    std::ifstream file(facts_of(GetParam()));
    facts_ = json::parse(file);
    const auto session = test::engine().load(test::model_request(GetParam()));
    outputs_ = session->run(test::request_for(GetParam(), session->info(), kSeed), capture_).outputs;
    ASSERT_TRUE(capture_.run.outcome.complete()) << capture_.run.outcome.reason;
  }

  /// An operator that ran and the tensors that came out; none recorded for rows of flow.
  struct Ran {
    std::string name;
    std::string tensors;
  };

  /// What ran under a name of the file, in order.
  std::vector<Ran> ran() const {
    std::vector<Ran> result;
    for (const auto& execution : test::executions_of(capture_)) {
      const auto row = execution.instruction;
      if (capture_.strings[capture_.instructions.value_names[row]].empty() || !test::is_dispatched(capture_, row)) {
        continue;
      }
      Ran one{test::full_name(capture_, row), {}};
      for (const auto event : execution.events) {
        const auto shape = capture_.shapes[static_cast<std::int32_t>(capture_.events[event].shape)];
        one.tensors += text_of(dtype_info(capture_.events[event].dtype).torch_name, {shape.begin(), shape.end()});
      }
      result.push_back(std::move(one));
    }
    return result;
  }

  json facts_;
  Capture capture_;
  std::vector<OutputValue> outputs_;
};

// Every node that yields tensors ran when Python ran it and yielded the same types and shapes. What the lowering adds
// of its own has no name in the file; numbers in tensors that no input reaches are rows of flow, without type and
// shape.
TEST_P(ExportedFacts, AreThoseOfTheOps) {
  std::vector<Ran> expected;
  for (const auto& op : facts_.at("ops")) {
    const auto name = operator_of(op.at("target").get<std::string>());
    const auto tensors = text_of(op.at("value"));
    if (!name.empty() && !tensors.empty()) expected.push_back({name, tensors});
  }
  const auto actual = ran();
  std::size_t at = 0;
  for (const auto& op : expected) {
    while (at < actual.size() && actual[at].tensors.empty() && actual[at].name != op.name) ++at;  // host values
    ASSERT_LT(at, actual.size()) << op.name << op.tensors << " did not run";
    ASSERT_EQ(actual[at].name, op.name) << "execution " << at;
    if (!actual[at].tensors.empty()) {
      ASSERT_EQ(actual[at].tensors, op.tensors) << op.name;
    }
    ++at;
  }
  for (; at < actual.size(); ++at) EXPECT_EQ(actual[at].tensors, "") << actual[at].name << " ran after all others";
}

// The leaves of what came out, host values included.
TEST_P(ExportedFacts, AreThoseOfTheOutputs) {
  for (std::size_t leaf = 0; leaf < outputs_.size(); ++leaf) {
    char key[32];
    std::snprintf(key, sizeof key, "out.%03zu", leaf);
    ASSERT_TRUE(facts_.at("ends").contains(key)) << outputs_[leaf].role;
    const auto& expected = facts_.at("ends").at(key);
    if (outputs_[leaf].tensor == nullptr) {
      EXPECT_FALSE(expected.is_object()) << outputs_[leaf].role << " is " << outputs_[leaf].scalar;
      if (expected.is_number_integer()) {
        EXPECT_EQ(outputs_[leaf].scalar, std::to_string(expected.get<std::int64_t>()));
      }
      continue;
    }
    const auto parts = outputs_[leaf].tensor->to_host();
    EXPECT_EQ(text_of(dtype_info(parts[0].tensor.dtype).torch_name, parts[0].tensor.sizes), text_of(expected))
        << outputs_[leaf].role;
  }
  EXPECT_GT(outputs_.size(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, ExportedFacts, testing::ValuesIn(files_with_facts()),
                         [](const auto& instance) { return test::case_name(instance.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ExportedFacts);

}  // namespace
}  // namespace tl
