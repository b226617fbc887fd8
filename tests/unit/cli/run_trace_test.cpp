#include "run_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "analysis/finite_check.h"
#include "cli.h"
#include "core/error.h"
#include "fake_engine.h"
#include "postprocess/pipeline.h"
#include "record.h"
#include "save_plan.h"
#include "select/lookup.h"
#include "support/temp_directory.h"
#include "support/trace_fixtures.h"
#include "tensor/safetensors.h"
#include "tlspec/reader.h"
#include "tlspec/writer.h"

namespace tl::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

/// The smallest file that counts as TorchScript by its content: a stored zip of `m/code/m.py`, `m/data.pkl`,
/// `m/constants.pkl`, `m/version`. The fake engine does not read it.
struct StoredZip {
  std::string body;
  std::string directory;
  int entries = 0;

  static void number(std::string& out, std::uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
  }
  static std::uint32_t crc(const std::string& text) {
    std::uint32_t value = ~0u;
    for (const unsigned char c : text) {
      value ^= c;
      for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xedb88320u : 0);
    }
    return ~value;
  }
  void add(const std::string& name, const std::string& content) {
    const auto offset = static_cast<std::uint32_t>(body.size());
    std::string common;
    number(common, 20, 2);
    number(common, 0, 2);
    number(common, 0, 2);
    number(common, 0x00210000, 4);
    number(common, crc(content), 4);
    number(common, static_cast<std::uint32_t>(content.size()), 4);
    number(common, static_cast<std::uint32_t>(content.size()), 4);
    number(common, static_cast<std::uint32_t>(name.size()), 2);
    number(common, 0, 2);
    body += "PK\x03\x04" + common + name + content;
    directory += "PK\x01\x02";
    number(directory, 20, 2);
    directory += common;
    number(directory, 0, 2);
    number(directory, 0, 2);
    number(directory, 0, 2);
    number(directory, 0, 4);
    number(directory, offset, 4);
    directory += name;
    ++entries;
  }
  std::string bytes() const {
    std::string end = "PK\x05\x06";
    number(end, 0, 4);
    number(end, static_cast<std::uint32_t>(entries), 2);
    number(end, static_cast<std::uint32_t>(entries), 2);
    number(end, static_cast<std::uint32_t>(directory.size()), 4);
    number(end, static_cast<std::uint32_t>(body.size()), 4);
    number(end, 0, 2);
    return body + directory + end;
  }
};

class RunTrace : public testing::Test {
 protected:
  void SetUp() override {
    StoredZip zip;
    zip.add("m/data.pkl", "\x80\x02N.");
    zip.add("m/code/__torch__.py", "class Net(Module):\n  pass\n");
    zip.add("m/constants.pkl", "\x80\x02).");
    zip.add("m/version", "3\n");
    const auto bytes = zip.bytes();
    std::ofstream(directory_ / "net.ts.pt", std::ios::binary) << bytes;
    options_.model = (directory_ / "net.ts.pt").string();
    options_.output = (directory_ / "run.tlspec").string();
    options_.randoms = {"x:f32[1,4]"};
  }

  /// Runs and keeps what was printed.
  int run(test::FakeEngine& engine, Format format = Format::kText) {
    std::FILE* out = std::tmpfile();
    std::FILE* err = std::tmpfile();
    Context context{.out = Output(out, false), .err = Output(err, false), .format = format, .command = "trace"};
    CrashSlate slate;
    const int code = guarded(context, [&] { return run_trace(plan_trace(options_), engine, context, slate); });
    context.err.flush();
    out_ = content(out);
    err_ = content(err);
    return code;
  }

  static std::string content(std::FILE* file) {
    std::rewind(file);
    std::string text;
    for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
    std::fclose(file);
    return text;
  }

  TempDirectory directory_;
  TraceOptions options_;
  std::string out_;
  std::string err_;
};

TEST_F(RunTrace, WritesARecordingAndPrintsTheFirstScreen) {
  test::FakeEngine engine;
  options_.seed = 5;
  options_.threads = 1;
  ASSERT_EQ(run(engine), 0) << err_;
  EXPECT_EQ(engine.ran.seed, 5);
  EXPECT_THAT(engine.ran.given, testing::ElementsAre(true, false));
  const auto trace = read_tlspec(options_.output);
  EXPECT_EQ(trace.num_ops(), 6U);
  EXPECT_EQ(trace.run.model_file, "net.ts.pt");
  EXPECT_EQ(trace.run.engine, "FakeTorch 1.0");
  EXPECT_EQ(trace.run.inputs.at(0).source, "random");
  EXPECT_EQ(trace.run.outputs.at(0).max, 3);
  EXPECT_EQ(trace.run.outputs.at(1).scalar, "2");
  EXPECT_THAT(out_,
              testing::StartsWith("net.ts.pt   torchscript script · Net · FakeTorch 1.0 · eval · f32\n  cpu, 1 thread\n"
                                  "  x  f32[1,4]   from random   range "));
  EXPECT_THAT(out_, HasSubstr("\n  fc"));
  EXPECT_THAT(out_, HasSubstr("\n  relu, __add__  3 ops   1,3                 -      9   0 s   24 B\n"));
  EXPECT_THAT(out_, HasSubstr("\n  total  4 ops, 3 layers (1 run twice) "));
  EXPECT_THAT(out_, HasSubstr("\noutput        f32[1,3]   range 1 .. 3\noutput.times  2\n"));
  EXPECT_THAT(
      out_,
      HasSubstr("\nhealth  4 of 4 operator calls recorded · no NaN, no Inf in 5 of 6 values\n        state unchanged\n"
                "        not validated yet\n"));
  EXPECT_THAT(out_, Not(HasSubstr("PARTIAL")));
  EXPECT_THAT(err_, HasSubstr("wrote   " + options_.output));
  EXPECT_THAT(err_, HasSubstr("next    torchlens show " + options_.output + " fc\n"));
}

TEST_F(RunTrace, RecordsHaveTheirValues) {
  test::FakeEngine engine;
  ASSERT_EQ(run(engine), 0) << err_;
  const auto trace = read_tlspec(options_.output);
  const auto op = record_json(trace, look_up(trace, "linear_1_1").value());
  EXPECT_EQ(op["values"], "f32[1,3] n=3 [-1.5 .. 2] mean=0.25 sd=1.429");  // numpy: std of (-1.5, .25, 2) is 1.42887
  EXPECT_EQ(op["operator"], "aten::linear");
  EXPECT_EQ(op["call_site"], "m.py:7:12 in forward");
  EXPECT_EQ(op["modules"], nlohmann::ordered_json({"fc:1"}));
  EXPECT_EQ(op["children"], nlohmann::ordered_json({"relu_1_2:1"}));
  const auto layer = record_json(trace, look_up(trace, "relu_1_2").value());
  EXPECT_EQ(layer["num_passes"], 2);
  EXPECT_EQ(layer["passes"][1]["parents"], nlohmann::ordered_json({"relu_1_2:1"}));
  const auto module = record_json(trace, look_up(trace, "fc").value());
  EXPECT_EQ(module["num_params"], 12);
  EXPECT_EQ(module["calls"][0]["output"], "linear_1_1");
}

TEST_F(RunTrace, JsonIsOneEnvelope) {
  test::FakeEngine engine;
  ASSERT_EQ(run(engine, Format::kJson), 0) << err_;
  const auto body = nlohmann::json::parse(out_);
  EXPECT_EQ(body["schema"], "torchlens.trace/1");
  EXPECT_EQ(body["ok"], true);
  EXPECT_EQ(body["totals"]["num_ops"], 4);
  EXPECT_EQ(body["outcome"]["status"], "complete");
  EXPECT_EQ(body["capture_verified"], nullptr);
}

TEST_F(RunTrace, AModelThatRaisesLeavesAPartialRecording) {
  test::FakeEngine engine(test::FakeEnd::kRaises);
  EXPECT_EQ(run(engine), 5);
  EXPECT_EQ(read_tlspec(options_.output).run.outcome.status, "failed");
  EXPECT_THAT(out_,
              HasSubstr("PARTIAL failed in forward at aten::add (m.py:10)   ValueError: x is too small\\x1b[2J\n"));
  EXPECT_THAT(err_, HasSubstr("error[model_raised]: net.ts.pt: ValueError at aten::add (m.py:10) after 4 operations: "
                              "x is too small\\x1b[2J\n"));
  EXPECT_THAT(err_, HasSubstr("note: the recording up to there is kept in " + options_.output));
  EXPECT_THAT(out_ + err_, Not(HasSubstr("\x1b")));
}

TEST_F(RunTrace, AModelThatRaisesIsExplainedOnOneScreen) {
  test::FakeEngine engine(test::FakeEnd::kRaises);
  run(engine);
  EXPECT_THAT(err_, HasSubstr("\n  operands  self f32[1,3], other 1\n  module    the root\n"
                              "  parents   relu_1_2:2 f32[1,3]\n"));
}

TEST_F(RunTrace, AHaltedRunIsNoError) {
  test::FakeEngine engine(test::FakeEnd::kHalts);
  options_.stop_after = "func(\"linear\")";
  EXPECT_EQ(run(engine), 0) << err_;
  EXPECT_NE(engine.ran.stop_after, nullptr);
  const auto outcome = read_tlspec(options_.output).run.outcome;
  EXPECT_EQ(outcome.status, "halted");
  EXPECT_EQ(outcome.boundary_label, "linear_1_1");
  EXPECT_EQ(outcome.reason, "linear_1_1");
  EXPECT_THAT(err_, Not(HasSubstr("error[")));
}

TEST_F(RunTrace, ANonFiniteValueIsAVerdict) {
  test::FakeEngine engine(test::FakeEnd::kIsNonFinite);
  options_.raise_on_nan = true;
  EXPECT_EQ(run(engine), 1);
  EXPECT_TRUE(engine.ran.raise_on_nonfinite);
  EXPECT_THAT(
      err_,
      HasSubstr(
          "error[nonfinite_value]: net.ts.pt: stopped at the first operation that made NaN or an infinity, linear_1_1: "
          "1 NaN of 3 elements, first at [0,1]\n"
          "  op        linear_1_1   linear   f32[1,3]\n"
          "  module    fc\n"
          "  source    m.py:7:12 in forward\n"
          "  parents   input_1 f32[1,4]\n"));
  EXPECT_EQ(read_tlspec(options_.output).run.outcome.status, "aborted_nonfinite");
}

TEST_F(RunTrace, AStopThatNeverFiresWritesNothing) {
  test::FakeEngine engine;
  options_.stop_after = "func(\"conv2d\")";
  EXPECT_EQ(run(engine), 2);
  EXPECT_THAT(err_, HasSubstr("error[stop_after_never_fired]"));
  EXPECT_THAT(err_, HasSubstr("the functions are ")) << "what comes closest, as for --save";
  options_.stop_after = "label(\"relu_1_2:2\")";
  EXPECT_EQ(run(engine), 2);
  EXPECT_THAT(err_, HasSubstr("error[stop_after_site_not_live]"));
  EXPECT_EQ(count_entries(directory_.path()), 1U);
}

TEST_F(RunTrace, WhatASelectorCouldNotTellIsSettledAtTheEnd) {
  test::FakeEngine engine;
  engine.undecided = {1, 2, 3, 4};
  options_.save = "label(\"relu_1_2:2\")";
  ASSERT_EQ(run(engine), 0) << err_;
  EXPECT_NE(engine.ran.save.policy, nullptr);
  const auto trace = read_tlspec(options_.output);
  EXPECT_EQ(trace.payloads.first_op.size(), 1U);
  EXPECT_GE(trace.ops.payload[3], 0);
  EXPECT_EQ(evidence_of(trace, OpId{3}), Evidence::kFull);
  EXPECT_EQ(evidence_of(trace, OpId{4}), Evidence::kShape);
}

TEST_F(RunTrace, ADryRunWritesNothing) {
  test::FakeEngine engine;
  options_.dry_run = true;
  ASSERT_EQ(run(engine), 0) << err_;
  EXPECT_NE(engine.ran.save.sink, nullptr);
  EXPECT_THAT(out_,
              testing::StartsWith("net.ts.pt: 4 ops ran, to the end; no operator is missing; nothing was written\n"));
  EXPECT_THAT(out_, HasSubstr("\n  all             3   36 B\n"));
  EXPECT_EQ(count_entries(directory_.path()), 1U);
}

TEST(SavePlan, ReadsWhatIsAskedFor) {
  TraceOptions options;
  const auto planned = [&](const std::string& save, Level level = Level::kPortable) {
    options.save = save;
    return plan_save(options, level);
  };
  EXPECT_EQ(planned("").kind, SaveKind::kAuto);
  EXPECT_EQ(planned("", Level::kAudit).kind, SaveKind::kNone);
  EXPECT_EQ(planned("all").kind, SaveKind::kAll);
  EXPECT_EQ(planned("sample").text, "sample=64");
  EXPECT_EQ(planned("sample=9").samples, 9);
  EXPECT_EQ(planned("func(\"relu\")").kind, SaveKind::kSelector);
  for (const auto* text : {"sample=", "sample=0", "sample=-1", "sample=x", "sample=1.5"}) {
    EXPECT_THROW(planned(text), Error) << text;
  }
  options.stream = true;
  EXPECT_THROW(planned("none"), Error);
  EXPECT_THROW(planned("all", Level::kAudit), Error);
}

TEST_F(RunTrace, AnInterruptedRunLeavesAPartialRecording) {
  test::FakeEngine engine(test::FakeEnd::kIsInterrupted);
  EXPECT_EQ(run(engine), 130);
  EXPECT_EQ(read_tlspec(options_.output).run.outcome.status, "interrupted");
  EXPECT_THAT(err_, HasSubstr("error[interrupted]: net.ts.pt: interrupted by Ctrl-C after "));
}

TEST_F(RunTrace, SaveNoneAndAuditKeepNoPayloads) {
  test::FakeEngine engine;
  options_.save = "none";
  ASSERT_EQ(run(engine), 0) << err_;
  EXPECT_FALSE(engine.ran.keep_payloads);
  options_.save.clear();
  options_.level = "audit";
  options_.force = true;
  ASSERT_EQ(run(engine), 0) << err_;
  EXPECT_FALSE(engine.ran.keep_payloads);
  EXPECT_EQ(read_manifest(options_.output).level, Level::kAudit);
  EXPECT_THAT(out_, HasSubstr("NaN and Inf not looked for"));
  options_.save = "all";
  EXPECT_EQ(run(engine), 2);
  EXPECT_THAT(err_, HasSubstr("error[save_payload_level_conflict]"));
}

// fc makes -1.5, 0.25, 2; what is returned 1, 1.25, 3.
TEST_F(RunTrace, TakesStatisticsOfWhatIsNotKept) {
  test::FakeEngine engine;
  options_.save = "none";
  options_.stats = "abs_mean,sum,max";
  ASSERT_EQ(run(engine), 0) << err_;
  const auto trace = read_tlspec(options_.output);
  EXPECT_TRUE(trace.payloads.first_op.empty());
  EXPECT_EQ(trace.statistics.taken, StatisticSet{kStatAbsMean | kStatSum | kStatMax});
  EXPECT_THAT(test::rows(trace.statistics.op), testing::ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(trace.statistics.sum[0], 0.75);
  EXPECT_EQ(trace.statistics.abs_mean[0], 1.25);
  EXPECT_EQ(trace.statistics.max[4], 3);
  EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(options_.output) / "stats.jsonl"));
  const auto record = record_json(trace, look_up(trace, "fc").value());
  EXPECT_THAT(record.dump(), Not(HasSubstr("statistics"))) << "a module has none of its own";
  const auto op = record_json(trace, look_up(trace, "linear_1_1").value());
  EXPECT_EQ(op.at("statistics").dump(), R"({"abs_mean":1.25,"sum":0.75,"max":2.0})");
}

TEST_F(RunTrace, AnUnknownStatisticIsRefused) {
  test::FakeEngine engine;
  options_.stats = "abs_meen";
  EXPECT_EQ(run(engine), 2);
  EXPECT_THAT(err_, HasSubstr("there is no statistic 'abs_meen'"));
  EXPECT_THAT(err_, HasSubstr("did you mean abs_mean?"));
}

TEST_F(RunTrace, ASparseRecordingIsFinishedLater) {
  options_.stats = "all";
  options_.seed = 3;
  test::FakeEngine engine;
  ASSERT_EQ(run(engine), 0) << err_;
  const std::filesystem::path full = options_.output;
  options_.output = (directory_ / "sparse.tlspec").string();
  options_.sparse = true;
  test::FakeEngine again;
  ASSERT_EQ(run(again), 0) << err_;
  EXPECT_EQ(out_, "net.ts.pt   sparse recording: 4 operations, 3 values kept\n");
  EXPECT_THAT(err_, HasSubstr("next    torchlens finish " + options_.output + "\n"));
  auto file = read_sparse(options_.output);
  auto trace = finish_sparse(std::move(file.recording));
  check_finite(trace);
  write_tlspec(trace, options_.output, {.level = file.level, .force = true});
  for (const char* name :
       {"columns.safetensors", "tensors-00000.safetensors", "statistics.safetensors", "stats.jsonl"}) {
    EXPECT_TRUE(read_text(full / name) == read_text(std::filesystem::path(options_.output) / name)) << name;
  }
}

TEST_F(RunTrace, ASparseRecordingOfAModelThatRaised) {
  options_.sparse = true;
  test::FakeEngine engine(test::FakeEnd::kRaises);
  EXPECT_EQ(run(engine), 5);
  EXPECT_THAT(out_, HasSubstr("PARTIAL"));
  EXPECT_EQ(read_sparse(options_.output).recording.trace.run.outcome.status, "failed");
}

TEST_F(RunTrace, SavesOutputs) {
  test::FakeEngine engine;
  options_.save_outputs = (directory_ / "out.safetensors").string();
  ASSERT_EQ(run(engine), 0) << err_;
  const auto file = SafetensorsFile::open(options_.save_outputs);
  ASSERT_EQ(file.entries().size(), 1U);
  EXPECT_EQ(file.entries()[0].name, "output");
  EXPECT_EQ(count_entries(directory_.path()), 3U);  // model, recording, outputs: nothing temporary
}

TEST_F(RunTrace, AnExistingOutputIsRefusedBeforeAnythingRuns) {
  test::FakeEngine engine;
  ASSERT_EQ(run(engine), 0) << err_;
  engine.requested = {};
  EXPECT_EQ(run(engine), 2);
  EXPECT_TRUE(engine.requested.path.empty());
  EXPECT_THAT(err_, HasSubstr("hint: torchlens trace " + options_.model + " --random 'x:f32[1,4]' -o " +
                              options_.output + " --force\n"));
  options_.force = true;
  EXPECT_EQ(run(engine), 0) << err_;
}

TEST_F(RunTrace, InputsThatDoNotFitAreRefused) {
  test::FakeEngine engine;
  options_.randoms = {"z:f32[1,4]"};
  EXPECT_EQ(run(engine), 2);
  EXPECT_THAT(err_, HasSubstr("error[input_mismatch]"));
  options_.randoms.clear();
  EXPECT_EQ(run(engine, Format::kJson), 2);
  EXPECT_EQ(nlohmann::json::parse(out_)["error"]["code"], "input_missing");
  EXPECT_THAT(err_, HasSubstr("hint: --random 'x:f32[SIZES]'\n"));
  EXPECT_EQ(count_entries(directory_.path()), 1U);
}

TEST_F(RunTrace, StepsCanBeWatchedAndStopped) {
  test::FakeEngine engine;
  options_.steps.time = true;
  options_.steps.verify_each = true;
  options_.steps.print_after = {"assign-labels"};
  ASSERT_EQ(run(engine), 0) << err_;
  EXPECT_THAT(err_, HasSubstr("all steps"));
  EXPECT_THAT(out_, HasSubstr("\nop linear_1_1"));
  options_.output = (directory_ / "other.tlspec").string();
  options_.steps = {};
  options_.steps.stop_after = "group-loops";
  ASSERT_EQ(run(engine), 0) << err_;
  EXPECT_THAT(out_, testing::StartsWith("trace 1\n"));
  EXPECT_FALSE(std::filesystem::exists(options_.output));
}

TEST(DefaultOutput, DropsTheSuffixesOfModels) {
  EXPECT_EQ(default_output("a/resnet18.ts.pt"), "resnet18.tlspec");
  EXPECT_EQ(default_output("m.trace.pt"), "m.tlspec");
  EXPECT_EQ(default_output("m.pt2"), "m.tlspec");
  EXPECT_EQ(default_output("m.v2.pt"), "m.v2.tlspec");
  EXPECT_EQ(default_output("model"), "model.tlspec");
  EXPECT_EQ(default_output(".pt"), ".pt.tlspec");
}

TEST(TraceOptions, Amounts) {
  EXPECT_EQ(parse_seconds("--timeout", "30"), 30);
  EXPECT_EQ(parse_seconds("--timeout", "1.5m"), 90);
  EXPECT_EQ(parse_seconds("--timeout", "500ms"), 0.5);
  EXPECT_EQ(parse_bytes("--max-memory", "1024"), 1024U);
  EXPECT_EQ(parse_bytes("--max-memory", "1.5GB"), 1610612736U);
  EXPECT_EQ(parse_bytes("--max-memory", "2GiB"), std::size_t{2} << 30);
  EXPECT_EQ(parse_bytes("--max-memory", "8M"), std::size_t{8} << 20);
  for (const auto* text : {"", "0", "-3", "x", "3 s", "3d", "inf", "nan", "1e300"}) {
    EXPECT_THROW(parse_seconds("--timeout", text), Error) << text;
    EXPECT_THROW(parse_bytes("--max-memory", text), Error) << text;
  }
}

}  // namespace
}  // namespace tl::cli
