#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <set>

#include "postprocess/observers.h"
#include "postprocess/pipeline.h"
#include "support/trace_fixtures.h"
#include "trace/invariants.h"
#include "trace/text.h"

namespace tl {
namespace {

constexpr std::uint64_t kSeeds = 200;

/// After every step: the text reads back to itself.
class RoundTrip : public StepObserver {
 public:
  void after(const Step& step, const Trace& trace) override {
    const auto text = to_text(trace, {.stable = false});
    EXPECT_EQ(to_text(trace_from_text(text), {.stable = false}), text) << "after " << step.name;
    ++steps;
  }
  std::size_t steps = 0;
};

TEST(PipelineProperty, EveryStepKeepsItsContractTheInvariantsAndTheText) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    StepVerifier verifier;
    StepContract contract;
    RoundTrip round_trip;
    StepObserver* observers[] = {&contract, &verifier, &round_trip};
    const auto trace = run_pipeline(test::random_capture(seed, 5 + seed % 40), observers);
    ASSERT_EQ(round_trip.steps, pipeline_steps().size());
    ASSERT_TRUE(trace.finished);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(PipelineProperty, PassCountsSumToOps) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const auto trace = run_pipeline(test::random_capture(seed, 80));
    const auto passes = std::accumulate(trace.layers.num_passes.begin(), trace.layers.num_passes.end(), std::size_t{0});
    EXPECT_EQ(passes, trace.num_ops()) << "seed " << seed;
    const auto labels = test::labels(trace);
    EXPECT_EQ(std::set<std::string>(labels.begin(), labels.end()).size(), labels.size()) << "seed " << seed;
  }
}

TEST(PipelineProperty, EqualCapturesGiveEqualTraces) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const auto first = run_pipeline(test::random_capture(seed, 80));
    const auto second = run_pipeline(test::random_capture(seed, 80));
    EXPECT_EQ(to_text(first, {.stable = false}), to_text(second, {.stable = false}));
  }
}

TEST(PipelineProperty, WhatIsKeptIsConnectedAndIslandsAreGone) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    auto capture = test::random_capture(seed, 80);
    const auto events = capture.events.size();
    auto failed = test::random_capture(seed, 80);
    failed.run.outcome.status = "failed";
    const auto trace = run_pipeline(std::move(capture));
    EXPECT_LE(trace.num_ops(), events + 3);
    EXPECT_EQ(run_pipeline(std::move(failed)).num_ops(), events + 3);  // nothing goes when the run did not end
    const auto children = make_child_index(trace);
    for (std::size_t op = 0; op < trace.num_ops(); ++op) {
      const auto [begin, end] = edge_range(trace, OpId{static_cast<std::uint32_t>(op)});
      const bool connected = begin < end || children.begin[op] < children.begin[op + 1] || trace.ops.num_slots[op] > 1;
      const auto kind = static_cast<OpKind>(trace.ops.kind[op]);
      const bool may_be_alone =
          kind == OpKind::kInput || kind == OpKind::kOutput || (trace.ops.flags[op] & kOpBufferWrite) != 0;
      EXPECT_TRUE(connected || may_be_alone) << "seed " << seed << " op " << op;
    }
  }
}

// Not a benchmark: prints the time of a million Ops when TL_MILLION is set, and checks that the pipeline stays linear.
TEST(PipelineProperty, AMillionOps) {
  const std::size_t count = std::getenv("TL_MILLION") != nullptr ? 1000000 : 20000;
  auto capture = test::random_capture(7, count);
  StepTimer timer;
  StepObserver* observers[] = {&timer};
  const auto trace = run_pipeline(std::move(capture), observers);
  EXPECT_TRUE(check_invariants(trace).empty());
  for (const auto& row : timer.rows())
    std::printf("%-24s %8.1f ms\n", std::string(row.step).c_str(), row.seconds * 1e3);
  std::printf("%-24s %8.1f ms\n", "total", timer.total_seconds() * 1e3);
}

}  // namespace
}  // namespace tl
