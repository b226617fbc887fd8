#include "trace/branches.h"

#include <gtest/gtest.h>

#include "trace/text.h"

namespace tl {
namespace {

/// if a.sum() > 1: sin, inside it a ternary on its value; elif on a host value: not run; else nothing. Then the same
/// `if` decided by a host value, in a loop that takes either way; and an assert.
Trace sample() {
  return trace_from_text(R"(trace 1
call_site s0 file=m.py line=4 column=8 column_end=15 function=forward
module self class_name=Model
context c0 module=self
instruction prim::If/0 func_name=if layer_type=if call_site=s0 flags=control
instruction aten::sum func_name=sum layer_type=sum call_site=s0
instruction aten::gt func_name=gt layer_type=gt call_site=s0
instruction aten::sin func_name=sin layer_type=sin call_site=s0
instruction aten::cos func_name=cos layer_type=cos call_site=s0
instruction aten::add func_name=add layer_type=add call_site=s0
call self:1 first_op=input_1 end_op=end
conditional if0 instruction=prim::If/0 site_context=c0 num_arms=3 kind=if_chain
conditional if1 instruction=prim::If/0 site_context=c0 num_arms=2 kind=ifexp parent_arm=a0
conditional if2 instruction=prim::If/0 site_context=c0 num_arms=2 kind=if_chain
conditional if3 instruction=prim::If/0 site_context=c0 kind=assert
conditional if4 instruction=prim::If/0 site_context=c0 num_arms=1 kind=if_chain
conditional_arm a0 conditional=if0 kind=then evaluated=1 fired=1 test_op=gt_1_2
conditional_arm a1 conditional=if0 kind=elif elif_index=1
conditional_arm a2 conditional=if0 kind=fallthrough
conditional_arm a3 conditional=if1 kind=then evaluated=1
conditional_arm a4 conditional=if1 kind=else fired=1
conditional_arm a5 conditional=if2 kind=true_side evaluated=2 fired=1
conditional_arm a6 conditional=if2 kind=false_side fired=1
conditional_arm a7 conditional=if4 kind=then evaluated=1 test_op=gt_1_2
branch b0 conditional=if0 module_call=self:1 test_op=gt_1_2 first_op=sin_1_3 end_op=add_1_5 conditional_arm=a0
branch b1 conditional=if1 arm=else parent=b0 module_call=self:1 first_op=cos_1_4 end_op=add_1_5 conditional_arm=a4
branch b2 conditional=if2 module_call=self:1 first_op=add_1_5 end_op=add_1_5 conditional_arm=a5
branch b3 conditional=if2 arm=else module_call=self:1 first_op=add_1_5 end_op=add_1_5 conditional_arm=a6
branch b4 conditional=if3 module_call=self:1 test_op=gt_1_2 first_op=add_1_5 end_op=add_1_5
branch b5 conditional=if4 arm=else module_call=self:1 test_op=gt_1_2 first_op=add_1_5 end_op=add_1_5
layer input_1 num_passes=1 first_op=input_1
layer sum_1_1 num_passes=1 first_op=sum_1_1
layer gt_1_2 num_passes=1 first_op=gt_1_2
layer sin_1_3 num_passes=1 first_op=sin_1_3
layer cos_1_4 num_passes=1 first_op=cos_1_4
layer add_1_5 num_passes=1 first_op=add_1_5
op input_1 input out=f32[2] flags=output_ancestor address=input.x
op sum_1_1 aten::sum out=f32[] parents=input_1@0
op gt_1_2 aten::gt out=bool[] parents=sum_1_1@0 flags=scalar_bool
op sin_1_3 aten::sin out=f32[2] parents=input_1@0 flags=output_ancestor branch=b0
op cos_1_4 aten::cos out=f32[2] parents=sin_1_3@0 flags=output_ancestor branch=b1
op add_1_5 aten::add out=f32[2] parents=cos_1_4@0,input_1@1 flags=output_ancestor
)");
}

TEST(Branches, LabelsFollowTheOpThatDecided) {
  const auto labels = conditional_labels(sample());
  EXPECT_EQ(labels,
            (std::vector<std::string>{"cond_gt_1_2", "cond_if_2", "cond_if_3", "assert_gt_1_2", "cond_gt_1_2.2"}));
}

TEST(Branches, OutcomeSaysWhichWayItWent) {
  const auto trace = sample();
  EXPECT_EQ(outcome(trace, 0), "then");
  EXPECT_EQ(outcome(trace, 1), "else");
  EXPECT_EQ(outcome(trace, 2), "several");
  EXPECT_EQ(outcome(trace, 3), "not_attributed");
  EXPECT_EQ(outcome(trace, 4), "none");
  EXPECT_EQ(fired_arm(trace, 0), 0);
  EXPECT_EQ(fired_arm(trace, 2), -1);
  EXPECT_EQ(arm_name(trace, 1), "elif_1");
  EXPECT_EQ(arm_name(trace, 2), "fallthrough");
}

TEST(Branches, AnOpHasItsStackOutermostFirst) {
  const auto trace = sample();
  EXPECT_EQ(branch_stack(trace, OpId{4}), (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(branch_stack(trace, OpId{3}), (std::vector<std::int32_t>{0}));
  EXPECT_TRUE(branch_stack(trace, OpId{5}).empty());
}

TEST(Branches, EdgesThatEnterAnArmOrBeginATestAreLabelled) {
  const auto trace = sample();
  std::vector<std::string> found;
  for (const auto& edge : branch_edges(trace)) {
    const auto parent = trace.edges.parent[static_cast<std::size_t>(edge.edge)];
    found.push_back(op_label(trace, OpId{static_cast<std::uint32_t>(parent)}) + " " +
                    op_label(trace, OpId{static_cast<std::uint32_t>(edge.child)}) + " " +
                    branch_edge_label(trace, edge) + " " + std::to_string(edge.conditional));
  }
  EXPECT_EQ(found, (std::vector<std::string>{"input_1 sum_1_1 IF 0", "input_1 sum_1_1 IF 4", "input_1 sin_1_3 THEN 0",
                                             "sin_1_3 cos_1_4 ELSE 1"}));
}

}  // namespace
}  // namespace tl
