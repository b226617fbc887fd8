#include "diff/module_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/digest.h"
#include "diff_fixtures.h"

namespace tl {
namespace {

/// A module norm with a weight of that digest and a buffer of those values, both read by its one operation.
Trace norm_trace(const std::string& digest, const std::vector<float>& mean) {
  return test::trace_of(
      "module self\nmodule norm parent=self class_name=BatchNorm1d\ncontext c0 module=self\ncontext c1 module=norm\n"
      "instruction aten::batch_norm func_name=batch_norm layer_type=batchnorm\n"
      "param norm.weight module=norm dtype=f32 shape=[2] bytes=8 digest=" +
          digest +
          "\nbuffer norm.running_mean module=norm dtype=f32 shape=[2] bytes=8\ncall self:1 first_op=a end_op=end\n"
          "call norm:1 parent_call=self:1 first_op=m end_op=c output_op=b\nop a input out=f32[2] address=input.x\n"
          "op m buffer call=norm:1 context=c1 out=f32[2] address=norm.running_mean\n"
          "op b aten::batch_norm call=norm:1 context=c1 out=f32[2] parents=a@0,m@3 params=norm.weight@1\n"
          "op c output out=f32[2] parents=b@0 address=output\n",
      {test::floats({1, 2}), test::floats(mean), test::floats({1, 2}), test::floats({1, 2})});
}

std::string digest_of(const std::vector<float>& values) {
  return digest_hex(std::as_bytes(std::span<const float>(values)));
}

Dump norm_dump(const std::string& digest, const std::vector<float>& mean) {
  Dump dump;
  dump.modules = {{"norm", "BatchNorm1d", "torch.nn.modules.batchnorm.BatchNorm1d", "", 0, {}}};
  DumpEntry entry;
  entry.name = "norm";
  entry.class_name = "BatchNorm1d";
  entry.module_row = 0;
  entry.dtype = DType::kF32;
  entry.sizes = {2};
  entry.value = std::make_shared<test::Tensors::Ref>(test::floats({1, 2}));
  dump.entries = {entry};
  dump.params = {{"norm.weight", {}, DType::kF32, {2}, digest, false, nullptr},
                 {"norm.running_mean", {}, DType::kF32, {2}, digest_of(mean), true, nullptr}};
  return dump;
}

const std::string kOne(32, '1');
const std::string kTwo(32, '2');

std::vector<std::string> texts(const ModuleState& state) {
  std::vector<std::string> found;
  for (const auto& difference : state.differences) {
    found.push_back(difference.reference_text + " | " + difference.subject_text);
  }
  return found;
}

TEST(ModuleState, ComparesDigestsOfADumpWithWhatATraceHolds) {
  const auto trace = norm_trace(kOne, {3, 4});
  const auto same = norm_dump(kOne, {3, 4});
  const auto equal = compare_module_state(make_side(same), make_side(trace), {});
  EXPECT_TRUE(equal.differences.empty());
  EXPECT_EQ(equal.buffers.agreement, Agreement::kSame);
  EXPECT_EQ(equal.buffers.total, 1);
  const auto other = norm_dump(kTwo, {3, 5});
  const auto found = compare_module_state(make_side(other), make_side(trace), {});
  EXPECT_THAT(texts(found), testing::ElementsAre("norm.weight 22222222 | norm.weight 11111111",
                                                 "norm.running_mean " + digest_of({3, 5}).substr(0, 8) +
                                                     " | norm.running_mean " + digest_of({3, 4}).substr(0, 8)));
  EXPECT_EQ(found.buffers.agreement, Agreement::kDifferent);
  EXPECT_THAT(found.buffers.details, testing::ElementsAre("norm.running_mean: contents differ"));
}

TEST(ModuleState, StandsAtTheModuleThatHoldsIt) {
  const auto trace = norm_trace(kOne, {3, 4});
  const auto dump = norm_dump(kOne, {3, 5});
  for (const bool dump_is_reference : {true, false}) {
    const auto ours = dump_is_reference ? make_side(dump) : make_side(trace);
    const auto theirs = dump_is_reference ? make_side(trace) : make_side(dump);
    const auto report = compare_recordings(ours, theirs, {}).report;
    std::vector<std::string> names;
    for (const auto& site : report.sites) {
      for (const auto& argument : site.arguments) names.push_back(site.subject.module + " " + argument.name);
    }
    EXPECT_THAT(names, testing::ElementsAre("norm running_mean")) << dump_is_reference;
  }
}

}  // namespace
}  // namespace tl
