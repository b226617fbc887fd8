#include "diff/call_matcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "diff/align.h"
#include "diff_fixtures.h"

namespace tl {
namespace {

using test::both_ways;
using test::entry;
using test::floats;
using test::ramp;

/// m computes p from the input and q from p, of which `read` are read by h. The call is held to have returned `output`.
std::string two_values(const std::string& read, const std::string& output, const std::string& q_shape = "f32[8]") {
  return "module self\nmodule m class_name=Two parent=self\nmodule h class_name=Linear parent=self\n"
         "context c0 module=self\ncontext c1 module=m\ncontext c2 module=h\n"
         "instruction relu func_name=relu layer_type=relu\ninstruction tanh func_name=tanh layer_type=tanh\n"
         "instruction lin func_name=linear layer_type=linear\n"
         "call self:1 first_op=x end_op=end\ncall m:1 parent_call=self:1 first_op=p end_op=h output_op=" +
         output +
         "\ncall h:1 parent_call=self:1 first_op=h end_op=y output_op=h\n"
         "op x input out=f32[8] address=input.x\nop p relu out=f32[8] parents=x@0 call=m:1 context=c1\n"
         "op q tanh out=" +
         q_shape + " parents=x@0 call=m:1 context=c1\nop h lin out=f32[8] parents=" + read +
         " call=h:1 context=c2\nop y output out=f32[8] parents=h@0 address=output\n";
}

Dump dump_of(std::vector<DumpEntry> entries) {
  Dump dump;
  dump.inputs = {entry("x", ramp(1))};
  dump.entries = std::move(entries);
  dump.outputs = {entry("output", ramp(4))};
  return dump;
}

std::vector<float> mirrored(float scale) {
  const auto values = ramp(scale);
  return {values.rbegin(), values.rend()};
}

/// The two rows of entries (from 0) of m in the trace, from the alignment of both directions, which must be the same.
std::vector<std::int32_t> partners(const Dump& dump, const Trace& trace) {
  const auto forth = align(make_side(dump), make_side(trace));
  const auto back = align(make_side(trace), make_side(dump));
  EXPECT_EQ(forth.subject_of, back.reference_of);
  return {forth.subject_of[1], forth.subject_of[2]};
}

TEST(CallMatcher, EqualValuesArePairedWhicheverWasTakenForTheFirst) {
  const auto dump = dump_of({entry("m", ramp(2), "0"), entry("m", mirrored(3), "1"), entry("h", ramp(4))});
  for (const std::string output : {"p", "q"}) {
    const auto trace = test::trace_of(two_values("p@0,q@1", output),
                                      {floats(ramp(1)), floats(ramp(2)), floats(mirrored(3)), floats(ramp(4))});
    EXPECT_THAT(partners(dump, trace), testing::ElementsAre(1, 2)) << output;
    for (const auto& report : both_ways(dump, trace)) {
      EXPECT_FALSE(report.different) << report.verdict;
      EXPECT_EQ(report.coverage.compared, 3);
      EXPECT_EQ(report.coverage.total, 3);
    }
  }
}

TEST(CallMatcher, TheNearestArePairedWhereBothDiffer) {
  const auto dump = dump_of({entry("m", ramp(2), "0"), entry("m", mirrored(3), "1"), entry("h", ramp(4))});
  const auto trace = test::trace_of(two_values("p@0,q@1", "q"),
                                    {floats(ramp(1)), floats(ramp(2.01F)), floats(mirrored(3.01F)), floats(ramp(4))});
  EXPECT_THAT(partners(dump, trace), testing::ElementsAre(1, 2));
}

TEST(CallMatcher, WhatIsNearToNothingHasNoPartner) {
  const auto dump = dump_of(
      {entry("m", {1, 0, 0, 0, 0, 0, 0, 2}, "0"), entry("m", {0, 1, 0, 0, 0, 0, 2, 0}, "1"), entry("h", ramp(4))});
  const auto trace = test::trace_of(two_values("p@0,q@1", "q"), {floats(ramp(1)), floats({0, 0, 1, 0, 0, 2, 0, 0}),
                                                                 floats({0, 0, 0, 1, 2, 0, 0, 0}), floats(ramp(4))});
  EXPECT_THAT(partners(dump, trace), testing::ElementsAre(-1, -1));
}

TEST(CallMatcher, WhatATracedModuleReturnsFirstIsKnownWhereItReturnsAsMany) {
  const auto dump = dump_of(
      {entry("m", {1, 0, 0, 0, 0, 0, 0, 2}, "0"), entry("m", {0, 1, 0, 0, 0, 0, 2, 0}, "1"), entry("h", ramp(4))});
  auto trace = test::trace_of(two_values("p@0,q@1", "q"), {floats(ramp(1)), floats({0, 0, 1, 0, 0, 2, 0, 0}),
                                                           floats({0, 0, 0, 1, 2, 0, 0, 0}), floats(ramp(4))});
  trace.run.model_kind = "torchscript trace";
  EXPECT_THAT(partners(dump, trace), testing::ElementsAre(2, 1));
}

TEST(CallMatcher, ValuesOfOtherShapesAreNoPair) {
  const auto dump = dump_of({entry("m", ramp(2), "0"), entry("m", {1, 2, 3}, "1"), entry("h", ramp(4))});
  const auto trace = test::trace_of(two_values("p@0,q@1", "q", "f32[3]"),
                                    {floats(ramp(1)), floats(ramp(3)), floats({4, 5, 7}), floats(ramp(4))});
  EXPECT_THAT(partners(dump, trace), testing::ElementsAre(1, 2));  // each is alone of its shape
  const auto other = test::trace_of(two_values("p@0,q@1", "q", "f32[2]"),
                                    {floats(ramp(1)), floats(ramp(3)), floats({4, 5}), floats(ramp(4))});
  EXPECT_THAT(partners(dump, other), testing::ElementsAre(1, -1));
}

TEST(CallMatcher, AValueThatNothingReadsIsNotMissing) {
  // Tracing left p out: the call has one value.
  auto text = two_values("q@0", "q");
  text.erase(text.find("op p relu"), text.find("op q tanh") - text.find("op p relu"));
  text.replace(text.find("first_op=p"), 10, "first_op=q");
  const auto trace = test::trace_of(text, {floats(ramp(1)), floats(mirrored(3)), floats(ramp(4))});
  const auto dump = dump_of({entry("m", ramp(2), "0"), entry("m", mirrored(3), "1"), entry("h", ramp(4))});
  for (const auto& report : both_ways(dump, trace)) {
    EXPECT_FALSE(report.different) << report.verdict;
    EXPECT_EQ(report.coverage.compared, 2);
    EXPECT_EQ(report.coverage.total, 2);
    EXPECT_TRUE(report.changes.empty());
    EXPECT_THAT(report.notes, testing::Contains(testing::HasSubstr("1 entry of values that nothing")));
  }
}

TEST(CallMatcher, AValueThatIsHandedThroughIsNotMissing) {
  const auto dump =
      dump_of({entry("m", ramp(1), "0"), entry("m", mirrored(3), "1"), entry("m", ramp(2), "2"), entry("h", ramp(4))});
  const auto trace = test::trace_of(two_values("p@0,q@1", "q"),
                                    {floats(ramp(1)), floats(ramp(2)), floats(mirrored(3)), floats(ramp(4))});
  for (const auto& report : both_ways(dump, trace)) {
    EXPECT_FALSE(report.different) << report.verdict;
    EXPECT_EQ(report.coverage.compared, 3);
    EXPECT_EQ(report.coverage.total, 3);
  }
}

/// m returns what its parts mu and lv do, in the order lv, mu for the trace.
TEST(CallMatcher, AValueOfAnInnerCallIsTheOperationOfThatCall) {
  const auto trace = test::trace_of(
      "module self\nmodule m class_name=Encoder parent=self\nmodule m.mu class_name=Linear parent=m\n"
      "module m.lv class_name=Linear parent=m\ncontext c0 module=self\ncontext c1 module=m.mu\n"
      "context c2 module=m.lv\ninstruction lin func_name=linear layer_type=linear\n"
      "instruction add func_name=add layer_type=add\n"
      "call self:1 first_op=x end_op=end\ncall m:1 parent_call=self:1 first_op=a end_op=s output_op=b\n"
      "call m.mu:1 parent_call=m:1 first_op=a end_op=b output_op=a\n"
      "call m.lv:1 parent_call=m:1 first_op=b end_op=s output_op=b\nop x input out=f32[8] address=input.x\n"
      "op a lin out=f32[8] parents=x@0 call=m.mu:1 context=c1\n"
      "op b lin out=f32[8] parents=x@0 call=m.lv:1 context=c2\n"
      "op s add out=f32[8] parents=a@0,b@1 context=c0\nop y output out=f32[8] parents=s@0 address=output\n",
      {floats(ramp(1)), floats(ramp(9)), floats(mirrored(9)), floats(ramp(4))});
  const auto dump = dump_of({entry("m.mu", ramp(2)), entry("m.lv", mirrored(3)), entry("m", ramp(2), "0"),
                             entry("m", mirrored(3), "1"), entry("self", ramp(4))});
  const auto result = align(make_side(dump), make_side(trace));
  EXPECT_THAT(result.subject_of, testing::ElementsAre(0, 1, 2, 1, 2, 3, 4));
  EXPECT_THAT(result.reference_of, testing::ElementsAre(0, 1, 2, 5, 6));
}

TEST(CallMatcher, TwoDumpsGoByPaths) {
  const auto first = dump_of({entry("m", ramp(2), "0"), entry("m", ramp(3), "1"), entry("h", ramp(4))});
  const auto second = dump_of({entry("m", ramp(3), "0"), entry("m", ramp(2), "1"), entry("h", ramp(4))});
  EXPECT_THAT(align(make_side(first), make_side(second)).subject_of, testing::ElementsAre(0, 1, 2, 3, 4));
}

}  // namespace
}  // namespace tl
