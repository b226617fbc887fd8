#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "torch/recording.h"
#include "torch/small_files.h"

// Where operations of exported programs stand: lines that are named several times, subgraphs, module calls and what
// they return, writes of inputs. The files are written by tests/torch/data/make_exported.py.
namespace tl {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using Names = std::vector<std::string>;

Trace record(const std::string& name) {
  const auto file = std::filesystem::path(TL_SOURCE_DIR) / "tests/torch/data" / ("small_" + name + ".pt2");
  return test::record_file({file, {}}, 0);
}

/// `sub×4` of every Layer of the types, in order.
Names layers_of(const Trace& trace, const Names& types) {
  Names found;
  const auto& layers = trace.layers;
  for (std::size_t row = 0; row < layers.layer_type.size(); ++row) {
    const std::string type(trace.strings[layers.layer_type[row]]);
    if (testing::Matches(Contains(type))(types)) found.push_back(type + "×" + std::to_string(layers.num_passes[row]));
  }
  return found;
}

/// The function whose value a call returned first, by `two:1`.
std::string returned_by(const Trace& trace, const std::string& call) {
  const auto& calls = trace.module_calls;
  for (std::size_t row = 0; row < calls.module.size(); ++row) {
    const auto module = static_cast<std::size_t>(calls.module[row]);
    const auto name =
        std::string(trace.strings[trace.modules.address[module]]) + ":" + std::to_string(calls.call_index[row]);
    if (name != call || calls.output_op[row] < 0) continue;
    const auto instruction =
        static_cast<std::size_t>(trace.ops.instruction[static_cast<std::size_t>(calls.output_op[row])]);
    return std::string(trace.strings[trace.instructions.func_name[instruction]]);
  }
  return "none";
}

TEST(ExportedAttribution, UnrolledLoopsAreOneLayerALine) {
  const auto trace = record("lines");
  EXPECT_THAT(layers_of(trace, {"sub"}), ElementsAre("sub×4"));
  EXPECT_THAT(layers_of(trace, {"tanh"}), ElementsAre("tanh×3"));
  EXPECT_THAT(layers_of(trace, {"relu"}), ElementsAre("relu×4"));
  EXPECT_THAT(layers_of(trace, {"cat"}), ElementsAre("cat×3"));
  EXPECT_THAT(layers_of(trace, {"mul"}), ElementsAre("mul×3", "mul×3"));
  EXPECT_THAT(layers_of(trace, {"add"}), ElementsAre("add×3", "add×2"));
  EXPECT_THAT(layers_of(trace, {"softplus"}), ElementsAre("softplus×2", "softplus×2"));
}

TEST(ExportedAttribution, SubgraphsCallNoRootOfTheirOwn) {
  const auto trace = record("arms");
  EXPECT_EQ(trace.modules.num_calls[0], 1);
  EXPECT_EQ(returned_by(trace, "line:1"), "linear");
}

TEST(ExportedAttribution, OperationsOfABodyAreToldApart) {
  const auto trace = record("body");
  EXPECT_THAT(layers_of(trace, {"add", "linear", "tanh"}), ElementsAre("add×3", "linear×3", "tanh×3", "add×3"));
}

TEST(ExportedAttribution, CallsReturnWhatTheirSignatureNames) {
  EXPECT_EQ(returned_by(record("returns"), "two:1"), "mul");
  EXPECT_EQ(returned_by(record("returns_unsigned"), "two:1"), "linear") << "of several values, the one made first";
}

TEST(ExportedAttribution, WritesOfInputsAreTold) {
  EXPECT_THAT(record("writes").run.health.state_changed, ElementsAre("input a"));
  EXPECT_THAT(record("writes.core").run.health.state_changed, ElementsAre("input a"));
  EXPECT_THAT(record("returns").run.health.state_changed, IsEmpty());
}

TEST(ExportedInputs, ExamplesMayHaveAttributes) {
  const auto trace = record("marked");
  EXPECT_TRUE(trace.run.outcome.complete());
  EXPECT_THAT(layers_of(trace, {"relu"}), ElementsAre("relu×1"));
}

}  // namespace
}  // namespace tl
