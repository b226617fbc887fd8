#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "core/error.h"
#include "sample_trace.h"
#include "support/temp_directory.h"
#include "tensor/safetensors.h"
#include "tlspec/reader.h"
#include "tlspec/writer.h"

namespace tl {
namespace {

namespace fs = std::filesystem;
using test::make_sample_trace;

TEST(TlspecRoundtrip, EveryColumnAndPayloadComesBack) {
  const TempDirectory dir;
  const auto trace = make_sample_trace();
  const auto report = write_tlspec(trace, dir / "run.tlspec");
  const auto read = read_tlspec(dir / "run.tlspec", {.verify_digests = true, .check_invariants = true});
  test::expect_equal_columns(read, trace);
  test::expect_equal_payloads(read, trace);
  EXPECT_TRUE(read.finished);
  EXPECT_EQ(read.graph_shape_hash, "00ff");
  EXPECT_EQ(report.payloads, test::sample_payloads().size() - 2);
  EXPECT_EQ(report.shards, 1U);
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(dir / "run.tlspec")) bytes += entry.file_size();
  EXPECT_EQ(report.bytes, bytes);
}

TEST(TlspecRoundtrip, PayloadsAreEncodedAsTheirLayoutAsks) {
  const TempDirectory dir;
  write_tlspec(make_sample_trace(), dir / "run.tlspec");
  const auto read = read_tlspec(dir / "run.tlspec");
  const auto expected = test::sample_payloads();
  for (std::size_t row = 0; row < expected.size(); ++row) {
    EXPECT_EQ(read.payloads.encoding[row], static_cast<std::uint8_t>(expected[row].encoding)) << expected[row].name;
    EXPECT_EQ(read.payloads.shard[row], expected[row].parts.empty() ? -1 : 0) << expected[row].name;
  }
}

// The keys and dtypes of the file, told by the format's own header.
TEST(TlspecRoundtrip, TensorsAreNamedByTheirFirstOp) {
  const TempDirectory dir;
  write_tlspec(make_sample_trace(), dir / "run.tlspec");
  const auto file = SafetensorsFile::open(dir / "run.tlspec" / "tensors-00000.safetensors");
  const auto expect = [&](const char* name, DType dtype, const std::vector<std::int64_t>& sizes) {
    const auto* entry = file.find(name);
    ASSERT_NE(entry, nullptr) << name;
    EXPECT_EQ(entry->dtype, dtype) << name;
    EXPECT_EQ(entry->sizes, sizes) << name;
  };
  expect("transposed_1_2", DType::kF32, {3, 2});
  expect("expanded_1_4", DType::kF32, {3});  // one row of the storage, not four
  expect("unfolded_1_5", DType::kI64, {4});
  expect("c128_1_14", DType::kF64, {2, 3, 2});
  expect("c32_1_15", DType::kF16, {3, 2});
  expect("bits_1_16", DType::kU16, {3});
  expect("quantised_1_17", DType::kI8, {2, 3});
  expect("quantised_1_17.scale", DType::kF64, {2});
  expect("sparse_1_18.values", DType::kF32, {3});
  expect("twice_1_21:1", DType::kF32, {2});
  expect("twice_1_21:2", DType::kF32, {3});
  EXPECT_EQ(file.find("uninitialised_1_19"), nullptr);
}

TEST(TlspecRoundtrip, RunInfoComesBack) {
  const TempDirectory dir;
  auto trace = make_sample_trace();
  auto& outcome = trace.run.outcome;
  outcome.status = "failed";
  outcome.origin = "user_op";
  outcome.reason = "shape mismatch: \"2\" \xF0\x9F\x99\x82";
  outcome.error_type = "RuntimeError";
  outcome.boundary_kind = "op";
  outcome.boundary_label = "relu";
  outcome.n_ops_committed = 3;
  outcome.frontier_labels = {"relu_1_2"};
  outcome.module = "layer1.0";
  outcome.call_site = "net.py:12";
  trace.run.health.nonfinite = {"relu_1_2"};
  trace.run.outputs[0].max = std::numeric_limits<double>::infinity();
  write_tlspec(trace, dir / "run.tlspec");
  const auto run = read_tlspec(dir / "run.tlspec").run;
  EXPECT_EQ(run.model_file, "net.pt");
  EXPECT_EQ(run.model_bytes, 1234);
  EXPECT_EQ(run.seed, 7);
  ASSERT_EQ(run.inputs.size(), 1U);
  EXPECT_EQ(run.inputs[0].role, "input.x");
  EXPECT_EQ(run.inputs[0].dtype, DType::kF32);
  EXPECT_EQ(run.inputs[0].sizes, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(run.inputs[0].min, -1.5);
  ASSERT_EQ(run.outputs.size(), 1U);
  EXPECT_EQ(run.outputs[0].min, 0.1);
  EXPECT_EQ(run.outputs[0].max, std::numeric_limits<double>::infinity());
  EXPECT_THAT(run.outputs[0].top, testing::ElementsAre(testing::Pair(2, 0.75), testing::Pair(0, -0.125)));
  EXPECT_EQ(run.outcome.status, "failed");
  EXPECT_EQ(run.outcome.reason, trace.run.outcome.reason);
  EXPECT_EQ(run.outcome.n_ops_committed, 3);
  EXPECT_THAT(run.health.nonfinite, testing::ElementsAre("relu_1_2"));
  EXPECT_THAT(run.health.skipped_payloads, testing::ElementsAre("opaque: a backend tensor"));
  EXPECT_EQ(run.load_seconds, 0.25);
  EXPECT_EQ(run.forward_seconds, 0.125);
}

TEST(TlspecRoundtrip, OnlyTimesDifferBetweenTwoWrites) {
  const TempDirectory dir;
  auto trace = make_sample_trace();
  write_tlspec(trace, dir / "one.tlspec");
  write_tlspec(trace, dir / "same.tlspec");
  trace.run.load_seconds = 9;
  trace.op_seconds.mut(0) = 9;
  write_tlspec(trace, dir / "two.tlspec");
  for (const char* name : {"columns.safetensors", "tensors-00000.safetensors"}) {
    EXPECT_EQ(read_text(dir / "one.tlspec" / name), read_text(dir / "two.tlspec" / name)) << name;
  }
  for (const char* name : {"manifest.json", "timing.safetensors"}) {
    EXPECT_EQ(read_text(dir / "one.tlspec" / name), read_text(dir / "same.tlspec" / name)) << name;
    EXPECT_NE(read_text(dir / "one.tlspec" / name), read_text(dir / "two.tlspec" / name)) << name;
  }
  const auto without_volatile = [&](const char* name) {
    const auto text = read_text(dir / name / "manifest.json");
    const auto begin = text.find("\"volatile\"");
    return text.substr(0, begin) + text.substr(text.find("\"outcome\""));
  };
  EXPECT_EQ(without_volatile("one.tlspec"), without_volatile("two.tlspec"));
}

TEST(TlspecRoundtrip, WritingWhatWasReadGivesTheSameBytes) {
  const TempDirectory dir;
  write_tlspec(make_sample_trace(), dir / "one.tlspec");
  write_tlspec(read_tlspec(dir / "one.tlspec"), dir / "two.tlspec");
  for (const auto& entry : fs::directory_iterator(dir / "one.tlspec")) {
    EXPECT_EQ(read_text(entry.path()), read_text(dir / "two.tlspec" / entry.path().filename())) << entry.path();
  }
}

TEST(TlspecRoundtrip, ShardsAreSplit) {
  const TempDirectory dir;
  const auto trace = make_sample_trace();
  const auto report = write_tlspec(trace, dir / "run.tlspec", {.shard_bytes = 40});
  EXPECT_GT(report.shards, 5U);
  const auto read = read_tlspec(dir / "run.tlspec", {.verify_digests = true});
  test::expect_equal_payloads(read, trace);
  for (std::size_t i = 0; i < report.shards; ++i) {
    const auto file = SafetensorsFile::open(dir / "run.tlspec" / shard_name(static_cast<std::int64_t>(i)));
    std::size_t bytes = 0;
    for (const auto& entry : file.entries()) bytes += entry.end - entry.begin;
    // Only a payload that is alone may be larger.
    if (bytes > 40) {
      const auto& rows = read.payloads.shard;
      EXPECT_EQ(std::count(rows.begin(), rows.end(), static_cast<std::int32_t>(i)), 1) << i;
    }
  }
}

TEST(TlspecRoundtrip, PayloadsOutliveTheTrace) {
  const TempDirectory dir;
  const auto trace = make_sample_trace();
  write_tlspec(trace, dir / "run.tlspec");
  TensorRefPtr tensor;
  std::vector<std::byte> expected = test::gather(trace.payload_source->tensor(PayloadId{0})->to_host()[0].tensor);
  {
    auto read = read_tlspec(dir / "run.tlspec");
    const Trace moved = std::move(read);
    tensor = moved.payload_source->tensor(PayloadId{0});
  }
  EXPECT_EQ(test::gather(tensor->to_host()[0].tensor), expected);
}

TEST(TlspecRoundtrip, AuditHoldsRecordsOnly) {
  const TempDirectory dir;
  const auto trace = make_sample_trace();
  write_tlspec(trace, dir / "run.tlspec", {.level = Level::kAudit});
  EXPECT_EQ(count_entries(dir / "run.tlspec"), 3U);
  const auto read = read_tlspec(dir / "run.tlspec");
  test::expect_equal_columns(read, trace);
  EXPECT_EQ(read.payload_source, nullptr);
  EXPECT_EQ(read.payloads.shard[0], -1);
  try {
    write_tlspec(read, dir / "again.tlspec");
    ADD_FAILURE() << "a portable recording without payloads was written";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kLevelConflict);
  }
  EXPECT_FALSE(fs::exists(dir / "again.tlspec"));
}

TEST(TlspecRoundtrip, WithoutPayloadsOnRequest) {
  const TempDirectory dir;
  write_tlspec(make_sample_trace(), dir / "run.tlspec");
  EXPECT_EQ(read_tlspec(dir / "run.tlspec", {.payloads = false}).payload_source, nullptr);
}

TEST(TlspecRoundtrip, AnEmptyTraceIsARecording) {
  const TempDirectory dir;
  write_tlspec(Trace(), dir / "run.tlspec");
  const auto read = read_tlspec(dir / "run.tlspec", {.verify_digests = true});
  EXPECT_EQ(read.num_ops(), 0U);
  EXPECT_EQ(read.shapes.size(), 0U);
}

TEST(TlspecRoundtrip, ATraceThatAReaderWouldRefuseIsNotWritten) {
  const TempDirectory dir;
  auto trace = make_sample_trace();
  trace.ops.layer.mut(3) = 1000;
  try {
    write_tlspec(trace, dir / "run.tlspec");
    ADD_FAILURE() << "written";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kInvariant);
    EXPECT_THAT(error.message, testing::HasSubstr("ops.layer[3] is 1000, layers has 24 rows"));
  }
  trace = make_sample_trace();
  trace.payloads.shape.mut(0) = trace.payloads.shape[1];
  EXPECT_THROW(write_tlspec(trace, dir / "run.tlspec"), Error);
  EXPECT_EQ(count_entries(dir.path()), 0U);
}

}  // namespace
}  // namespace tl
