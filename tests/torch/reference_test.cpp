#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "torch/declared_differences.h"
#include "torch/recording.h"
#include "torch/reference_comparison.h"
#include "torch/reference_run.h"

namespace tl {
namespace {

namespace fs = std::filesystem;

const fs::path kReference = fs::path(TL_SHARED_DIR) / "reference";

/// One file run on one set of inputs.
struct Case {
  std::string model;
  std::string artifact;  ///< script, trace or export
  std::string inputs;    ///< name of the function that made them: inputs, inputs_elif
  std::string name() const { return model + "_" + artifact + "_" + inputs; }
  friend void PrintTo(const Case& the_case, std::ostream* out) { *out << the_case.name(); }
};

fs::path file_of(const std::string& model, const std::string& artifact) {
  return kReference / "artifacts" / (model + "." + artifact + (artifact == "export" ? ".pt2" : ".pt"));
}

/// Scripts with every set of inputs, traces and exports with the one they were made with.
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  const fs::path data = fs::path(TL_SOURCE_DIR) / "tests/torch/data";
  for (const auto& entry : fs::directory_iterator(data)) {
    const std::string suffix = ".inputs.safetensors";
    auto name = entry.path().filename().string();
    if (!name.ends_with(suffix)) continue;
    name.resize(name.size() - suffix.size());
    const auto dot = name.find('.');
    const auto model = name.substr(0, dot);
    const auto inputs = dot == std::string::npos ? "inputs" : name.substr(dot + 1);
    for (const std::string artifact : {"script", "trace", "export"}) {
      const bool own_inputs = artifact == "script" || inputs == "inputs";
      if (own_inputs && fs::exists(file_of(model, artifact))) {
        cases.push_back({model, artifact, inputs});
      }
    }
  }
  std::ranges::sort(cases, {}, &Case::name);
  return cases;
}

Trace record(const Case& the_case) {
  const auto suffix = the_case.inputs == "inputs" ? std::string() : "." + the_case.inputs;
  const fs::path data = fs::path(TL_SOURCE_DIR) / "tests/torch/data";
  return test::record_file(
      {file_of(the_case.model, the_case.artifact), data / (the_case.model + suffix + ".inputs.safetensors")},
      /*seed=*/0);
}

class Reference : public testing::TestWithParam<Case> {};

// What is recorded of a file is what Python TorchLens recorded of the model it was made from, but for the differences
// that docs/differences.md declares.
TEST_P(Reference, AgreesWithPython) {
  const auto& the_case = GetParam();
  const auto trace = record(the_case);
  ASSERT_TRUE(trace.run.outcome.complete()) << trace.run.outcome.reason;
  const auto reference =
      test::read_reference_run(kReference / (the_case.model + ".json"), the_case.inputs, the_case.artifact);
  test::ReferenceComparison comparison(reference, trace, test::artifact_named(the_case.artifact));
  comparison.compare_all();
  EXPECT_THAT(comparison.misfits(), testing::IsEmpty());
  EXPECT_GT(comparison.labels_taken_over(), 0);
}

INSTANTIATE_TEST_SUITE_P(Models, Reference, testing::ValuesIn(all_cases()),
                         [](const auto& instance) { return instance.param.name(); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Reference);

std::vector<std::string> misfits_of(const test::ReferenceRun& reference, const Trace& trace) {
  test::ReferenceComparison comparison(reference, trace, test::Artifact::kScript);
  comparison.compare_all();
  return comparison.misfits();
}

// A comparison that lets everything pass would prove nothing: each kind of fault is planted once.
TEST(ReferenceComparison, SeesPlantedFaults) {
  if (!fs::is_directory(kReference)) GTEST_SKIP() << "the folder " << kReference << " beside the project is absent";
  const auto reference = test::read_reference_run(kReference / "recurrent_cell.json", "inputs", "script");
  const auto sound = record({"recurrent_cell", "script", "inputs"});
  ASSERT_THAT(misfits_of(reference, sound), testing::IsEmpty());
  const std::size_t last = sound.num_ops() - 2;  // the readout, before the output
  const auto with = [&](auto plant) {
    Trace trace = sound;
    plant(trace);
    return misfits_of(reference, trace);
  };
  const auto linear = static_cast<std::size_t>(sound.ops.instruction[last]);
  const auto place = static_cast<std::size_t>(sound.instructions.call_site[linear]);
  const auto edge = edge_range(sound, OpId{static_cast<std::uint32_t>(last)}).first;
  const auto layer = static_cast<std::size_t>(sound.ops.layer[last]);
  EXPECT_THAT(with([&](Trace& t) { t.instructions.func_name.mut(linear) = t.strings.intern("bilinear"); }),
              testing::SizeIs(testing::Ge(1)));
  EXPECT_THAT(with([&](Trace& t) { t.edges.parent.mut(edge) -= 1; }), testing::SizeIs(1));
  EXPECT_THAT(with([&](Trace& t) { t.ops.module_call.mut(last) = 0; }), testing::SizeIs(1));
  EXPECT_THAT(with([&](Trace& t) { t.modules.num_calls.mut(1) -= 1; }), testing::SizeIs(1));
  EXPECT_THAT(with([&](Trace& t) { t.param_uses.param.mut(t.param_uses.param.size() - 1) -= 1; }), testing::SizeIs(1));
  EXPECT_THAT(with([&](Trace& t) { t.call_sites.column.mut(place) += 1; }), testing::SizeIs(testing::Ge(1)));
  EXPECT_THAT(with([&](Trace& t) { t.ops.payload.mut(last) = t.ops.payload[last - 1]; }), testing::SizeIs(1));
  EXPECT_THAT(with([&](Trace& t) { t.ops.layer.mut(last) = t.ops.layer[last - 1]; }), testing::SizeIs(testing::Ge(1)));
  EXPECT_THAT(with([&](Trace& t) { t.layers.type_num.mut(layer) += 1; }), testing::SizeIs(1));
  EXPECT_THAT(with([&](Trace& t) { t.layers.grouping_basis.mut(layer) = 1; }), testing::SizeIs(1));
}

// A rule that no recording needs would only hide faults.
TEST(DeclaredDifferences, AreNeededAndExplained) {
  if (!fs::is_directory(kReference)) GTEST_SKIP() << "the folder " << kReference << " beside the project is absent";
  std::ifstream page(fs::path(TL_SOURCE_DIR) / "docs/differences.md");
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  std::set<std::string, std::less<>> met = {"*"};
  for (const auto& the_case : all_cases()) {
    const auto json = kReference / (the_case.model + ".json");
    const auto run = test::read_reference_run(json, the_case.inputs, the_case.artifact);
    for (const auto& op : run.ops) met.insert(op.func_name);
  }
  for (const auto& row : test::declared_differences()) {
    EXPECT_TRUE(met.contains(row.operation)) << row.operation;
    EXPECT_TRUE(row.operation == "*" || text.find(row.operation) != std::string::npos) << row.operation;
  }
}

TEST(ReferenceSetup, EveryModelIsThere) {
  if (!fs::is_directory(kReference)) GTEST_SKIP() << "the folder " << kReference << " beside the project is absent";
  EXPECT_EQ(all_cases().size(), 40u);  // 13 scripts, 3 of them with further inputs, 13 traces and 11 exports
}

}  // namespace
}  // namespace tl
