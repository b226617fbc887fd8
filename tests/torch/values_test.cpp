#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "tensor/sample.h"
#include "torch/recording.h"
#include "torch/small_files.h"

// What a run may be asked of its values: which to keep, in full or sampled, in how much memory, where to put them,
// where to stop.
namespace tl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

Bytes bytes_of(const TensorRef& tensor) {
  Bytes bytes;
  for (const auto& part : tensor.to_host()) {
    const auto packed = to_contiguous(part.tensor);
    const auto* begin = packed.storage.data() + static_cast<std::size_t>(packed.offset) * item_bytes(packed.dtype);
    bytes.insert(bytes.end(), begin, begin + packed.nbytes());
  }
  return bytes;
}

/// Says yes to events of an operator, or to exits of a module.
class Policy : public OpPolicy {
 public:
  explicit Policy(std::string op, std::string module = {}) : op_(std::move(op)), module_(std::move(module)) {}
  LiveAnswer on_op(const Capture& capture, std::uint32_t event) override {
    asked.push_back(event);
    const auto& record = capture.events[event];
    if (record.kind != OpKind::kOperation) return LiveAnswer::kNo;
    const bool yes = capture.strings[capture.instructions.op_name[record.instruction]] == op_;
    return yes ? answer : LiveAnswer::kNo;
  }
  LiveAnswer on_module_exit(const Capture& capture, std::uint32_t call, std::uint32_t) override {
    const auto module = static_cast<std::size_t>(capture.module_calls.module[call]);
    const bool yes = capture.strings[capture.modules.address[module]] == module_;
    return yes ? LiveAnswer::kYes : LiveAnswer::kNo;
  }
  LiveAnswer answer = LiveAnswer::kYes;
  std::vector<std::uint32_t> asked;

 private:
  std::string op_;
  std::string module_;
};

/// Keeps what passes.
class Sink : public PayloadSink {
 public:
  void write(std::uint32_t payload, const PayloadFacts&, const TensorRef& tensor) override {
    if (fails) throw Error(ErrorCode::kOutputFailed, "the disk is full");
    EXPECT_TRUE(got.empty() || got.rbegin()->first < payload);
    got[payload] = bytes_of(tensor);
  }
  std::map<std::uint32_t, Bytes> got;
  bool fails = false;
};

class Observer : public ValueObserver {
 public:
  void on_value(std::uint32_t event, const HostTensor& value) override {
    events.push_back(event);
    sizes.push_back(value.sizes);
  }
  std::vector<std::uint32_t> events;
  std::vector<std::vector<std::int64_t>> sizes;
};

struct ValueRun {
  std::unique_ptr<Session> session;
  RunRequest request;
  Capture capture;
  RunResult result;

  explicit ValueRun(const test::ZooFile& file) {
    ModelRequest model;
    model.path = file.model.string();
    model.threads = 1;
    session = test::engine().load(model);
    request = test::request_for(file, session->info().signature, 11);
  }
  ValueRun& go() {
    capture = Capture();
    result = session->run(request, capture);
    return *this;
  }
  std::string name(std::size_t event) const {
    const auto& record = capture.events[event];
    if (record.kind != OpKind::kOperation)
      return std::string(capture.strings[static_cast<std::int32_t>(record.address)]);
    const std::string op(capture.strings[capture.instructions.op_name[record.instruction]]);
    return op.substr(op.find("::") + 2);
  }
  std::vector<std::string> names(const std::function<bool(const CaptureEvent&)>& wanted) const {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < capture.events.size(); ++i) {
      if (wanted(capture.events[i])) all.push_back(name(i));
    }
    return all;
  }
  std::vector<std::string> kept() const {
    return names([](const auto& event) { return event.payload != PayloadId::kNone && !event.sampled; });
  }
  std::vector<std::string> sampled() const {
    return names([](const auto& event) { return event.payload != PayloadId::kNone && event.sampled; });
  }
  Bytes payload(std::size_t event) const {
    const auto id = capture.events[event].payload;
    return id == PayloadId::kNone ? Bytes() : bytes_of(*capture.payloads->tensor(PayloadId{id}));
  }
};

TEST(Saving, APolicyDecidesForEveryEvent) {
  ValueRun run(test::small_file("small_raises"));
  Policy policy("aten::relu");
  run.request.save.policy = &policy;
  run.go();
  EXPECT_THAT(run.kept(), ElementsAre("relu"));
  EXPECT_THAT(policy.asked, ElementsAre(0u, 1u, 2u, 3u, 4u));
  EXPECT_TRUE(run.result.undecided.empty());
  policy.answer = LiveAnswer::kLater;
  run.go();
  EXPECT_THAT(run.kept(), ElementsAre("relu"));
  EXPECT_THAT(run.result.undecided, ElementsAre(1u));
}

TEST(Saving, SamplesAreTheElementsAtTheirPositions) {
  ValueRun run(test::small_file("small_writes"));
  run.go();
  const auto whole = std::move(run.capture);
  run.request.save.keep = false;
  run.request.save.samples = 3;
  run.go();
  ASSERT_EQ(run.capture.events.size(), whole.events.size());
  int compared = 0;
  for (std::size_t i = 0; i < whole.events.size(); ++i) {
    const auto& event = run.capture.events[i];
    if (event.payload == PayloadId::kNone) continue;
    const auto full = whole.payloads->tensor(PayloadId{whole.events[i].payload})->to_host().at(0).tensor;
    const auto expected = event.sampled ? sample_elements(full, 3) : to_contiguous(full);
    EXPECT_EQ(event.sampled, full.numel() > 3);
    const auto got = run.capture.payloads->tensor(PayloadId{event.payload})->to_host().at(0).tensor;
    EXPECT_EQ(got.sizes, expected.sizes) << run.name(i);
    const auto packed = to_contiguous(expected);
    const Bytes bytes(packed.storage.begin() + packed.offset,
                      packed.storage.begin() + packed.offset + static_cast<std::ptrdiff_t>(packed.nbytes()));
    EXPECT_EQ(run.payload(i), bytes) << run.name(i);
    ++compared;
  }
  EXPECT_GT(compared, 5);
}

class Streaming : public testing::TestWithParam<test::ZooFile> {};

// In-place writes, views and values returned twice: what passes to the sink is what a run without one keeps.
TEST_P(Streaming, TheSinkGetsEveryValueAsItWasMade) {
  ValueRun run(GetParam());
  run.go();
  std::vector<Bytes> expected;
  for (std::size_t i = 0; i < run.capture.events.size(); ++i) expected.push_back(run.payload(i));
  for (const auto queue_bytes : {std::size_t{1}, std::size_t{1} << 20}) {
    Sink sink;
    run.request.save.sink = &sink;
    run.request.save.queue_bytes = queue_bytes;
    run.go();
    ASSERT_EQ(run.capture.events.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto id = run.capture.events[i].payload;
      if (id == PayloadId::kNone) continue;
      EXPECT_EQ(sink.got[id], expected[i]) << run.name(i) << ", event " << i;
      EXPECT_EQ(run.capture.payloads->tensor(PayloadId{id}), nullptr);
      EXPECT_EQ(run.capture.payloads->facts(PayloadId{id}).storage, id + 1);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Data, Streaming,
                         testing::Values(test::small_file("small_writes"), test::small_file("small_views"),
                                         test::small_file("small_list_ops"), test::small_file("small_other_layouts")),
                         [](const auto& instance) { return test::case_name(instance.param); });

TEST(Streaming, WhatTheSinkThrowsEndsTheRun) {
  ValueRun run(test::small_file("small_writes"));
  Sink sink;
  sink.fails = true;
  run.request.save.sink = &sink;
  EXPECT_THROW(run.go(), Error);
}

TEST(Saving, PastTheBudgetValuesAreSampled) {
  ValueRun run(test::small_file("small_nested_calls"));
  run.go();
  const auto events = run.capture.events.size();
  Observer observer;
  run.request.save.samples = 2;
  run.request.save.budget_bytes = 1;
  run.request.save.weaken = true;
  run.request.save.when_weakened = &observer;
  run.go();
  EXPECT_EQ(run.capture.events.size(), events);
  EXPECT_FALSE(run.sampled().empty());
  EXPECT_THAT(run.capture.run.save_note, HasSubstr("exceed the budget of 1 B"));
  ASSERT_EQ(observer.events.size(), events);  // each once, in order
  for (std::uint32_t i = 0; i < events; ++i) EXPECT_EQ(observer.events[i], i);
  run.request.save.weaken = false;
  try {
    run.go();
    ADD_FAILURE() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kBudgetExceeded);
  }
}

TEST(Stopping, AfterAnOperation) {
  ValueRun run(test::small_file("small_raises"));
  Policy policy("aten::add");
  run.request.stop_after = &policy;
  run.go();
  const auto& outcome = run.capture.run.outcome;
  EXPECT_EQ(outcome.status, "halted");
  EXPECT_EQ(outcome.boundary_kind, "op");
  EXPECT_EQ(outcome.boundary_label, "add_1_3_raw");
  EXPECT_EQ(outcome.module, "inner");
  EXPECT_TRUE(run.result.stop_fired);
  EXPECT_EQ(run.capture.events.size(), 3u);  // input, relu, add
  ASSERT_EQ(run.capture.outputs.size(), 1u);
  EXPECT_EQ(run.capture.outputs[0].op, 2u);
}

TEST(Stopping, WhenAModuleReturns) {
  ValueRun run(test::small_file("small_hooks"));
  Policy policy("none", "inner");
  run.request.stop_after = &policy;
  run.go();
  EXPECT_EQ(run.capture.run.outcome.status, "halted");
  EXPECT_EQ(run.capture.run.outcome.boundary_kind, "module_exit");
  EXPECT_EQ(run.capture.run.outcome.boundary_label, "inner:exit:1");
  Policy never("aten::nothing");
  run.request.stop_after = &never;
  run.go();
  EXPECT_FALSE(run.result.stop_fired);
}

TEST(ModelThatRaises, TellsWhatTheOperationWasGiven) {
  ValueRun run(test::small_file("small_raises_in_operator"));
  run.go();
  const auto& outcome = run.capture.run.outcome;
  EXPECT_THAT(outcome.operands, ElementsAre("self f32[3,4]", "other f32[7,2]"));
  EXPECT_THAT(outcome.frontier_labels, ElementsAre("sigmoid_1_2_raw", "ones_1_3_raw"));
  EXPECT_THAT(outcome.call_site, HasSubstr(":"));
}

}  // namespace
}  // namespace tl
