// Several entries of a dump that one operation of a trace stands for.
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

/// outer holds inner and returns what that does; tail reads it. Names are hashed: the tests try several, so that none
/// passes by chance.
std::string nested(const std::string& outer) {
  const auto inner = outer + ".inner";
  return "module self\nmodule " + outer + " class_name=Block parent=self\nmodule " + inner +
         " class_name=Linear parent=" + outer +
         "\nmodule tail class_name=Linear parent=self\ncontext c0 module=self\ncontext c1 module=" + inner +
         "\ncontext c2 module=tail\ninstruction lin func_name=linear layer_type=linear\n"
         "call self:1 first_op=x end_op=end\ncall " +
         outer + ":1 parent_call=self:1 first_op=a end_op=t output_op=a\ncall " + inner + ":1 parent_call=" + outer +
         ":1 first_op=a end_op=t output_op=a\ncall tail:1 parent_call=self:1 first_op=t end_op=y output_op=t\n"
         "op x input out=f32[8] address=input.x\nop a lin out=f32[8] parents=x@0 call=" +
         inner +
         ":1 context=c1\nop t lin out=f32[8] parents=a@0 call=tail:1 context=c2\n"
         "op y output out=f32[8] parents=t@0 address=output\n";
}

Trace nested_trace(const std::string& outer, float inner, float tail) {
  return test::trace_of(nested(outer), {floats(ramp(1)), floats(ramp(inner)), floats(ramp(tail))});
}

/// The same model in a dump, with a third value for outer.
Dump nested_dump(const std::string& outer, std::vector<float> of_outer, float tail) {
  Dump dump;
  dump.inputs = {entry("x", ramp(1))};
  dump.entries = {entry(outer + ".inner", ramp(2)), entry(outer, std::move(of_outer)), entry("tail", ramp(tail)),
                  entry("self", ramp(tail))};
  dump.outputs = {entry("output", ramp(tail))};
  return dump;
}

std::vector<float> mixed() { return {9, -1, 7, 3, -5, 5, 1, 8}; }

std::vector<std::string> names() { return {"a", "b", "c", "blk", "layer1", "stem", "enc", "features", "x1", "x2"}; }

TEST(FurtherEntries, EqualOnesCountOnce) {
  for (const auto& outer : names()) {
    const auto dump = nested_dump(outer, ramp(2), 3);
    const auto trace = nested_trace(outer, 2, 3);
    const auto result = align(make_side(dump), make_side(trace));
    EXPECT_THAT(result.subject_of, testing::ElementsAre(0, 1, 1, 2, 2, 3)) << outer;
    EXPECT_THAT(result.reference_of, testing::ElementsAre(0, 1, 3, 5)) << outer;
    EXPECT_TRUE(result.further.empty());
    for (const auto& report : both_ways(dump, trace)) {
      EXPECT_FALSE(report.different) << report.verdict;
      EXPECT_EQ(report.coverage.compared, 2);
      EXPECT_EQ(report.coverage.total, 2);
    }
  }
}

TEST(FurtherEntries, WhatIsLostBetweenTwoEntriesIsTheSource) {
  // The dump adds something behind inner, which the trace does not: tail reads another value there.
  for (const auto& outer : names()) {
    const auto dump = nested_dump(outer, mixed(), 7);
    const auto trace = nested_trace(outer, 2, 3);
    const auto reports = both_ways(dump, trace);
    for (const auto& report : reports) {
      EXPECT_TRUE(report.different);
      ASSERT_EQ(report.sites.size(), 5U) << outer;
      EXPECT_EQ(report.sources, std::vector<std::int64_t>{2}) << outer << ": " << report.verdict;
      EXPECT_EQ(report.sites[1].site_class, SiteClass::kAgrees);
      EXPECT_EQ(report.sites[2].inner, 1);
      EXPECT_EQ(report.sites[2].reference.module, outer);
      EXPECT_EQ(report.sites[2].subject.module, outer);
      EXPECT_THAT(report.sites[3].inputs, testing::ElementsAre(2)) << outer;
      EXPECT_EQ(report.sites[3].site_class, SiteClass::kInherited);
      EXPECT_EQ(report.coverage.compared, 3);
      EXPECT_EQ(report.coverage.total, 3);
    }
    EXPECT_EQ(reports[0].sites[2].cause, "the reference computes something between " + outer + ".inner and " + outer +
                                             " that the subject does not");
    EXPECT_EQ(reports[1].sites[2].cause, "the subject computes something between " + outer + ".inner and " + outer +
                                             " that the reference does not");
  }
}

TEST(FurtherEntries, OneValueOfSeveralEntriesIsOneSite) {
  // outer and what is around it, here the model, return the same; inner does not.
  const std::string text =
      "module self\nmodule o class_name=Block parent=self\nmodule o.i class_name=Linear parent=o\n"
      "context c0 module=self\ncontext c1 module=o.i\ninstruction lin func_name=linear layer_type=linear\n"
      "call self:1 first_op=x end_op=end\ncall o:1 parent_call=self:1 first_op=a end_op=y output_op=a\n"
      "call o.i:1 parent_call=o:1 first_op=a end_op=y output_op=a\nop x input out=f32[8] address=input.x\n"
      "op a lin out=f32[8] parents=x@0 call=o.i:1 context=c1\nop y output out=f32[8] parents=a@0 address=output\n";
  const auto trace = test::trace_of(text, {floats(ramp(1)), floats(ramp(2))});
  Dump dump;
  dump.inputs = {entry("x", ramp(1))};
  dump.entries = {entry("o.i", ramp(2)), entry("o", mixed()), entry("self", mixed())};
  dump.outputs = {entry("output", mixed())};
  const auto result = align(make_side(dump), make_side(trace));
  ASSERT_EQ(result.further.size(), 1U);
  EXPECT_EQ(result.further[0].entry, 2U);
  for (const auto& report : both_ways(dump, trace)) {
    ASSERT_EQ(report.sources.size(), 1U);
    EXPECT_EQ(report.sites[2].site_class, SiteClass::kSource);
    EXPECT_EQ(report.sites[3].site_class, SiteClass::kInherited);  // the output
  }
}

TEST(FurtherEntries, ADifferenceOfTheInnermostIsItsOwn) {
  // inner is wrong in the trace, and what the dump does behind it is not there either.
  const auto reports = both_ways(nested_dump("b", mixed(), 7), nested_trace("b", 5, 3));
  for (const auto& report : reports) {
    ASSERT_FALSE(report.sources.empty());
    EXPECT_EQ(report.sources[0], 1);
    EXPECT_EQ(report.sites[1].site_class, SiteClass::kSource);
    EXPECT_NE(report.sites[2].site_class, SiteClass::kAgrees);
  }
}

TEST(FurtherEntries, NoValueIsReadWhereNoneIsToBeLookedAt) {
  const auto dump = nested_dump("b", mixed(), 7);
  const auto trace = nested_trace("b", 2, 3);
  const auto result = align(make_side(dump), make_side(trace), {{}, false});
  EXPECT_TRUE(result.further.empty());
  EXPECT_THAT(result.subject_of, testing::ElementsAre(0, 1, 1, 2, 2, 3));
}

TEST(FurtherEntries, StepsOfOneOperationAreNotCompared) {
  // A norm that the trace has folded into the convolution before it: the operation has the value of the outer entry.
  const auto dump = nested_dump("b", ramp(6), 3);
  const auto trace = nested_trace("b", 6, 3);
  for (const auto& report : both_ways(dump, trace)) {
    EXPECT_FALSE(report.different) << report.verdict;
    EXPECT_EQ(report.sites[1].site_class, SiteClass::kNotCompared);
    EXPECT_EQ(report.coverage.inside_fused, 1);
    EXPECT_EQ(report.coverage.compared, 2);
    EXPECT_EQ(report.coverage.total, 2);
    EXPECT_THAT(report.notes, testing::Contains(testing::HasSubstr("1 entry of steps to what")));
  }
}

}  // namespace
}  // namespace tl
