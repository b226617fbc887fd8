#include <gmock/gmock.h>

#include "diff/reports.h"
#include "diff_fixtures.h"
#include "trace/statistics_recorder.h"

namespace tl {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

/// A module output of which only numbers are known, as FastVideo records them.
DumpEntry by_statistics(const std::string& name, double mean) {
  DumpEntry entry;
  entry.name = name;
  entry.class_name = "Linear";
  entry.dtype = DType::kF32;
  entry.sizes = {2, 3};
  entry.evidence = Evidence::kStatistics;
  entry.statistics.mean = mean;
  entry.statistics.abs_mean = mean;
  entry.statistics.l2 = 4 * mean;
  return entry;
}

Dump dump_of(double first, double second) {
  Dump dump;
  dump.kind = "activation trace";
  dump.entries = {by_statistics("fc1", first), by_statistics("fc2", second)};
  return dump;
}

DiffReport diff_of(const Dump& reference, const Dump& subject) {
  DiffOptions options;
  options.reference_name = "a";
  options.subject_name = "b";
  return compare_recordings(make_side(reference), make_side(subject), options).report;
}

constexpr ReportFormat kFormats[] = {ReportFormat::kJson,     ReportFormat::kJsonl, ReportFormat::kCsv,
                                     ReportFormat::kMarkdown, ReportFormat::kHtml,  ReportFormat::kJunit,
                                     ReportFormat::kGithub};

TEST(Evidence, EveryReportSaysThatStatisticsAreWeakerEvidence) {
  const auto same = diff_of(dump_of(1, 2), dump_of(1, 2));
  EXPECT_FALSE(same.different);
  EXPECT_EQ(same.verdict, "SAME       2 of 2 entries compared, all within tolerance, 2 by statistics only");
  EXPECT_THAT(same.notes, Contains(HasSubstr("2 of 2 entries were compared by statistics only, which is weaker "
                                             "evidence")));
  const auto different = diff_of(dump_of(1, 2), dump_of(1, 3));
  EXPECT_TRUE(different.different);
  EXPECT_THAT(different.verdict, HasSubstr("fc2 by statistics"));
  for (const auto format : kFormats) {
    EXPECT_THAT(make_report(same, format), HasSubstr("statistics")) << to_string(format);
    EXPECT_THAT(make_report(different, format), HasSubstr("statistics")) << to_string(format);
  }
}

constexpr const char* kText =
    "module self\ncontext c0 module=self\ninstruction aten::relu func_name=relu layer_type=relu\n"
    "call self:1 first_op=a end_op=end\nop a input out=f32[4] address=input.x\n"
    "op b aten::relu out=f32[4] parents=a@0\nop c output out=f32[4] parents=b@0 address=output\n";

/// A recording that kept no value but took statistics of each.
Trace counted(std::vector<HostTensor> values) {
  auto capture = test::capture_from_text("trace 1\n" + std::string(kText));
  StatisticsRecorder recorder(kAllStatistics);
  for (std::uint32_t event = 0; event < values.size(); ++event) recorder.on_value(event, values[event]);
  capture.statistics = recorder.take();
  return run_pipeline(std::move(capture));
}

const HostTensor kInput = test::floats({-1, 2, -3, 4});
const HostTensor kOutput = test::floats({0, 2, 0, 4});
const HostTensor kOther = test::floats({0, 2, 0, 5});

TEST(Evidence, StatisticsOfARecordingAreComparedWhereItKeptNoValues) {
  const auto kept = test::trace_of(kText, {kInput, kOutput, kOutput});
  const auto same = test::diff_of(counted({kInput, kOutput, kOutput}), kept);
  EXPECT_FALSE(same.different);
  EXPECT_EQ(same.coverage.compared, 1);
  EXPECT_EQ(same.coverage.by_evidence[static_cast<std::size_t>(Evidence::kStatistics)], 1);
  const auto different = test::diff_of(counted({kInput, kOutput, kOutput}), counted({kInput, kOther, kOther}));
  EXPECT_TRUE(different.different);
  ASSERT_EQ(different.sources.size(), 1u);
  const auto& source = different.sites[static_cast<std::size_t>(different.sources[0])];
  EXPECT_EQ(source.subject.func_name, "relu");
  EXPECT_EQ(source.evidence, Evidence::kStatistics);
  // |5 - 4| is all that differs: mean 1.5 against 1.75, so that mean |d| is at least 0.25.
  EXPECT_DOUBLE_EQ(source.statistics->mean_abs_at_least, 0.25);
  EXPECT_DOUBLE_EQ(source.statistics->max_abs_at_least, 1);
}

TEST(Evidence, ValuesAreTakenWhereBothKeptThem) {
  const auto report = test::diff_of(test::trace_of(kText, {kInput, kOutput, kOutput}),
                                    test::trace_of(kText, {kInput, kOutput, kOutput}));
  EXPECT_EQ(report.coverage.by_evidence[static_cast<std::size_t>(Evidence::kFull)], 1);
  EXPECT_THAT(report.verdict, Not(HasSubstr("statistics")));
}

}  // namespace
}  // namespace tl
