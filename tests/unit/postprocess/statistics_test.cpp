#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "postprocess/observers.h"
#include "postprocess/pipeline.h"
#include "support/trace_fixtures.h"
#include "tensor/statistics.h"

namespace tl {
namespace {

constexpr const char* kText =
    "trace 1\nmodule self\ncontext c0 module=self\n"
    "instruction neg func_name=neg layer_type=neg\ninstruction ones func_name=ones layer_type=ones\n"
    "instruction exp func_name=exp layer_type=exp\n"
    "call self:1 first_op=#0 end_op=end\n"
    "op o0 input out=f32[4] address=input.x\n"
    "op o1 ones out=f32[4]\n"  // an island
    "op o2 neg out=f32[4] parents=o0@0\n"
    "op o3 exp out=f32[4] parents=o2@0\n"
    "op o4 output out=f32[4] parents=o3@0 address=output\n";

Capture capture_with_statistics() {
  auto capture = test::capture_from_text(kText);
  capture.statistics.taken = kStatSum;
  for (const std::uint32_t event : {0U, 1U, 3U}) {
    TensorStats stats;
    stats.numel = 4;
    stats.sum = 10.0 * event;
    capture.statistics.append(event, stats, false);
  }
  return capture;
}

TEST(StatisticsInPostprocess, FollowTheirOps) {
  StepContract contract;
  StepObserver* observers[] = {&contract};
  const auto trace = run_pipeline(capture_with_statistics(), observers);
  ASSERT_THAT(test::labels(trace), testing::ElementsAre("input_1", "neg_1_1", "exp_1_2", "output_1"));
  EXPECT_EQ(trace.statistics.taken, StatisticSet{kStatSum});
  // The island went; the output has the statistics of what it returns; neg never had any.
  EXPECT_THAT(test::rows(trace.statistics.op), testing::ElementsAre(0, 2, 3));
  EXPECT_THAT(test::rows(trace.statistics.sum), testing::ElementsAre(0, 30, 30));
}

}  // namespace
}  // namespace tl
