#include "cost/memory_timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trace/text.h"

namespace tl {
namespace {

using testing::ElementsAre;

MemoryTimeline timeline_of(const std::string& ops) {
  return memory_timeline(trace_from_text(
      "trace 1\nmodule self\ncontext c0 module=self\ninstruction aten::relu\ninstruction aten::view flags=view\n"
      "instruction aten::add_ flags=mutates\nparam w dtype=f32 shape=[25] bytes=100\ncall self:1 first_op=x "
      "end_op=end\n" +
      ops));
}

TEST(MemoryTimeline, AValueLivesUntilItsLastReader) {
  const auto timeline = timeline_of(
      "op x input out=u8[10]\n"
      "op a aten::relu out=u8[100] parents=x@0\n"
      "op b aten::relu out=u8[7] parents=a@0\n"
      "op c aten::relu out=u8[1] parents=b@0,x@1\n"
      "op y output out=u8[1] parents=c@0\n");
  EXPECT_THAT(timeline.live_bytes, ElementsAre(10, 110, 117, 18, 1));
  EXPECT_EQ(timeline.peak_bytes, 117);
  EXPECT_EQ(timeline.peak_op, OpId{2});
  EXPECT_EQ(timeline.total_bytes, 118);  // the output is c once more
}

TEST(MemoryTimeline, AViewKeepsWhatItIsAViewOf) {
  const auto timeline = timeline_of(
      "op x input out=u8[10]\n"
      "op a aten::relu out=u8[100] parents=x@0\n"
      "op v aten::view out=u8[100] parents=a@0 flags=view\n"
      "op b aten::relu out=u8[3] parents=x@0\n"
      "op c aten::relu out=u8[2] parents=v@0,b@1\n"
      "op d aten::relu out=u8[1] parents=c@0\n");
  EXPECT_THAT(timeline.live_bytes, ElementsAre(10, 110, 110, 113, 105, 3));
}

TEST(MemoryTimeline, AnInPlaceResultTakesNoMemory) {
  const auto timeline = timeline_of(
      "op x input out=u8[10]\n"
      "op a aten::relu out=u8[100] parents=x@0\n"
      "op b aten::add_ out=u8[100] parents=a@0,x@1 flags=in_place\n"
      "op c aten::relu out=u8[4] parents=b@0\n"
      "op y output out=u8[4] parents=c@0\n");
  EXPECT_THAT(timeline.live_bytes, ElementsAre(10, 110, 110, 104, 4));
}

TEST(MemoryTimeline, StateOfTheModelIsNotCounted) {
  const auto timeline = timeline_of(
      "op x input out=u8[10]\n"
      "op m buffer out=u8[50] address=mean\n"
      "op v aten::view out=f32[25] params=w@0 flags=view\n"
      "op a aten::relu out=u8[10] parents=x@0,m@1,v@2\n");
  EXPECT_THAT(timeline.live_bytes, ElementsAre(10, 10, 10, 20));
}

TEST(MemoryTimeline, WhatNobodyReadsIsFreedAtOnceAndWhatIsReturnedStays) {
  const auto timeline = timeline_of(
      "op x input out=u8[10]\n"
      "op sink aten::relu out=u8[100] parents=x@0\n"
      "op a aten::relu out=u8[1] parents=x@0\n"
      "op b aten::relu out=u8[2] parents=x@0\n"
      "op y output out=u8[1] parents=a@0\n"
      "op z output out=u8[2] parents=b@0\n");
  EXPECT_THAT(timeline.live_bytes, ElementsAre(10, 110, 11, 13, 3, 3));
}

TEST(MemoryTimeline, SizesBeyondCountingAreCut) {
  const auto timeline = timeline_of(
      "op x input out=f64[4000000000,4000000000]\n"
      "op a aten::relu out=f64[4000000000,4000000000] parents=x@0\n"
      "op b aten::relu out=u8[5] parents=a@0\n"
      "op c aten::relu out=u8[6] parents=b@0\n");
  EXPECT_EQ(timeline.peak_bytes, INT64_MAX);
  EXPECT_EQ(timeline.live_bytes[3], 5 + 6) << "of what was cut off nothing is given back";
}

}  // namespace
}  // namespace tl
