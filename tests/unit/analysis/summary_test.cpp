#include "analysis/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
                                           "op g add out=f32[2,5] parents=f@0\n"
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
  EXPECT_EQ(summary.rows[0].params, 15);
  EXPECT_EQ(summary.rows[1].calls, 2);
  EXPECT_EQ(summary.rows[1].num_ops, 2);
  EXPECT_THAT(trace.shapes[trace.ops.shape[summary.rows[2].output.index()]], testing::ElementsAre(2, 5));
  EXPECT_EQ(summary.num_ops, 6);
  EXPECT_EQ(summary.params, 15);  // the constant is no parameter
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

TEST(Summary, AnEmptyTrace) {
  const auto summary = summarise(run_pipeline({}));
  EXPECT_TRUE(summary.rows.empty());
  EXPECT_EQ(summary.num_ops, 0);
}

}  // namespace
}  // namespace tl
