#include "diff/gates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diff/map_rules.h"
#include "diff_fixtures.h"

namespace tl {
namespace {

/// Two values without a name, as a directory of .npy files has them.
Dump plain_dump() {
  Dump dump;
  for (const auto* name : {"a", "blocks.1.fc"}) {
    DumpEntry entry;
    entry.name = name;
    entry.dtype = DType::kF32;
    entry.sizes = {4};
    entry.value = std::make_shared<test::Tensors::Ref>(test::floats({1, 2, 3, 4}));
    dump.entries.push_back(std::move(entry));
  }
  return dump;
}

std::vector<std::string> reasons(const std::vector<DeadGate>& gates) {
  std::vector<std::string> texts;
  for (const auto& gate : gates) texts.push_back(gate.why);
  return texts;
}

const std::vector<FailOn> kAll = {FailOn::kSites,   FailOn::kOutputs, FailOn::kArguments,
                                  FailOn::kWeights, FailOn::kInputs,  FailOn::kStructure};

TEST(DeadGates, OfValuesWithoutNamesAreAllButSitesAndStructure) {
  const auto dump = plain_dump();
  const auto side = make_side(dump);
  const auto report = compare_recordings(side, side, {}).report;
  EXPECT_THAT(
      reasons(dead_gates(side, side, report, kAll)),
      testing::ElementsAre("no output of the model was compared",
                           "one side has neither operations with arguments nor constants of modules",
                           "no weight of one side was found in the other", "no input has a value on both sides"));
  EXPECT_TRUE(dead_gates(side, side, report, {FailOn::kSites, FailOn::kStructure}).empty());
}

TEST(DeadGates, ConstantsOfModulesDecideArguments) {
  auto dump = plain_dump();
  dump.modules = {{"norm", "LayerNorm", "torch.nn.LayerNorm", "", 0, {{"eps", "1e-05"}}}};
  const auto side = make_side(dump);
  const auto report = compare_recordings(side, side, {}).report;
  EXPECT_TRUE(dead_gates(side, side, report, {FailOn::kArguments}).empty());
}

TEST(DeadGates, OfWholeRecordingsAreNone) {
  const auto trace = test::trace_of(
      "module self\ncontext c0 module=self\ninstruction relu func_name=relu layer_type=relu\n"
      "call self:1 first_op=x end_op=end\nop x input out=f32[4] address=input.x\nop y relu out=f32[4] parents=x@0\n"
      "op z output out=f32[4] parents=y@0 address=output\n",
      {test::floats({1, 2, 3, 4}), test::floats({1, 2, 3, 4}), test::floats({1, 2, 3, 4})});
  const auto side = make_side(trace);
  EXPECT_TRUE(dead_gates(side, side, compare_recordings(side, side, {}).report, kAll).empty());
  DiffOptions options;
  options.values = false;
  EXPECT_THAT(reasons(dead_gates(side, side, compare_recordings(side, side, options).report, kAll)),
              testing::ElementsAre("--static looks at no values", "--static looks at no values",
                                   "--static looks at no values"));
}

TEST(UnusedRules, AreToldByFileAndLine) {
  const auto dump = plain_dump();
  const auto side = make_side(dump);
  const auto report = compare_recordings(side, side, {}).report;
  EXPECT_THAT(unused_rules("# all\n^blocks\\. rel_l2 < 1\n\n^encoder rel_l2 < 1\n", "tol.txt", report),
              testing::ElementsAre("tol.txt:4"));
  EXPECT_THAT(unused_map_rules("blocks\\.(.*) -> layers.\\1\nblocks.1.fc -> x\nencoder -> e\n", "names.map", side),
              testing::ElementsAre("names.map:2", "names.map:3"))
      << "the first rule that matches decides";
  EXPECT_TRUE(is_named(report.sites[1], "blocks.1"));
  EXPECT_FALSE(is_named(report.sites[1], "blocks.11"));
}

}  // namespace
}  // namespace tl
