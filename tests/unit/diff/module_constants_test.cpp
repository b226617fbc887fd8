#include "diff/module_constants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diff_fixtures.h"

namespace tl {
namespace {

/// A module norm of that class with one operation inside, between an input and an output.
Trace module_trace(const std::string& class_name, const std::string& name, const std::string& arguments,
                   const std::string& before = "") {
  const auto type = name.substr(name.find("::") + 2);
  return test::trace_of(
      "module self\nmodule norm parent=self class_name=" + class_name +
      "\ncontext c0 module=self\ncontext c1 module=norm\n" + before + "instruction " + name + " func_name=" + type +
      " layer_type=" + type + " arg_template=\"" + arguments +
      "\"\ncall self:1 first_op=a end_op=end\ncall norm:1 parent_call=self:1 first_op=b end_op=c output_op=b\n"
      "op a input out=f32[2,4] address=input.x\nop b " +
      name +
      " call=norm:1 context=c1 out=f32[2,4] parents=a@0\nop c output out=f32[2,4] parents=b@0 "
      "address=output\n");
}

DumpModule module_of(const std::string& class_name, std::vector<std::pair<std::string, std::string>> constants,
                     const std::string& package = "torch.nn.modules.") {
  return {"norm", class_name, package + class_name, "", 0, std::move(constants)};
}

std::vector<std::string> texts(const std::vector<ArgumentDifference>& differences) {
  std::vector<std::string> found;
  for (const auto& difference : differences) {
    found.push_back(difference.name + ": " + difference.reference + " | " + difference.subject);
  }
  return found;
}

std::vector<std::string> against(const DumpModule& module, const Trace& trace) {
  return texts(ModuleConstants(trace).differences(module, OpId{1}));
}

TEST(ModuleConstants, NamesAnArgumentOfAnotherValue) {
  const auto trace =
      module_trace("LayerNorm", "aten::layer_norm", "input=%0, normalized_shape=[4], eps=1e-05, cudnn_enable=True");
  const auto module = [](const std::string& eps) {
    return module_of("LayerNorm", {{"normalized_shape", "[4]"}, {"eps", eps}, {"elementwise_affine", "True"}});
  };
  EXPECT_THAT(against(module("1e-06"), trace), testing::ElementsAre("eps: 1e-06 | 1e-05"));
  EXPECT_TRUE(against(module("1e-05"), trace).empty());
}

TEST(ModuleConstants, ComparesByMeaning) {
  const auto softmax = module_trace("Softmax", "aten::softmax", "self=%0, dim=1, dtype=None");
  EXPECT_TRUE(against(module_of("Softmax", {{"dim", "-1"}}), softmax).empty()) << "the last of two axes";
  EXPECT_THAT(against(module_of("Softmax", {{"dim", "0"}}), softmax), testing::ElementsAre("dim: 0 | 1"));
  const auto pool = module_trace("AvgPool1d", "aten::avg_pool1d", "self=%0, kernel_size=[2], stride=[], padding=[0]");
  EXPECT_TRUE(
      against(module_of("AvgPool1d", {{"kernel_size", "[2]"}, {"stride", "2"}, {"padding", "0"}}), pool).empty());
}

// The width of a model and the axis of a softmax may both be called dim in a class that is no part of torch.
TEST(ModuleConstants, ClaimsNothingOfOtherClasses) {
  const auto trace = module_trace("Head", "aten::softmax", "self=%0, dim=-1, dtype=None");
  EXPECT_TRUE(against(module_of("Head", {{"dim", "512"}}, "vendor."), trace).empty());
  EXPECT_TRUE(against(module_of("Softmax", {{"dim", "0"}}), trace).empty()) << "the call is of another class";
}

// torch/nn/functional.py, embedding: padding_idx=None is handed on as -1.
TEST(ModuleConstants, NoneIsLeftToForward) {
  const auto trace = module_trace("Embedding", "aten::embedding", "weight=%0, indices=%1, padding_idx=-1");
  EXPECT_TRUE(against(module_of("Embedding", {{"padding_idx", "None"}}), trace).empty());
  EXPECT_TRUE(against(module_of("Embedding", {{"padding_idx", "3"}}), trace).empty()) << "gradients alone read it";
}

// torch/nn/functional.py, local_response_norm: div.mul(alpha).add(k).pow(beta), where add has an alpha of its own.
TEST(ModuleConstants, AFactorOfASumIsNoConstantOfTheModule) {
  const auto trace = module_trace("LocalResponseNorm", "aten::add", "self=%0, other=1.0, alpha=1");
  EXPECT_TRUE(against(module_of("LocalResponseNorm", {{"alpha", "0.0001"}, {"size", "2"}}), trace).empty());
}

TEST(ModuleConstants, LeavesOutWhatOnlyTrainingReads) {
  const auto eval = module_trace("Dropout", "aten::dropout", "input=%0, p=0.5, train=False");
  const auto train = module_trace("Dropout", "aten::dropout", "input=%0, p=0.5, train=True");
  const auto module = module_of("Dropout", {{"p", "0.1"}, {"inplace", "False"}});
  EXPECT_TRUE(against(module, eval).empty());
  EXPECT_THAT(against(module, train), testing::ElementsAre("p: 0.1 | 0.5"));
}

// torch/nn/modules/conv.py: with padding_mode='reflect' the input is padded first and the convolution gets 0.
TEST(ModuleConstants, AModuleThatPadsItselfHandsOnNoPadding) {
  const auto trace = test::trace_of(
      "module self\nmodule norm parent=self class_name=Conv1d\ncontext c0 module=self\ncontext c1 module=norm\n"
      "instruction aten::pad func_name=pad layer_type=pad arg_template=\"self=%0, pad=[1, 1]\"\n"
      "instruction aten::conv1d func_name=conv1d layer_type=conv1d "
      "arg_template=\"input=%0, stride=[1], padding=[0]\"\n"
      "call self:1 first_op=a end_op=end\ncall norm:1 parent_call=self:1 first_op=p end_op=c output_op=b\n"
      "op a input out=f32[1,1,4] address=input.x\nop p aten::pad call=norm:1 context=c1 out=f32[1,1,6] parents=a@0\n"
      "op b aten::conv1d call=norm:1 context=c1 out=f32[1,1,4] parents=p@0\nop c output out=f32[1,1,4] parents=b@0 "
      "address=output\n");
  const ModuleConstants constants(trace);
  EXPECT_TRUE(constants.differences(module_of("Conv1d", {{"padding", "[1]"}, {"stride", "[1]"}}), OpId{2}).empty());
  EXPECT_THAT(texts(constants.differences(module_of("Conv1d", {{"padding", "[1]"}, {"stride", "[2]"}}), OpId{2})),
              testing::ElementsAre("stride: [2] | [1]"));
}

TEST(ModuleConstants, OfTwoRecordings) {
  const auto ours =
      module_of("Block", {{"eps", "1e-06"}, {"p", "0.1"}, {"inplace", "True"}, {"mode", "\"a\""}}, "vendor.");
  const auto theirs =
      module_of("Block", {{"eps", "1e-05"}, {"p", "0.2"}, {"inplace", "False"}, {"mode", "1"}}, "other.");
  EXPECT_THAT(texts(constant_differences(ours, theirs, false)), testing::ElementsAre("eps: 1e-06 | 1e-05"));
  EXPECT_THAT(texts(constant_differences(ours, theirs, true)),
              testing::ElementsAre("eps: 1e-06 | 1e-05", "p: 0.1 | 0.2"));
  EXPECT_TRUE(constant_differences(ours, ours, true).empty());
}

TEST(ModuleConstants, StandAtTheSiteInTheReport) {
  const auto trace =
      module_trace("LayerNorm", "aten::layer_norm", "input=%0, normalized_shape=[4], eps=1e-05, cudnn_enable=True");
  Dump dump;
  dump.modules = {module_of("LayerNorm", {{"eps", "1e-06"}})};
  DumpEntry entry;
  entry.name = "norm";
  entry.class_name = "LayerNorm";
  entry.module_row = 0;
  entry.dtype = DType::kF32;
  entry.sizes = {2, 4};
  dump.entries = {entry};
  DiffOptions options;
  options.values = false;
  const auto arguments = [&](const Side& reference, const Side& subject) {
    const auto report = compare_recordings(reference, subject, options).report;
    std::vector<std::string> found;
    for (const auto& site : report.sites) std::ranges::copy(texts(site.arguments), std::back_inserter(found));
    return found;
  };
  EXPECT_THAT(arguments(make_side(dump), make_side(trace)), testing::ElementsAre("eps: 1e-06 | 1e-05"));
  EXPECT_THAT(arguments(make_side(trace), make_side(dump)), testing::ElementsAre("eps: 1e-05 | 1e-06"));
  auto other = dump;
  other.modules[0].constants = {{"eps", "1e-03"}};
  EXPECT_THAT(arguments(make_side(dump), make_side(other)), testing::ElementsAre("eps: 1e-06 | 1e-03"));
}

}  // namespace
}  // namespace tl
