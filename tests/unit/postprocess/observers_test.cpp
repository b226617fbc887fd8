#include "postprocess/observers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/error.h"
#include "postprocess/pipeline.h"
#include "support/temp_directory.h"
#include "support/trace_fixtures.h"
#include "trace/text.h"

namespace tl {
namespace {

TEST(StepTimer, HasARowAStep) {
  StepTimer timer;
  StepObserver* observers[] = {&timer};
  run_pipeline(test::random_capture(1, 50), observers);
  ASSERT_EQ(timer.rows().size(), pipeline_steps().size());
  EXPECT_EQ(timer.rows()[0].step, "materialise-ops");
  EXPECT_GT(timer.total_seconds(), 0);
}

TEST(StepPrinter, PrintsTheTraceAfterOneStep) {
  std::string out;
  StepPrinter printer("group-loops", false, [&](std::string_view text) { out += text; });
  StepObserver* observers[] = {&printer};
  run_pipeline(test::random_capture(1, 30), observers);
  EXPECT_THAT(out, testing::StartsWith("# after group-loops\ntrace 1\n"));
  const auto expected = to_text(run_pipeline(test::random_capture(1, 30), {}, {.stop_after = "group-loops"}));
  EXPECT_EQ(out, "# after group-loops\n" + expected);
}

TEST(StepPrinter, PrintChangedLeavesUnchangedTextsOut) {
  std::string out;
  StepPrinter printer("all", true, [&](std::string_view text) { out += text; });
  StepObserver* observers[] = {&printer};
  auto capture = test::random_capture(1, 30);
  capture.run.health.nonfinite.clear();
  run_pipeline(std::move(capture), observers);
  EXPECT_THAT(out, testing::HasSubstr("# after rename-references: unchanged\n# after settle-payloads: unchanged\n"));
  EXPECT_THAT(out, testing::HasSubstr("# after group-loops\ntrace 1\n"));
}

TEST(StepPrinter, RefusesUnknownSteps) {
  EXPECT_THROW(StepPrinter("nope", false, [](std::string_view) {}), Error);
}

TEST(StepDumper, WritesAFileAStepThatReadsBack) {
  const TempDirectory directory;
  StepDumper dumper(directory.path() / "dump");
  StepObserver* observers[] = {&dumper};
  run_pipeline(test::random_capture(2, 60), observers);
  const auto path = directory.path() / "dump" / "08-group-loops.trace";
  ASSERT_TRUE(std::filesystem::exists(path));
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(to_text(trace_from_text(text.str())), text.str());
}

TEST(StepDumper, SaysWhatCannotBeWritten) {
  try {
    StepDumper("/proc/nowhere");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kOutputFailed);
    EXPECT_THAT(error.message, testing::HasSubstr("/proc/nowhere"));
  }
}

TEST(StepVerifier, NamesTheStepThatBrokeTheTrace) {
  auto trace = run_pipeline(test::random_capture(3, 40));
  trace.ops.pass_index.mut(0) = 7;
  try {
    StepVerifier().after(find_step("assign-labels"), trace);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kInvariant);
    EXPECT_THAT(error.message, testing::StartsWith("after step assign-labels: passes: "));
  }
}

TEST(StepContract, NamesTheColumnThatAStepDoesNotDeclare) {
  auto trace = run_pipeline(test::random_capture(3, 40));
  StepContract contract;
  const auto& step = find_step("assign-labels");
  contract.before(step, trace);
  trace.layers.type_num.mut(0) = 9;
  contract.after(step, trace);  // declared
  contract.before(step, trace);
  trace.ops.shape.mut(0) = 0;
  trace.ops.flags.mut(0) ^= kOpView;
  try {
    contract.after(step, trace);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kInternal);
    EXPECT_EQ(error.message, "the step assign-labels changed ops.flags, which it does not declare");
  }
}

}  // namespace
}  // namespace tl
