#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "postprocess/pipeline.h"
#include "support/temp_directory.h"
#include "support/trace_fixtures.h"
#include "tensor/host_tensor.h"
#include "tlspec/column_io.h"
#include "tlspec/reader.h"
#include "tlspec/statistics_file.h"
#include "tlspec/stats_jsonl.h"
#include "tlspec/writer.h"
#include "trace/statistics_recorder.h"

namespace tl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// block (its output is relu's) in the root; relu runs twice.
constexpr const char* kText =
    "trace 1\ncall_site s0 file=m.py line=3\nmodule self\nmodule block\nmodule \"block.re\\\"lu\"\n"
    "context c0 module=self\ncontext c1 module=block\ncontext c2 module=\"block.re\\\"lu\"\n"
    "instruction arange func_name=arange layer_type=arange call_site=s0\n"
    "instruction aten::neg func_name=neg layer_type=neg call_site=s0\n"
    "instruction aten::relu func_name=relu layer_type=relu call_site=s0\n"
    "call self:1 first_op=#0 end_op=end output_op=o4\n"
    "call block:1 module=block parent_call=self:1 first_op=o2 end_op=o4 output_op=o3\n"
    "call r:1 module=\"block.re\\\"lu\" parent_call=block:1 first_op=o3 end_op=o4 output_op=o3\n"
    "op o0 input out=f32[4] address=input.x\n"
    "op o1 arange out=i64[2] parents=o0@0\n"
    "op o2 aten::neg out=f32[2,2] parents=o0@0 call=block:1 context=c1\n"
    "op o3 aten::relu out=f32[2,2] parents=o2@0 call=r:1 context=c2\n"
    "op o4 aten::neg out=bool[0] parents=o3@0,o1@1\n"
    "op o5 output out=bool[0] parents=o4@0 address=output\n";

template <typename T>
HostTensor tensor(DType dtype, const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return make_host_tensor(dtype, {static_cast<std::int64_t>(values.size())}, bytes);
}

Trace sample(StatisticSet wanted) {
  auto capture = test::capture_from_text(kText);
  StatisticsRecorder recorder(wanted);
  recorder.on_value(0, tensor<float>(DType::kF32, {1, -3, 0, INFINITY}));
  recorder.on_value(1, tensor<std::int64_t>(DType::kI64, {std::numeric_limits<std::int64_t>::min(), 7}));
  recorder.on_value(3, tensor<float>(DType::kF32, {0.5F, 0.5F, -0.0F, 1e-40F}));
  recorder.on_value(4, tensor<std::uint8_t>(DType::kBool, {}));
  capture.statistics = recorder.take();
  return run_pipeline(std::move(capture));
}

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TEST(Statistics, ComeBack) {
  const TempDirectory dir;
  const auto trace = sample(kAllStatistics);
  write_tlspec(trace, dir / "run.tlspec");
  const auto read = read_tlspec(dir / "run.tlspec", {.verify_digests = true, .check_invariants = true});
  const auto& got = read.statistics;
  const auto& expected = trace.statistics;
  EXPECT_EQ(got.taken, kAllStatistics);
  EXPECT_EQ(test::rows(got.op), test::rows(expected.op));
  EXPECT_THAT(test::rows(got.op), ElementsAre(0, 1, 3, 4, 5));
  visit_statistics_members([&](std::string_view name, auto member, StatisticSet) {
    const auto left = (got.*member).view();
    const auto right = (expected.*member).view();
    ASSERT_EQ(left.size(), right.size()) << name;
    EXPECT_EQ(std::memcmp(left.data(), right.data(), left.size_bytes()), 0) << name;
  });
  EXPECT_EQ(test::rows(got.exact_op), test::rows(expected.exact_op));
  EXPECT_EQ(test::rows(got.exact_min), test::rows(expected.exact_min));
  EXPECT_EQ(test::rows(got.exact_max), test::rows(expected.exact_max));
  EXPECT_EQ(test::rows(got.histogram_begin), test::rows(expected.histogram_begin));
  EXPECT_EQ(test::rows(got.histogram_code), test::rows(expected.histogram_code));
  EXPECT_EQ(test::rows(got.histogram_count), test::rows(expected.histogram_count));
  EXPECT_EQ(read_tlspec(dir / "run.tlspec", {.statistics = false}).statistics.size(), 0U);
}

TEST(Statistics, AbsentWithoutThem) {
  const TempDirectory dir;
  write_tlspec(run_pipeline(test::capture_from_text(kText)), dir / "run.tlspec");
  EXPECT_FALSE(std::filesystem::exists(dir / "run.tlspec" / "statistics.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(dir / "run.tlspec" / "stats.jsonl"));
  EXPECT_EQ(read_tlspec(dir / "run.tlspec").statistics.size(), 0U);
}

// The keys of FastVideo's activation trace first, in its order.
TEST(Statistics, LinesHaveFastVideosKeys) {
  const TempDirectory dir;
  write_tlspec(sample(kStatAbsMean | kStatSum | kStatMin | kStatMax | kStatInf | kStatHistogram), dir / "run.tlspec");
  EXPECT_THAT(
      lines_of(dir / "run.tlspec" / "stats.jsonl"),
      ElementsAre(
          R"({"module": "", "tensor": "input.x", "step": 0, "abs_mean": 1.3333333333333333, "sum": -2.0, "min": -3.0, "max": 1.0, "inf": 1, "neginf": 0, "histogram": {"-2^1": 1, "0": 1, "2^0": 1}, "shape": [4], "dtype": "torch.float32", "label": "input_1", "call": 1})",
          R"({"module": "", "tensor": "arange_1_1", "step": 0, "abs_mean": 4611686018427387904.0, "sum": -9223372036854775808.0, "min": -9223372036854775808, "max": 7, "inf": 0, "neginf": 0, "histogram": {"-2^63": 1, "2^2": 1}, "shape": [2], "dtype": "torch.int64", "label": "arange_1_1", "func_name": "arange", "call": 1})",
          R"({"module": "block.re\"lu", "tensor": "out", "step": 0, "abs_mean": 0.25, "sum": 1.0, "min": 0.0, "max": 0.5, "inf": 0, "neginf": 0, "histogram": {"0": 1, "2^-127": 1, "2^-1": 2}, "shape": [2, 2], "dtype": "torch.float32", "label": "relu_1_3", "func_name": "relu", "call": 1, "output_of": ["block.re\"lu", "block"]})",
          R"({"module": "", "tensor": "out", "step": 0, "abs_mean": "nan", "sum": 0.0, "min": "nan", "max": "nan", "inf": 0, "neginf": 0, "histogram": {}, "shape": [0], "dtype": "torch.bool", "label": "neg_2_4", "func_name": "neg", "call": 1, "output_of": [""]})",
          R"({"module": "", "tensor": "output", "step": 0, "abs_mean": "nan", "sum": 0.0, "min": "nan", "max": "nan", "inf": 0, "neginf": 0, "histogram": {}, "shape": [0], "dtype": "torch.bool", "label": "output_1", "call": 1})"));
  for (const auto& line : lines_of(dir / "run.tlspec" / "stats.jsonl")) {
    EXPECT_TRUE(nlohmann::json::accept(line)) << line;
  }
}

TEST(Statistics, AreTheSameBytesEachTime) {
  const TempDirectory dir;
  for (const char* name : {"one.tlspec", "two.tlspec"}) write_tlspec(sample(kAllStatistics), dir / name);
  for (const char* file : {"statistics.safetensors", "stats.jsonl"}) {
    std::stringstream one;
    std::stringstream two;
    one << std::ifstream(dir / "one.tlspec" / file).rdbuf();
    two << std::ifstream(dir / "two.tlspec" / file).rdbuf();
    EXPECT_EQ(one.str(), two.str());
  }
}

/// Writes a changed table and says how the reader refuses it.
std::string refusal(const std::function<void(StatisticsTable&)>& damage) {
  const TempDirectory dir;
  auto trace = sample(kAllStatistics);
  damage(trace.statistics);
  write_statistics(dir / "statistics.safetensors", trace.statistics);
  trace.statistics = {};
  try {
    read_statistics(dir / "statistics.safetensors", trace);
    return "none";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kFileDamaged);
    return error.message;
  }
}

TEST(Statistics, NothingInThemIsTrusted) {
  EXPECT_EQ(refusal([](StatisticsTable&) {}), "none");
  EXPECT_THAT(refusal([](StatisticsTable& t) { t.op.mut(1) = 0; }), HasSubstr("op[1] is 0, the row before has 0"));
  EXPECT_THAT(refusal([](StatisticsTable& t) { t.op.mut(0) = -1; }), HasSubstr("op[0] is -1"));
  EXPECT_THAT(refusal([](StatisticsTable& t) { t.op.mut(4) = 6; }), HasSubstr("op[4] is 6, ops has 6 rows"));
  EXPECT_THAT(refusal([](StatisticsTable& t) { t.sum.push_back(1); }),
              HasSubstr("the column sum has 6 rows, 5 are expected"));
  EXPECT_THAT(refusal([](StatisticsTable& t) { t.nan.mut(0) = 5; }), HasSubstr("nan[0] is 5, 0 to 4 are possible"));
  EXPECT_THAT(refusal([](StatisticsTable& t) { t.zeros.mut(0) = -1; }), HasSubstr("zeros[0] is -1"));
  EXPECT_THAT(refusal([](StatisticsTable& t) { t.argmin.mut(0) = 4; }), HasSubstr("argmin[0] is 4, -1 to 3"));
  EXPECT_THAT(refusal([](StatisticsTable& t) { t.argmax.mut(3) = 0; }), HasSubstr("argmax[3] is 0, -1 to -1"));
  EXPECT_THAT(refusal([](StatisticsTable& t) { t.exact_op.mut(0) = 0; }),
              HasSubstr("exact.op[0] is 0, whose values are f32"));
  EXPECT_THAT(refusal([](StatisticsTable& t) { t.exact_max.push_back(1); }), HasSubstr("exact.max has 2 rows"));
  EXPECT_THAT(refusal([](StatisticsTable& t) { t.histogram_begin.mut(1) = 99; }), HasSubstr("histogram.begin[2]"));
  EXPECT_THAT(refusal([](StatisticsTable& t) { t.histogram_begin.push_back(8); }),
              HasSubstr("histogram.begin has 7 rows, 6 are expected"));
  EXPECT_THAT(refusal([](StatisticsTable& t) { t.histogram_code.mut(0) = -300; }), HasSubstr("histogram.code[0]"));
  EXPECT_THAT(refusal([](StatisticsTable& t) { t.histogram_code.mut(1) = -129; }), HasSubstr("histogram.code[1]"));
  EXPECT_THAT(refusal([](StatisticsTable& t) { t.histogram_count.mut(0) = 0; }), HasSubstr("histogram.count[0] is 0"));
  EXPECT_THAT(refusal([](StatisticsTable& t) { t.histogram_count.mut(1) = std::numeric_limits<std::int64_t>::max(); }),
              HasSubstr("histogram.count[1]"));
}

}  // namespace
}  // namespace tl
