#include "trace/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/trace_fixtures.h"
#include "trace/args.h"
#include "trace/text.h"

namespace tl {
namespace {

Trace sample() {
  return trace_from_text(R"(trace 1
module self
module enc parent=self
module "enc.a|b" parent=enc
context c0 module=self
instruction aten::relu_ func_name=relu_ layer_type=relu
instruction aten::split func_name=split layer_type=split
call self:1 first_op=input_1 end_op=end
call enc:1 parent_call=self:1
call "enc.a|b:1" parent_call=enc:1
layer input_1
layer relu_1_1
layer split_1_2
layer split_2_3
layer output_1
op input_1 input out=f32[2] raw=1/1 address=input.x
op relu_1_1:1 aten::relu_ out=f32[2] parents=input_1@0,input_1@1 call="enc.a|b:1" raw=1/2
op relu_1_1:2 aten::relu_ out=f32[2] parents=relu_1_1:1@0 call="enc.a|b:1" raw=2/3
op split_1_2 aten::split slot=0/2 out=f32[1] parents=relu_1_1:2@0 args=[1:int(1)] raw=1/4
op split_2_3 aten::split slot=1/2 out=f32[1] parents=relu_1_1:2@0 raw=2/5
op output_1 output out=f32[1] parents=split_1_2@0 raw=1/6 address=output
)");
}

TEST(Trace, LabelsOfOps) {
  const auto trace = sample();
  EXPECT_THAT(test::labels(trace),
              testing::ElementsAre("input_1", "relu_1_1:1", "relu_1_1:2", "split_1_2", "split_2_3", "output_1"));
  EXPECT_EQ(op_label(trace, OpId{3}, true), "split_1_2:1");
  EXPECT_EQ(raw_label(trace, OpId{2}), "relu_2_3_raw");
  EXPECT_EQ(layer_label_short(trace, LayerId{1}), "relu_1");
  EXPECT_EQ(func_name(trace, OpId{1}), "relu_");
  EXPECT_EQ(func_name(trace, OpId{0}), "none");
  EXPECT_EQ(layer_type(trace, OpId{5}), "output");
}

TEST(Trace, ModuleStackIsOutermostFirstWithoutTheRoot) {
  const auto trace = sample();
  const auto stack = module_stack(trace, OpId{1});
  ASSERT_EQ(stack.size(), 2U);
  EXPECT_EQ(module_call_label(trace, stack[0]), "enc:1");
  EXPECT_EQ(module_call_label(trace, stack[1]), "enc.a|b:1");
  EXPECT_TRUE(module_stack(trace, OpId{3}).empty());
}

TEST(Trace, ParentsAreDistinctAndChildrenAreTheirInverse) {
  const auto trace = sample();
  EXPECT_THAT(parents(trace, OpId{1}), testing::ElementsAre(OpId{0}));
  const auto index = make_child_index(trace);
  EXPECT_THAT(test::rows(index.begin), testing::ElementsAre(0, 2, 3, 5, 6, 6, 6));
  EXPECT_THAT(test::rows(index.child), testing::ElementsAre(1, 1, 2, 3, 4, 5));
}

TEST(Trace, SiteKeysCountInsideOneModuleCall) {
  // s1|addr/addr|layer_type|output slot or empty|ordinal, % | / escaped.
  EXPECT_THAT(site_keys(sample()), testing::ElementsAre("", "s1|enc/enc.a%7Cb|relu||1", "s1|enc/enc.a%7Cb|relu||2",
                                                        "s1||split|0|1", "s1||split|1|1", ""));
}

TEST(Trace, ArgumentsOfARowEndWhereTheNextBegin) {
  const auto trace = trace_from_text(R"(trace 1
instruction aten::size
op a input args=[0:int(1)]
op b input args=[0:int(2)]
flow f0 instruction=aten::size args=[0:int(3)]
flow f1 instruction=aten::size args=[0:int(4)]
)");
  EXPECT_EQ(op_args(trace, OpId{0})[1], 1);
  EXPECT_EQ(op_args(trace, OpId{1})[1], 2);
  EXPECT_EQ(op_args(trace, OpId{1}).size(), 2U);
  EXPECT_EQ(flow_args(trace, 0)[1], 3);
  EXPECT_EQ(flow_args(trace, 1).size(), 2U);
}

TEST(StringPool, CodesAreGivenInOrderOfFirstUse) {
  StringPool pool;
  EXPECT_EQ(pool.intern("b"), 0);
  EXPECT_EQ(pool.intern("a"), 1);
  EXPECT_EQ(pool.intern("b"), 0);
  EXPECT_EQ(pool.find("c"), -1);
  EXPECT_EQ(pool[1], "a");
  EXPECT_EQ(pool[-1], "");
  const StringPool copy = pool;
  EXPECT_EQ(copy[0], "b");
  EXPECT_EQ(copy.find("a"), 1);
}

TEST(ShapePool, EqualListsShareACode) {
  ShapePool pool;
  const std::vector<std::int64_t> scalar;
  const std::vector<std::int64_t> pair = {2, 3};
  EXPECT_EQ(pool.intern(pair), 0);
  EXPECT_EQ(pool.intern(scalar), 1);
  EXPECT_EQ(pool.intern(pair), 0);
  EXPECT_THAT(test::rows(pool[0]), testing::ElementsAre(2, 3));
  EXPECT_TRUE(pool[1].empty());
  ShapePool again;
  again.restore(pool.begin_column(), pool.dims_column());
  EXPECT_EQ(again.intern(pair), 0);
  EXPECT_EQ(again.size(), 2U);
}

TEST(Column, AMappedColumnIsCopiedWhenWritten) {
  const auto backing = std::make_shared<std::vector<std::int32_t>>(std::vector<std::int32_t>{1, 2, 3});
  Column<std::int32_t> column;
  column.map(*backing, backing);
  EXPECT_EQ(column.size(), 3U);
  column.rows()[0] = 9;
  EXPECT_EQ(column[0], 9);
  EXPECT_EQ((*backing)[0], 1);
  Column<std::int32_t> moved = std::move(column);
  EXPECT_EQ(moved.back(), 3);
}

}  // namespace
}  // namespace tl
