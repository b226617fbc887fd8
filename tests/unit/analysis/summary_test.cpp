#include "analysis/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "postprocess/pipeline.h"
#include "support/trace_fixtures.h"

namespace tl {
namespace {

constexpr const char* kProgram =
    "module self class_name=Net\n"
    "module fc class_name=Linear parent=self\n"
    "module act class_name=ReLU parent=self\n"
    "context c0 module=self\ncontext c1 module=fc\ncontext c2 module=act\n"
    "instruction lin func_name=linear layer_type=linear\n"
    "instruction rel func_name=relu layer_type=relu\n"
    "instruction add func_name=add layer_type=add\n"
    "instruction add/last func_name=add layer_type=add\n"
    "instruction mul func_name=mul layer_type=mul\n"
    "param fc.weight module=fc dtype=f32 shape=[3,4] bytes=48\n"
    "param fc.bias module=fc dtype=f32 shape=[3] bytes=12\n"
    "param CONSTANTS.c0 kind=constant dtype=f32 shape=[100] bytes=400\n";

TEST(Summary, ModulesAndLooseOperationsInOrder) {
  const auto trace =
      run_pipeline(test::capture_from_text(std::string("trace 1\n") + kProgram +
                                           "call self:1 first_op=a end_op=end\n"
                                           "call fc:1 parent_call=self:1 first_op=b end_op=c output_op=b\n"
                                           "call act:1 parent_call=self:1 first_op=c end_op=d output_op=c\n"
                                           "call act:2 parent_call=self:1 first_op=f end_op=g output_op=f\n"
                                           "op a input out=f32[2,4] address=input.x\n"
                                           "op b lin out=f32[2,3] parents=a@0 call=fc:1 context=c1\n"
                                           "op c rel out=f32[2,3] parents=b@0 call=act:1 context=c2\n"
                                           "op d add out=f32[2,3] parents=c@0\n"
                                           "op e mul out=f32[2,5] parents=d@0\n"
                                           "op f rel out=f32[2,5] parents=e@0 call=act:2 context=c2\n"
                                           "op g add/last out=f32[2,5] parents=f@0\n"
                                           "op h output out=f32[2,5] parents=g@0 address=output\n"));
  const auto summary = summarise(trace);
  std::vector<std::string> names;
  std::vector<std::string> classes;
  for (const auto& row : summary.rows) {
    names.push_back(row.name);
    classes.push_back(row.class_name);
  }
  EXPECT_THAT(names, testing::ElementsAre("fc", "act", "add, mul", "add"));
  EXPECT_THAT(classes, testing::ElementsAre("Linear", "ReLU", "2 ops", "1 op"));
  EXPECT_EQ(summary.rows[0].params.inclusive.elements, 15);
  EXPECT_EQ(summary.rows[1].calls, 2);
  EXPECT_EQ(summary.rows[1].cost.num_ops, 2);
  EXPECT_THAT(trace.shapes[trace.ops.shape[summary.rows[2].output.index()]], testing::ElementsAre(2, 5));
  EXPECT_EQ(summary.num_ops, 6);
  EXPECT_EQ(summary.params.all.elements, 15);  // the constant is no parameter
  EXPECT_EQ(summary.base, "");
}

TEST(Summary, GoesIntoAWrapperThatDoesNothingItself) {
  const auto trace = run_pipeline(test::capture_from_text(
      "trace 1\nmodule self\nmodule model class_name=Net parent=self\nmodule model.fc class_name=Linear parent=model\n"
      "context c0 module=self\ncontext c1 module=model.fc\ninstruction lin func_name=linear layer_type=linear\n"
      "call self:1 first_op=a end_op=end\ncall model:1 parent_call=self:1 first_op=b end_op=c output_op=b\n"
      "call model.fc:1 parent_call=model:1 first_op=b end_op=c output_op=b\n"
      "op a input out=f32[2,4] address=input.x\nop b lin out=f32[2,3] parents=a@0 call=model.fc:1 context=c1\n"
      "op c output out=f32[2,3] parents=b@0 address=output\n"));
  const auto summary = summarise(trace);
  EXPECT_EQ(summary.base, "model");
  ASSERT_EQ(summary.rows.size(), 1U);
  EXPECT_EQ(summary.rows[0].name, "model.fc");
}

/// A trace of calls of relu modules: each address in `calls` is one call with one operation; parents are called around
/// their children where they are in `containers`.
Trace trace_of_calls(const std::vector<std::pair<std::string, std::string>>& modules,
                     const std::vector<std::string>& calls, const std::string& loose_after = "") {
  std::string text = "trace 1\nmodule self class_name=Net\n";
  std::string contexts = "context c0 module=self\n";
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const auto& [address, class_name] = modules[i];
    const auto dot = address.rfind('.');
    text += "module " + address + " class_name=" + class_name +
            " parent=" + (dot == std::string::npos ? "self" : address.substr(0, dot)) + "\n";
    contexts += "context c" + std::to_string(i + 1) + " module=" + address + "\n";
  }
  text += contexts + "instruction aten::relu func_name=relu layer_type=relu arg_template=\"self=%0\"\n" +
          "instruction aten::mul func_name=mul layer_type=mul arg_template=\"self=%0, other=2\"\n";
  std::string ops = "op x input out=f32[2,4] address=input.x\n";
  std::string call_lines = "call self:1 first_op=x end_op=end\n";
  std::string previous = "x";
  std::map<std::string, int> counts;
  std::size_t number = 0;
  for (const auto& address : calls) {
    const auto op = "o" + std::to_string(number++);
    const auto found = std::ranges::find(modules, address, [](const auto& module) { return module.first; });
    const auto context = "c" + std::to_string(found - modules.begin() + 1);
    const auto call = address + ":" + std::to_string(++counts[address]);
    call_lines += "call " + call + " parent_call=self:1 first_op=" + op + " end_op=" + "o" + std::to_string(number) +
                  " output_op=" + op + "\n";
    ops +=
        "op " + op + " aten::relu out=f32[2,4] parents=" + previous + "@0 call=" + call + " context=" + context + "\n";
    previous = op;
    if (address != loose_after) continue;
    const auto loose = "o" + std::to_string(number++);
    ops += "op " + loose + " aten::mul out=f32[2,4] parents=" + previous + "@0\n";
    previous = loose;
  }
  const auto last = "o" + std::to_string(number);
  ops += "op " + last + " output out=f32[2,4] parents=" + previous + "@0 address=output\n";
  return run_pipeline(test::capture_from_text(text + call_lines + ops));
}

std::vector<std::string> shown(const TraceSummary& summary) {
  std::vector<std::string> names;
  for (const auto& row : summary.rows) names.push_back(std::string(row.depth, '>') + display_name(row));
  return names;
}

std::int64_t flops_of_top_rows(const TraceSummary& summary) {
  std::int64_t flops = 0;
  for (const auto& row : summary.rows) flops += row.depth == 0 ? row.cost.flops : 0;
  return flops;
}

TEST(Summary, NumberedNeighboursOfOneClassBecomeOneRow) {
  std::vector<std::pair<std::string, std::string>> modules = {{"stem", "Stem"}, {"layer", "ModuleList"}};
  std::vector<std::string> calls = {"stem"};
  for (int i = 0; i < 12; ++i) {
    modules.emplace_back("layer." + std::to_string(i), i < 10 ? "Block" : "Other");
    calls.push_back("layer." + std::to_string(i));
  }
  const auto trace = trace_of_calls(modules, calls);
  const auto summary = summarise(trace);
  EXPECT_THAT(shown(summary), testing::ElementsAre("stem", "layer.0-9 ×10", "layer.10-11 ×2"));
  EXPECT_EQ(summary.rows[1].cost.flops, 10 * 8);
  EXPECT_EQ(summary.rows[1].class_name, "Block");
  EXPECT_EQ(flops_of_top_rows(summary), summary.cost.flops);
  const auto unfolded = summarise(trace, {.fold = false, .max_rows = 0});
  EXPECT_EQ(unfolded.rows.size(), 13U);
  EXPECT_EQ(flops_of_top_rows(unfolded), summary.cost.flops);
}

TEST(Summary, NumbersThatDoNotFollowEachOtherStayApart) {
  const auto summary =
      summarise(trace_of_calls({{"layer", "ModuleList"}, {"layer.0", "B"}, {"layer.2", "B"}, {"layer.1", "B"}},
                               {"layer.0", "layer.2", "layer.1"}));
  EXPECT_THAT(shown(summary), testing::ElementsAre("layer.0", "layer.2", "layer.1"));
}

TEST(Summary, ALongTableIsAddedUpInTheMiddle) {
  std::vector<std::pair<std::string, std::string>> modules;
  std::vector<std::string> calls;
  for (int i = 0; i < 60; ++i) {
    modules.emplace_back("m" + std::to_string(i), "Block");
    calls.push_back(modules.back().first);
  }
  const auto summary = summarise(trace_of_calls(modules, calls), {.max_rows = 10});
  EXPECT_THAT(shown(summary),
              testing::ElementsAre("m0", "m1", "m2", "m3", "m4", "m5", "m6", "… 51 more", "m58", "m59"));
  EXPECT_EQ(summary.rows[7].cost.flops, 51 * 8);
  EXPECT_EQ(flops_of_top_rows(summary), summary.cost.flops);
}

TEST(Summary, OperationsOfAnUnrolledLoopAreOneRow) {
  const auto trace = trace_of_calls({{"cell", "Cell"}}, {"cell", "cell", "cell"}, "cell");
  const auto summary = summarise(trace);
  EXPECT_THAT(shown(summary), testing::ElementsAre("cell ×3", "mul ×3"));
  EXPECT_EQ(summary.rows[1].cost.num_ops, 3);
  EXPECT_EQ(summary.num_recurrent, 2);
  EXPECT_EQ(summary.min_passes, 3);
  EXPECT_EQ(summary.max_passes, 3);
}

TEST(Summary, LooseOperationsAreNamedOnceAndSavedBytesAddUp) {
  auto trace = run_pipeline(test::capture_from_text(
      std::string("trace 1\n") + kProgram +
      "call self:1 first_op=a end_op=end\nop a input out=f32[2] address=input.x\nop b mul out=f32[2] parents=a@0\n"
      "op c mul out=f32[2] parents=b@0\nop d add out=f32[2] parents=c@0\nop e mul out=f32[2] parents=d@0\n"
      "op f output out=f32[2] parents=e@0 address=output\n"));
  // The input is kept in full (8 bytes), as is the first operation (8); of the second a sample (4).
  trace.payloads.first_op.assign({0, 1, 2});
  trace.payloads.bytes.assign({8, 8, 4});
  trace.ops.payload.rows()[0] = 0;
  trace.ops.payload.rows()[1] = 1;
  trace.ops.sample.rows()[2] = 2;
  const auto summary = summarise(trace);
  ASSERT_EQ(summary.rows.size(), 1u);
  EXPECT_EQ(summary.rows[0].name, "mul, add");
  EXPECT_EQ(summary.rows[0].class_name, "4 ops");
  EXPECT_EQ(summary.rows[0].cost.saved_bytes, 12);
  EXPECT_EQ(summary.saved_bytes, 12);
}

TEST(Summary, AnUnrolledLoopIsOneRowToo) {
  const auto trace = run_pipeline(test::capture_from_text(
      "trace 1\nmodule self\nmodule cell class_name=Cell parent=self\ncontext c0 module=self\ncontext c1 module=cell\n"
      "instruction aten::relu func_name=relu layer_type=relu arg_template=\"self=%0\"\n"
      "instruction aten::mul/0 func_name=mul layer_type=mul arg_template=\"self=%0, other=2\"\n"
      "instruction aten::mul/1 func_name=mul layer_type=mul arg_template=\"self=%0, other=2\"\n"
      "instruction aten::add func_name=add layer_type=add arg_template=\"self=%0, other=2\"\n"
      "call self:1 first_op=x end_op=end\ncall cell:1 parent_call=self:1 first_op=a end_op=b output_op=a\n"
      "call cell:2 parent_call=self:1 first_op=c end_op=d output_op=c\n"
      "call cell:3 parent_call=self:1 first_op=e end_op=f output_op=e\n"
      "op x input out=f32[2,4] address=input.x\n"
      "op a aten::relu out=f32[2,4] parents=x@0 call=cell:1 context=c1\nop b aten::mul/0 out=f32[2,4] parents=a@0\n"
      "op c aten::relu out=f32[2,4] parents=b@0 call=cell:2 context=c1\nop d aten::mul/1 out=f32[2,4] parents=c@0\n"
      "op e aten::relu out=f32[2,4] parents=d@0 call=cell:3 context=c1\nop f aten::add out=f32[2,4] parents=e@0\n"
      "op y output out=f32[2,4] parents=f@0 address=output\n"));
  const auto summary = summarise(trace);
  EXPECT_THAT(shown(summary), testing::ElementsAre("cell ×3", "mul ×2", "add"));
  EXPECT_EQ(summary.rows[1].cost.flops, 16);
}

constexpr const char* kNested = R"(trace 1
module self class_name=Net
module layer1 class_name=Sequential parent=self
module layer1.0 class_name=Block parent=layer1
module layer1.0.act class_name=ReLU parent=layer1.0
module layer1.1 class_name=Block parent=layer1
module layer1.1.act class_name=ReLU parent=layer1.1
context c0 module=self
context c1 module=layer1.0
context c2 module=layer1.0.act
context c3 module=layer1.1
context c4 module=layer1.1.act
instruction aten::relu func_name=relu layer_type=relu arg_template="self=%0"
instruction aten::mul func_name=mul layer_type=mul arg_template="self=%0, other=2"
call self:1 first_op=x end_op=end
call layer1:1 parent_call=self:1 first_op=a end_op=y output_op=d
call layer1.0:1 parent_call=layer1:1 first_op=a end_op=c output_op=b
call layer1.0.act:1 parent_call=layer1.0:1 first_op=a end_op=b output_op=a
call layer1.1:1 parent_call=layer1:1 first_op=c end_op=y output_op=d
call layer1.1.act:1 parent_call=layer1.1:1 first_op=c end_op=d output_op=c
op x input out=f32[2,4] address=input.x
op a aten::relu out=f32[2,4] parents=x@0 call=layer1.0.act:1 context=c2
op b aten::mul out=f32[2,4] parents=a@0 call=layer1.0:1 context=c1
op c aten::relu out=f32[2,4] parents=b@0 call=layer1.1.act:1 context=c4
op d aten::mul out=f32[2,4] parents=c@0 call=layer1.1:1 context=c3
op e aten::mul out=f32[2,4] parents=d@0
op y output out=f32[2,4] parents=e@0 address=output
)";

TEST(Summary, BlocksOfACalledContainerShowItsName) {
  const auto summary = summarise(run_pipeline(test::capture_from_text(kNested)));
  EXPECT_THAT(shown(summary), testing::ElementsAre("layer1  0-1 ×2", "mul"));
  EXPECT_EQ(summary.rows[0].class_name, "Block");
  EXPECT_EQ(summary.rows[0].cost.flops, 32);
}

TEST(Summary, TheTreeShowsFoldedBlocksOnceWithTheSumsOfAll) {
  const auto trace = run_pipeline(test::capture_from_text(kNested));
  const auto modules = summarise(trace, {.level = SummaryLevel::kModule});
  EXPECT_THAT(shown(modules), testing::ElementsAre("layer1", ">0-1 ×2", ">>act ×2", ">>mul ×2", "mul"));
  EXPECT_EQ(modules.rows[2].cost.flops, 16);
  EXPECT_EQ(modules.rows[2].cost.num_ops, 2);
  EXPECT_EQ(flops_of_top_rows(modules), modules.cost.flops);
  EXPECT_THAT(shown(summarise(trace, {.depth = 1})), testing::ElementsAre("layer1", "mul"));
  EXPECT_THAT(shown(summarise(trace, {.level = SummaryLevel::kOp, .fold = false})),
              testing::ElementsAre("layer1", ">0", ">>act", ">>>relu_1_1", ">>mul_1_2", ">1", ">>act", ">>>relu_2_3",
                                   ">>mul_2_4", "mul_3_5"));
}

TEST(Summary, MemoryOnlyWhenAskedFor) {
  const auto trace = run_pipeline(test::capture_from_text(kNested));
  EXPECT_FALSE(summarise(trace).memory.peak_op.valid());
  EXPECT_EQ(summarise(trace, {.memory = true}).memory.peak_bytes, 64);
}

TEST(Summary, AnEmptyTrace) {
  const auto summary = summarise(run_pipeline({}));
  EXPECT_TRUE(summary.rows.empty());
  EXPECT_EQ(summary.num_ops, 0);
}

}  // namespace
}  // namespace tl
