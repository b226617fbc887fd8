#include "cost/op_costs.h"

#include <gtest/gtest.h>

#include "trace/text.h"

namespace tl {
namespace {

constexpr const char* kHead = R"(trace 1
module self
context c0 module=self
instruction aten::topk arg_template="self=%0, k=1, dim=1"
instruction aten::mul arg_template="self=%0, other=%1"
instruction aten::view arg_template="self=%0" flags=view
instruction zoo::secret arg_template="x=%0"
instruction aten::copy_ arg_template="self=%0, src=%1"
instruction aten::embedding arg_template="weight=%0, indices=%1"
instruction aten::empty arg_template="size=[4]"
instruction aten::split arg_template="self=%0" flags=view
param emb.weight dtype=f32 shape=[30,16] bytes=1920
buffer bn.mean dtype=f32 shape=[4] bytes=16
call self:1 first_op=x end_op=end
)";

std::vector<OpCost> costs_of(const std::string& ops) { return op_costs(trace_from_text(kHead + ops)); }

TEST(OpCosts, ACallWithSeveralOutputsCountsOnce) {
  const auto costs = costs_of(
      "op x input out=f32[2,2]\n"
      "op v aten::topk slot=0/2 out=f32[2,1] parents=x@0\n"
      "op i aten::topk slot=1/2 out=i64[2,1] parents=x@0\n"
      "op v2 aten::topk slot=0/2 out=f32[2,1] parents=x@0\n"
      "op i2 aten::topk slot=1/2 out=i64[2,1] parents=x@0\n");
  EXPECT_EQ(costs[1].flops, 2);
  EXPECT_EQ(costs[1].bytes_read, 16);
  EXPECT_EQ(costs[1].bytes_written, 8);
  EXPECT_EQ(costs[2].flops, 0);
  EXPECT_EQ(costs[2].macs, 0);
  EXPECT_EQ(costs[2].bytes_read, 0);
  EXPECT_EQ(costs[2].bytes_written, 16);
  EXPECT_EQ(costs[3].flops, 2) << "the next call begins where the slots begin anew";
}

TEST(OpCosts, AnUnknownOperatorIsNamedAndTheTotalIsALowerBound) {
  const auto trace = trace_from_text(std::string(kHead) +
                                     "op x input out=f32[2,2]\n"
                                     "op a zoo::secret slot=0/2 out=f32[2] parents=x@0\n"
                                     "op b zoo::secret slot=1/2 out=f32[2] parents=x@0\n"
                                     "op c aten::mul out=f32[2] parents=a@0,b@1\n"
                                     "op d zoo::secret out=f32[2] parents=c@0\n"
                                     "op y output out=f32[2] parents=d@0\n");
  const auto costs = op_costs(trace);
  EXPECT_FALSE(costs[1].flops || costs[1].macs);
  EXPECT_FALSE(costs[2].flops) << "an output of an unknown call is no zero";
  EXPECT_EQ(costs[0].flops, 0);
  EXPECT_EQ(costs[5].flops, 0);
  const auto totals = cost_totals(trace, costs);
  EXPECT_EQ(totals.flops, 2);
  ASSERT_EQ(totals.uncounted.size(), 1U);
  EXPECT_EQ(totals.uncounted[0].name, "zoo::secret");
  EXPECT_EQ(totals.uncounted[0].calls, 2);
  EXPECT_TRUE(totals.is_lower_bound());
}

TEST(OpCosts, ViewsMoveNoBytes) {
  const auto costs = costs_of(
      "op x input out=f32[2,2]\n"
      "op v aten::view out=f32[4] parents=x@0 flags=view\n"
      "op e aten::empty out=f32[4] flags=uninitialised\n"
      "op c aten::copy_ out=f32[4] parents=e@0,v@1 flags=in_place\n");
  EXPECT_EQ(costs[1].flops, 0);
  EXPECT_EQ(costs[1].bytes_read, 0);
  EXPECT_EQ(costs[1].bytes_written, 0);
  EXPECT_EQ(costs[2].bytes_written, 0);
  EXPECT_EQ(costs[3].bytes_read, 16) << "the target is overwritten, not read";
  EXPECT_EQ(costs[3].bytes_written, 16);
}

TEST(OpCosts, ATensorGivenTwiceIsReadOnce) {
  const auto costs = costs_of(
      "op x input out=f32[8]\n"
      "op y aten::mul out=f32[8] parents=x@0,x@1\n");
  EXPECT_EQ(costs[1].bytes_read, 32);
}

TEST(OpCosts, AnEmbeddingReadsTheRowsItYields) {
  const auto costs = costs_of(
      "op x input out=i64[5]\n"
      "op y aten::embedding out=f32[5,16] parents=x@1 params=emb.weight@0\n");
  EXPECT_EQ(costs[1].bytes_read, 5 * 16 * 4 + 5 * 8);
  EXPECT_EQ(costs[1].bytes_written, 320);
}

TEST(OpCosts, AnEmptyTraceCostsNothing) {
  const auto trace = trace_from_text("trace 1\n");
  EXPECT_TRUE(op_costs(trace).empty());
  EXPECT_FALSE(cost_totals(trace, {}).is_lower_bound());
}

}  // namespace
}  // namespace tl
