// A sparse recording that is stored, read and finished is byte for byte what would have been written without the
// detour.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "core/error.h"
#include "postprocess/pipeline.h"
#include "sample_trace.h"
#include "support/temp_directory.h"
#include "support/trace_fixtures.h"
#include "tensor/host_tensor.h"
#include "tlspec/column_checks.h"
#include "tlspec/manifest.h"
#include "tlspec/reader.h"
#include "tlspec/sparse_checks.h"
#include "tlspec/writer.h"
#include "trace/invariants.h"
#include "trace/statistics_recorder.h"
#include "trace/text.h"

namespace tl {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// The sample's payloads, each under two numbers, as a view that is recorded again.
class Twice : public PayloadSource {
 public:
  explicit Twice(std::shared_ptr<const PayloadSource> base) : base_(std::move(base)) {}
  std::size_t size() const override { return 2 * base_->size(); }
  PayloadFacts facts(PayloadId id) const override {
    auto facts = base_->facts(original(id));
    facts.storage = original(id).value + 1;
    return facts;
  }
  TensorRefPtr tensor(PayloadId id) const override { return base_->tensor(original(id)); }

 private:
  PayloadId original(PayloadId id) const { return PayloadId{static_cast<std::uint32_t>(id.value % base_->size())}; }
  std::shared_ptr<const PayloadSource> base_;
};

/// A random run with payloads, samples, statistics and outputs; the same for the same seed.
Capture sample(std::uint64_t seed, const std::string& status = "complete") {
  auto capture = test::random_capture(seed, 300);
  capture.payloads = std::make_shared<Twice>(test::make_sample_trace().payload_source);
  capture.run = test::make_sample_trace().run;
  capture.run.outcome.status = status;
  std::minstd_rand random(static_cast<unsigned>(seed));
  StatisticsRecorder recorder(kAllStatistics);
  for (std::uint32_t event = 0; event < capture.events.size(); ++event) {
    auto& row = capture.events[event];
    if (random() % 3 != 0) row.payload = static_cast<std::uint32_t>(random() % capture.payloads->size());
    row.duration_ns = static_cast<std::uint32_t>(random() % 1000);
    std::int64_t numel = 1;
    for (const auto size : capture.shapes[static_cast<std::int32_t>(row.shape)]) numel *= size;
    if (random() % 4 == 0) continue;
    std::vector<std::byte> bytes(static_cast<std::size_t>(numel) * 4, std::byte{static_cast<unsigned char>(event)});
    recorder.on_value(event, make_host_tensor(DType::kF32, {numel}, std::move(bytes)));
  }
  capture.statistics = recorder.take();
  capture.outputs[2].payload = 3;
  return capture;
}

std::map<std::string, std::string> files_of(const fs::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    files[entry.path().filename().string()] = read_text(entry.path());
  }
  return files;
}

TEST(Sparse, FinishedIsTheTraceByteForByte) {
  for (const char* status : {"complete", "failed"}) {
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      const TempDirectory dir;
      write_tlspec(run_pipeline(sample(seed, status)), dir / "full.tlspec");
      write_sparse(make_sparse(sample(seed, status)), dir / "run.tlspec");
      auto file = read_sparse(dir / "run.tlspec");
      const auto trace = finish_sparse(std::move(file.recording));
      EXPECT_TRUE(check_invariants(trace).empty());
      write_tlspec(trace, dir / "run.tlspec", {.level = file.level, .force = true});
      const auto expected = files_of(dir / "full.tlspec");
      const auto got = files_of(dir / "run.tlspec");
      ASSERT_EQ(got.size(), expected.size());
      for (const auto& [name, bytes] : expected) {
        ASSERT_TRUE(got.contains(name)) << name;
        EXPECT_TRUE(got.at(name) == bytes) << name << " differs, seed " << seed;
      }
      EXPECT_GE(expected.size(), 6U) << "manifest, columns, timing, tensors, statistics and lines";
      EXPECT_NO_THROW(read_tlspec(dir / "run.tlspec", {.verify_digests = true, .check_invariants = true}));
    }
  }
}

TEST(Sparse, AuditHasNoPayloads) {
  const TempDirectory dir;
  auto capture = [] { return test::random_capture(5, 100); };
  write_tlspec(run_pipeline(capture()), dir / "full.tlspec", {.level = Level::kAudit});
  write_sparse(make_sparse(capture()), dir / "run.tlspec", {.level = Level::kAudit});
  auto file = read_sparse(dir / "run.tlspec");
  EXPECT_EQ(file.level, Level::kAudit);
  write_tlspec(finish_sparse(std::move(file.recording)), dir / "run.tlspec", {.level = file.level, .force = true});
  EXPECT_EQ(files_of(dir / "run.tlspec"), files_of(dir / "full.tlspec"));
}

Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing thrown";
  return Error(ErrorCode::kInternal, "nothing thrown");
}

TEST(Sparse, IsNoTraceAndATraceIsNotSparse) {
  const TempDirectory dir;
  write_sparse(make_sparse(sample(1)), dir / "run.tlspec");
  const auto sparse = error_of([&] { read_tlspec(dir / "run.tlspec"); });
  EXPECT_EQ(sparse.code, ErrorCode::kRecordingSparse);
  EXPECT_EQ(sparse.hint, "torchlens finish " + (dir / "run.tlspec").string());
  write_tlspec(run_pipeline(sample(1)), dir / "full.tlspec");
  const auto finished = error_of([&] { read_sparse(dir / "full.tlspec"); });
  EXPECT_EQ(finished.code, ErrorCode::kRecordingFinished);
  EXPECT_EQ(error_of([&] { read_sparse(dir / "none.tlspec"); }).code, ErrorCode::kFileMissing);
}

TEST(Sparse, StreamIsWhatWasRecorded) {
  const auto events = sample(2).events.size();
  const auto recording = make_sparse(sample(2));
  EXPECT_EQ(recording.trace.num_ops(), events + 3) << "every event is there, orphans too, and the outputs after them";
  EXPECT_FALSE(recording.trace.finished);
  EXPECT_TRUE(recording.trace.layers.layer_type.empty());
}

/// Damages a recording in memory and says how it is refused.
std::string refusal(const std::function<void(SparseRecording&)>& damage) {
  auto recording = make_sparse(sample(3));
  EXPECT_NO_THROW(check_sparse(recording, ErrorCode::kFileDamaged, "here"));
  damage(recording);
  const auto error = error_of([&] { check_sparse(recording, ErrorCode::kFileDamaged, "here"); });
  EXPECT_EQ(error.code, ErrorCode::kFileDamaged);
  return error.message;
}

TEST(Sparse, NothingInItIsTrusted) {
  EXPECT_THAT(refusal([](SparseRecording& r) { r.trace.ops.raw_index.mut(4) = 4; }),
              HasSubstr("here: ops.raw_index[4] is 4, events are numbered from 1"));
  EXPECT_THAT(refusal([](SparseRecording& r) { r.trace.ops.kind.mut(2) = 3; }), HasSubstr("ops.kind[3]"));
  EXPECT_THAT(refusal([](SparseRecording& r) { r.trace.param_uses.op.mut(1) = 300; }), HasSubstr("param_uses.op[2]"));
  EXPECT_THAT(refusal([](SparseRecording& r) { r.trace.ops.layer.mut(0) = 0; }),
              HasSubstr("ops.layer[0] is 0, a sparse recording has -1"));
  EXPECT_THAT(refusal([](SparseRecording& r) { r.trace.ops.pass_index.mut(0) = 1; }), HasSubstr("ops.pass_index"));
  EXPECT_THAT(refusal([](SparseRecording& r) { r.trace.ops.branch.mut(9) = 0; }), HasSubstr("ops.branch[9]"));
  EXPECT_THAT(refusal([](SparseRecording& r) { r.trace.ops.min_distance_from_input.mut(9) = 0; }),
              HasSubstr("min_distance_from_input[9]"));
  EXPECT_THAT(refusal([](SparseRecording& r) { r.trace.modules.num_calls.mut(0) = 1; }), HasSubstr("num_calls[0]"));
  EXPECT_THAT(refusal([](SparseRecording& r) { r.trace.buffers.last_op.mut(0) = 1; }), HasSubstr("buffers.last_op[0]"));
  EXPECT_THAT(refusal([](SparseRecording& r) { r.trace.layer_ops.op.push_back(0); }), HasSubstr("1 rows of layers"));
  EXPECT_THAT(refusal([](SparseRecording& r) { r.trace.site_contexts.parent.mut(1) = 3; }),
              HasSubstr("site_contexts.parent[1] is 3"));
  EXPECT_THAT(refusal([](SparseRecording& r) { r.trace.payloads.first_op.mut(1) = r.trace.payloads.first_op[0]; }),
              HasSubstr("payloads.first_op[1]"));
  EXPECT_THAT(refusal([](SparseRecording& r) { r.event_shapes = 1u << 30; }), HasSubstr("event_shapes is 1073741824"));
  EXPECT_THAT(refusal([](SparseRecording& r) { r.event_shapes = 1; }), HasSubstr("events refer to 1 shapes"));
  EXPECT_THAT(refusal([](SparseRecording& r) {
                const std::int64_t dims[] = {1, 2, 3, 4, 5, 6, 7};
                r.trace.payloads.strides.mut(0) = r.trace.shapes.intern(dims);
                r.trace.payloads.encoding.mut(0) = 0;
              }),
              HasSubstr("which has 7 axes"));
}

TEST(Sparse, DamagedManifestsAreRefused) {
  const TempDirectory dir;
  write_sparse(make_sparse(sample(4)), dir / "run.tlspec");
  const auto change = [&](const std::function<void(nlohmann::ordered_json&)>& edit) {
    auto document = nlohmann::ordered_json::parse(read_text(dir / "run.tlspec" / kManifestFile));
    edit(document);
    std::ofstream(dir / "copy.json") << document.dump();
    fs::copy_file(dir / "copy.json", dir / "run.tlspec" / kManifestFile, fs::copy_options::overwrite_existing);
    return error_of([&] { read_sparse(dir / "run.tlspec"); });
  };
  EXPECT_THAT(change([](auto& d) { d["event_shapes"] = -1; }).message, HasSubstr("event_shapes is -1"));
  EXPECT_THAT(change([](auto& d) { d["event_shapes"] = 0; }).message, HasSubstr("events refer to 0 shapes"));
  EXPECT_THAT(change([](auto& d) { d["level"] = "audit"; }).message, HasSubstr("level audit keeps none"));
  EXPECT_EQ(change([](auto& d) { d["kind"] = "bundle"; }).code, ErrorCode::kUnsupportedKind);
}

/// Whatever passes the checks can be finished: random numbers in random columns.
TEST(Sparse, WhatPassesTheChecksIsFinished) {
  std::size_t finished = 0;
  for (unsigned seed = 0; seed < 1500; ++seed) {
    std::minstd_rand random(seed);
    auto recording = make_sparse(sample(1 + seed % 4));
    auto& trace = recording.trace;
    std::vector<std::function<void()>> edits;
    for_each_table(trace, [&](std::string_view, auto& rows, auto&& visit) {
      visit(rows, [&](std::string_view, auto& column, std::string_view, std::string_view) {
        if (column.empty()) return;
        edits.push_back([&column, &random] {
          using Value = std::remove_cvref_t<decltype(column[0])>;
          column.mut(random() % column.size()) = static_cast<Value>(static_cast<int>(random() % 12) - 1);
        });
      });
    });
    for (unsigned edit = 0; edit < 1 + seed % 3; ++edit) edits[random() % edits.size()]();
    try {
      check_columns(trace, ErrorCode::kFileDamaged, "here", true);
      check_sparse(recording, ErrorCode::kFileDamaged, "here");
      static_cast<void>(to_text(finish_sparse(std::move(recording))));
      ++finished;
    } catch (const Error& error) {
      EXPECT_EQ(error.code, ErrorCode::kFileDamaged) << error.message;
    }
  }
  EXPECT_GT(finished, 100U);
}

}  // namespace
}  // namespace tl
