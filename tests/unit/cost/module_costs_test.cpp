#include "cost/module_costs.h"

#include <gtest/gtest.h>

#include "trace/text.h"

namespace tl {
namespace {

constexpr const char* kText = R"(trace 1
module self class_name=Net
module block class_name=Block parent=self
module block.fc class_name=Linear parent=block
context c0 module=self
instruction aten::relu arg_template="self=%0"
instruction aten::linear arg_template="input=%0, weight=%1, bias=None"
instruction zoo::secret arg_template="x=%0"
param block.fc.weight module=block.fc dtype=f32 shape=[4,4] bytes=64 trainable=1
call self:1 first_op=x end_op=end
call block:1 parent_call=self:1 first_op=a end_op=c
call block.fc:1 parent_call=block:1 first_op=a end_op=b
call block:2 parent_call=self:1 first_op=d end_op=y
call block.fc:2 parent_call=block:2 first_op=d end_op=e
op x input out=f32[2,4]
op a aten::linear out=f32[2,4] parents=x@0 params=block.fc.weight@1 call=block.fc:1
op b aten::relu out=f32[2,4] parents=a@0 call=block:1
op c aten::relu out=f32[2,4] parents=b@0
op d aten::linear out=f32[2,4] parents=c@0 params=block.fc.weight@1 call=block.fc:2
op e zoo::secret out=f32[2,4] parents=d@0 call=block:2
op y output out=f32[2,4] parents=e@0
)";

TEST(ModuleCosts, AreAddedUpOverCallsWithAndWithoutWhatIsInside) {
  const auto trace = trace_from_text(kText);
  const auto costs = module_costs(trace, op_costs(trace));
  const auto& root = costs.modules[0];
  const auto& block = costs.modules[1];
  const auto& fc = costs.modules[2];
  EXPECT_EQ(fc.inclusive.flops, 2 * 64);  // 2 * 2 * 4 * 4 a call
  EXPECT_EQ(fc.exclusive.flops, 2 * 64);
  EXPECT_EQ(fc.inclusive.macs, 2 * 32);
  EXPECT_EQ(block.inclusive.flops, 2 * 64 + 8);
  EXPECT_EQ(block.exclusive.flops, 8);
  EXPECT_EQ(block.inclusive.num_ops, 4);
  EXPECT_EQ(block.exclusive.num_ops, 2);
  EXPECT_EQ(block.inclusive.uncounted_calls, 1);
  EXPECT_EQ(root.inclusive.flops, 2 * 64 + 16);
  EXPECT_EQ(root.inclusive.num_ops, 5);
  EXPECT_EQ(root.exclusive.num_ops, 1);
  EXPECT_EQ(root.params.inclusive.elements, 16);
  EXPECT_EQ(block.params.inclusive.elements, 16);
  EXPECT_EQ(block.params.own.elements, 0);
  EXPECT_EQ(fc.params.own.elements, 16);
  EXPECT_EQ(costs.calls[1].flops, 72);
  EXPECT_EQ(costs.calls[0].flops, 144);
}

TEST(ModuleCosts, TimeOfACallIsThatMeasuredAroundIt) {
  auto trace = trace_from_text(kText);
  trace.module_call_seconds.assign({10, 4, 1, 3, 2});
  const auto costs = module_costs(trace, op_costs(trace));
  EXPECT_DOUBLE_EQ(costs.modules[0].inclusive.seconds, 10);
  EXPECT_DOUBLE_EQ(costs.modules[0].exclusive.seconds, 3);
  EXPECT_DOUBLE_EQ(costs.modules[1].inclusive.seconds, 7);
  EXPECT_DOUBLE_EQ(costs.modules[1].exclusive.seconds, 4);
}

TEST(ModuleCosts, ACallInsideACallOfTheSameModuleCountsOnceInIt) {
  const auto trace = trace_from_text(R"(trace 1
module self
module tree parent=self
context c0 module=self
instruction aten::relu
call self:1 first_op=x end_op=end
call tree:1 parent_call=self:1 first_op=a end_op=y
call tree:2 parent_call=tree:1 first_op=b end_op=y
op x input out=f32[4]
op a aten::relu out=f32[4] parents=x@0 call=tree:1
op b aten::relu out=f32[4] parents=a@0 call=tree:2
op y output out=f32[4] parents=b@0
)");
  const auto costs = module_costs(trace, op_costs(trace));
  EXPECT_EQ(costs.modules[1].inclusive.flops, 8);
  EXPECT_EQ(costs.modules[1].exclusive.flops, 8);
  EXPECT_EQ(costs.calls[2].flops, 4);
}

}  // namespace
}  // namespace tl
