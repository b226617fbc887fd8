#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "core/error.h"
#include "engine/input_files.h"
#include "tensor/host_tensor.h"
#include "torch/small_files.h"
#include "trace/tables.h"

extern "C" tl::Engine* torchlens_engine_open();

namespace tl {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Names = std::vector<std::string>;

Engine& engine() {
  static const std::unique_ptr<Engine> opened(torchlens_engine_open());
  return *opened;
}

std::vector<std::byte> bytes_of(const TensorRef& tensor) {
  std::vector<std::byte> bytes;
  for (const auto& part : tensor.to_host()) {
    const auto packed = to_contiguous(part.tensor);
    const auto* begin = packed.storage.data() + static_cast<std::size_t>(packed.offset) * item_bytes(packed.dtype);
    bytes.insert(bytes.end(), begin, begin + packed.nbytes());
  }
  return bytes;
}

std::vector<float> floats_of(const TensorRef& tensor) {
  const auto bytes = bytes_of(tensor);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

/// Outputs as comparable bytes, host values as text.
std::map<std::string, std::string> outputs_of(const RunResult& result) {
  std::map<std::string, std::string> outputs;
  for (const auto& output : result.outputs) {
    if (!output.tensor) {
      outputs[output.role] = output.scalar;
      continue;
    }
    const auto bytes = bytes_of(*output.tensor);
    outputs[output.role] = std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return outputs;
}

/// One loaded model and its last recording, with operations named by operator and occurrence: `relu#1`.
struct Recording {
  std::unique_ptr<Session> session;
  RunRequest request;
  Capture capture;
  RunResult result;

  explicit Recording(const test::ZooFile& file, const std::function<void(ModelRequest&)>& change = {}) {
    ModelRequest model;
    model.path = file.model.string();
    model.threads = 1;
    if (change) change(model);
    session = engine().load(model);
    if (session->info().signature.arguments.size() == 1 || session->info().signature.arguments.back().has_default) {
      request = test::request_for(file, session->info().signature, 11);
    }
  }

  Recording& run() {
    capture = Capture();
    result = session->run(request, capture);
    return *this;
  }

  std::string short_name(std::size_t event) const {
    const auto& e = capture.events[event];
    if (e.kind != OpKind::kOperation) return std::string(capture.strings[e.address]);
    const std::string name(capture.strings[capture.instructions.op_name[e.instruction]]);
    return name.substr(name.find("::") + 2);
  }

  Names labels() const {
    Names names;
    std::map<std::string, int> seen;
    for (std::size_t i = 0; i < capture.events.size(); ++i) {
      const auto name = short_name(i);
      names.push_back(capture.events[i].kind == OpKind::kInput ? name : name + "#" + std::to_string(++seen[name]));
    }
    return names;
  }

  std::size_t event(const std::string& label) const {
    const auto all = labels();
    const auto found = std::ranges::find(all, label);
    if (found == all.end()) ADD_FAILURE() << "no event " << label;
    return found == all.end() ? 0 : static_cast<std::size_t>(found - all.begin());
  }

  /// Labels of an event's parents in order of its edges.
  Names parents(const std::string& label) const {
    const auto all = labels();
    const auto at = event(label);
    const auto end = at + 1 < capture.events.size() ? capture.events[at + 1].edge_begin
                                                    : static_cast<std::uint32_t>(capture.edges.size());
    Names names;
    for (auto edge = capture.events[at].edge_begin; edge < end; ++edge)
      names.push_back(all[capture.edges[edge].parent]);
    return names;
  }

  std::string address_of_module(const std::string& label) const {
    const auto call = capture.events[event(label)].module_call;
    const auto module = static_cast<std::size_t>(capture.module_calls.module[call]);
    return std::string(capture.strings[capture.modules.address[module]]);
  }

  std::vector<std::byte> payload(std::size_t event) const {
    const auto id = capture.events[event].payload;
    return id == PayloadId::kNone ? std::vector<std::byte>() : bytes_of(*capture.payloads->tensor(PayloadId{id}));
  }
};

// --- outputs

class Small : public testing::TestWithParam<test::ZooFile> {};

TEST_P(Small, OutputsAreThoseOfLibTorch) {
  Recording recording(GetParam());
  const auto plain = outputs_of(recording.session->run_plain(recording.request));
  recording.run();
  ASSERT_TRUE(recording.capture.run.outcome.complete()) << recording.capture.run.outcome.reason;
  EXPECT_EQ(outputs_of(recording.result), plain);
}

TEST_P(Small, TwoRunsAreEqual) {
  Recording recording(GetParam());
  recording.run();
  const auto first = outputs_of(recording.result);
  std::vector<std::vector<std::byte>> payloads;
  for (std::size_t i = 0; i < recording.capture.events.size(); ++i) payloads.push_back(recording.payload(i));
  const auto labels = recording.labels();
  recording.run();
  EXPECT_EQ(outputs_of(recording.result), first);
  ASSERT_EQ(recording.labels(), labels);
  for (std::size_t i = 0; i < payloads.size(); ++i) EXPECT_EQ(recording.payload(i), payloads[i]) << labels[i];
}

INSTANTIATE_TEST_SUITE_P(Data, Small, testing::ValuesIn(test::small_files()),
                         [](const auto& instance) { return test::case_name(instance.param); });

// What the model returns without having written it differs from run to run: no bytes of it are kept.
TEST(Uninitialised, IsKeptNeitherAsAViewNorAsAnOutput) {
  Recording recording(test::small_file("small_uninitialised"));
  recording.run();
  const auto& events = recording.capture.events;
  ASSERT_THAT(recording.labels(), ElementsAre("input.x", "empty#1", "new_empty#1", "view#1", "empty#2", "view#2",
                                              "view#3", "copy_#1", "view#4", "add#1"));
  const auto flagged = [&](std::size_t event) { return (events[event].flags & kOpUninitialised) != 0; };
  for (const std::size_t event : {1, 2, 3, 4, 5})
    EXPECT_TRUE(flagged(event) && recording.payload(event).empty()) << event;
  for (const std::size_t event : {0, 6, 7, 8, 9})
    EXPECT_TRUE(!flagged(event) && !recording.payload(event).empty()) << event;
  std::vector<bool> meaningless;
  for (const auto& output : recording.capture.outputs) meaningless.push_back(output.uninitialised);
  EXPECT_EQ(meaningless, (std::vector<bool>{true, true, false, false}));
  EXPECT_EQ(recording.capture.outputs[0].payload, PayloadId::kNone);
}

// --- failures
// ----------------------------------------------------------------------------------------------------------

TEST(ModelThatRaises, KeepsTheErrorAndThePrefix) {
  Recording recording(test::small_file("small_raises"));
  recording.run();
  const auto& outcome = recording.capture.run.outcome;
  EXPECT_EQ(outcome.status, "failed");
  EXPECT_EQ(outcome.error_type, "ValueError");
  EXPECT_EQ(outcome.reason, "sum 12 is positive");
  EXPECT_THAT(outcome.boundary_label, HasSubstr("prim::RaiseException"));
  EXPECT_EQ(outcome.origin, "user_op");
  EXPECT_TRUE(recording.result.outputs.empty());
  EXPECT_THAT(recording.labels(), ElementsAre("input.x", "relu#1", "add#1", "sum#1", "gt#1"));
  EXPECT_EQ(outcome.n_ops_committed, 4) << "the input is no operation";
  EXPECT_EQ(recording.address_of_module("add#1"), "inner");
  for (std::size_t i = 0; i < 5; ++i) EXPECT_FALSE(recording.payload(i).empty()) << i;
}

TEST(ModelThatRaises, RunsAgain) {
  Recording recording(test::small_file("small_raises"));
  recording.run().run();
  EXPECT_EQ(recording.capture.run.outcome.error_type, "ValueError");
}

TEST(ModelThatRaises, InAnOperator) {
  Recording recording(test::small_file("small_raises_in_operator"));
  recording.run();
  const auto& outcome = recording.capture.run.outcome;
  EXPECT_EQ(outcome.status, "failed");
  EXPECT_EQ(outcome.error_type, "RuntimeError");
  EXPECT_THAT(outcome.reason, HasSubstr("mat1 and mat2 shapes cannot be multiplied (3x4 and 7x2)"));
  EXPECT_THAT(outcome.boundary_label, HasSubstr("aten::matmul"));
  EXPECT_THAT(recording.labels(), ElementsAre("input.x", "sigmoid#1", "ones#1"));
}

TEST(ModelThatRaises, AtAnAssertion) {
  Recording recording(test::small_file("small_asserts"));
  recording.run();
  EXPECT_EQ(recording.capture.run.outcome.status, "failed");
  // The exporter writes the class of an assertion into its text and nowhere else.
  EXPECT_EQ(recording.capture.run.outcome.error_type, "AssertionError");
  EXPECT_EQ(recording.capture.run.outcome.reason, "first size must be 99");
}

// `y = x + 1` in make_models.py; `torch.relu(x)` there has no name.
TEST(SourceNames, AreThoseOfTheCode) {
  Recording recording(test::small_file("small_raises"));
  recording.run();
  const auto& instructions = recording.capture.instructions;
  std::map<std::string, std::string> names;
  for (std::size_t row = 0; row < instructions.op_name.size(); ++row) {
    names[std::string(recording.capture.strings[instructions.op_name[row]])] =
        recording.capture.strings[instructions.value_names[row]];
  }
  EXPECT_EQ(names["aten::add"], "y");
  EXPECT_EQ(names["aten::relu"], "");
}

// LibTorch refuses an operand that overlaps the written tensor in part; recording must not hide it.
TEST(ModelThatRaises, AtAnOverlapOfAnInPlaceOperation) {
  Recording recording(test::small_file("small_overlap", "small_square"));
  EXPECT_ANY_THROW(recording.session->run_plain(recording.request));
  recording.run();
  EXPECT_EQ(recording.capture.run.outcome.status, "failed");
  EXPECT_THAT(recording.capture.run.outcome.reason, HasSubstr("single memory location"));
}

// --- provenance
// --------------------------------------------------------------------------------------------------------

// Eval dropout returns its input object: `relu#1` and `dropout#1` are one tensor, told apart by the slots they went
// through.
TEST(Provenance, OfListElements) {
  Recording r(test::small_file("small_list_ops"));
  r.run();
  EXPECT_THAT(r.parents("exp#1"), ElementsAre("relu#1"));
  EXPECT_THAT(r.parents("exp#2"), ElementsAre("dropout#1"));
  EXPECT_THAT(r.parents("tanh#1"), ElementsAre("dropout#1"));
  EXPECT_THAT(r.parents("sub#1"), ElementsAre("zeros_like#1", "cos#1"));
  EXPECT_THAT(r.parents("sub#2"), ElementsAre("sub#1", "dropout#1"));
  EXPECT_THAT(r.parents("sub#3"), ElementsAre("sub#2", "relu#1"));
  EXPECT_THAT(r.parents("sub#4"), ElementsAre("sub#3", "dropout#1"));
  EXPECT_THAT(r.parents("sub#5"), ElementsAre("sub#4", "exp#1"));
  EXPECT_THAT(r.parents("log1p#1"), ElementsAre("dropout#1"));
  EXPECT_THAT(r.parents("stack#1"), ElementsAre("relu#1", "dropout#1", "cos#1", "dropout#1", "exp#1", "exp#2", "tanh#1",
                                                "sub#5", "log1p#1", "erf#1"));
  EXPECT_THAT(r.parents("erf#1"), ElementsAre("relu#1"));
}

TEST(Provenance, OfNestedListsAndTuples) {
  Recording r(test::small_file("small_nested_lists"));
  r.run();
  EXPECT_THAT(r.parents("exp#1"), ElementsAre("dropout#1"));
  EXPECT_THAT(r.parents("sin#1"), ElementsAre("relu#1"));
  EXPECT_THAT(r.parents("cos#1"), ElementsAre("dropout#1"));
  EXPECT_THAT(r.parents("tan#1"), ElementsAre("relu#1"));
  EXPECT_THAT(r.parents("sub#1"), ElementsAre("tan#1", "dropout#1"));
}

TEST(Provenance, OfDictValues) {
  Recording r(test::small_file("small_dict_ops"));
  r.run();
  EXPECT_THAT(r.parents("exp#1"), ElementsAre("relu#1"));
  EXPECT_THAT(r.parents("sin#1"), ElementsAre("dropout#1"));
  EXPECT_THAT(r.parents("tan#1"), ElementsAre("dropout#1"));
  EXPECT_THAT(r.parents("tanh#1"), ElementsAre("dropout#1"));
  EXPECT_THAT(r.parents("sub#1"), ElementsAre("zeros_like#1", "relu#1"));
  EXPECT_THAT(r.parents("sub#2"), ElementsAre("sub#1", "cos#1"));
  EXPECT_THAT(r.parents("sub#3"), ElementsAre("sub#2", "dropout#1"));
  EXPECT_THAT(r.parents("maximum#1"), ElementsAre("sub#3", "relu#1"));
  EXPECT_THAT(r.parents("maximum#2"), ElementsAre("maximum#1", "cos#1"));
  EXPECT_THAT(r.parents("maximum#3"), ElementsAre("maximum#2", "dropout#1"));
  EXPECT_THAT(r.parents("log1p#1"), ElementsAre("dropout#1"));
  EXPECT_THAT(r.parents("ceil#1"), ElementsAre("relu#1"));
  EXPECT_THAT(r.parents("floor#1"), ElementsAre("relu#1"));
  EXPECT_THAT(r.parents("asin#1"), ElementsAre("relu#1"));
  EXPECT_THAT(r.parents("atan#1"), ElementsAre("relu#1"));
  EXPECT_THAT(r.parents("erf#1"), ElementsAre("dropout#1"));
}

TEST(Provenance, OfObjectAttributes) {
  Recording r(test::small_file("small_objects"));
  r.run();
  EXPECT_THAT(r.parents("mul#1"), ElementsAre("dropout#1", "relu#1"));
  EXPECT_THAT(r.parents("mul#2"), ElementsAre("mul#1", "sin#1"));
  EXPECT_THAT(r.parents("cos#1"), ElementsAre("dropout#1"));
  EXPECT_THAT(r.parents("mul#3"), ElementsAre("input.x", "cos#1"));
  EXPECT_THAT(r.parents("mul#4"), ElementsAre("input.x", "add#1"));
  EXPECT_THAT(r.parents("tan#1"), ElementsAre("dropout#1"));
  EXPECT_THAT(r.parents("add#4"), ElementsAre("add#3", "mul#2"));
}

TEST(Provenance, ThroughForkAndWait) {
  Recording r(test::small_file("small_fork_wait"));
  r.run();
  EXPECT_THAT(r.parents("cat#1"), ElementsAre("mul#1", "mul#2", "mul#3"));
  EXPECT_THAT(r.parents("tanh#2"), ElementsAre("add#2"));
}

TEST(Provenance, ThroughHooks) {
  Recording r(test::small_file("small_hooks"));
  r.run();
  EXPECT_THAT(r.parents("exp#1"), ElementsAre("input.x"));
  EXPECT_THAT(r.parents("linear#1"), ElementsAre("exp#1"));
  EXPECT_THAT(r.parents("neg#1"), ElementsAre("linear#1"));
  EXPECT_THAT(r.parents("relu#1"), ElementsAre("neg#1"));
  EXPECT_THAT(r.parents("sub#1"), Contains("relu#1"));
  EXPECT_EQ(r.capture.outputs.at(0).op, r.event("sub#1"));
}

// A read after a write hangs on the write, whichever alias it reads through; the write hangs on the one before it.
TEST(Provenance, OfWritesThroughViews) {
  Recording r(test::small_file("small_views"));
  r.run();
  EXPECT_THAT(r.parents("add_#1"), ElementsAre("select#1"));
  EXPECT_THAT(r.parents("add#1"), Contains("add_#1"));
  EXPECT_THAT(r.parents("mul_#1"), Contains("add_#1"));
  EXPECT_THAT(r.parents("add#2"), Contains("mul_#1"));
  EXPECT_THAT(r.parents("relu_#1"), Contains("mul_#1"));
  EXPECT_THAT(r.parents("mul_#2"), Contains("relu_#1"));
  EXPECT_THAT(r.parents("add#3"), Contains("mul_#2"));
}

// --- modules, methods, control flow
// ------------------------------------------------------------------------------------

TEST(Modules, NestedCallsAreCounted) {
  Recording r(test::small_file("small_nested_calls"));
  r.run();
  Names calls;
  for (std::size_t i = 0; i < r.capture.module_calls.module.size(); ++i) {
    const auto module = static_cast<std::size_t>(r.capture.module_calls.module[i]);
    calls.push_back(std::string(r.capture.strings[r.capture.modules.address[module]]) + ":" +
                    std::to_string(r.capture.module_calls.call_index[i]));
  }
  EXPECT_THAT(calls, ElementsAre("self:1", "block:1", "block.linear:1", "block.linear:2", "block:2", "block.linear:3",
                                 "block.linear:4"));
  EXPECT_THAT(r.labels(), Contains("sin#8"));
  EXPECT_THAT(r.labels(), Not(Contains("sin#9")));
  EXPECT_EQ(r.address_of_module("sin#1"), "block");
  // The two places that call `twice` are different contexts, the two calls of the block are the same ones.
  const auto context = [&](const std::string& label) { return r.capture.events[r.event(label)].site_context; };
  EXPECT_NE(context("sin#1"), context("sin#3"));
  EXPECT_EQ(context("sin#1"), context("sin#5"));
  EXPECT_EQ(context("sin#3"), context("sin#7"));
}

TEST(Modules, InterfaceCallsGoToTheObject) {
  Recording r(test::small_file("small_interface"));
  r.run();
  EXPECT_EQ(r.address_of_module("relu#1"), "first");
  EXPECT_EQ(r.address_of_module("tanh#1"), "second");
  EXPECT_THAT(r.parents("tanh#1"), ElementsAre("relu#1"));
}

TEST(Modules, AnotherMethodRuns) {
  Recording r(test::small_file("small_multi_method"), [](ModelRequest& request) { request.method = "encode"; });
  const auto plain = outputs_of(r.session->run_plain(r.request));
  r.run();
  EXPECT_THAT(r.labels(), ElementsAre("input.x", "tanh#1"));
  EXPECT_EQ(outputs_of(r.result), plain);
  EXPECT_EQ(r.capture.run.method, "encode");
  EXPECT_THAT(r.session->info().methods, Contains("decode"));
}

TEST(ControlFlow, LoopsAndArmsAreRecorded) {
  const auto file = test::small_file("small_while_loop", "small_square");
  Recording r(file);
  r.run();  // ones(4, 4) sums up to 16: 32, 64, 128
  ASSERT_GE(r.capture.loops.size(), 1u);
  EXPECT_EQ(r.capture.loops[0].iterations, 3u);
  EXPECT_THAT(r.labels(), Contains("mul#3"));
  EXPECT_THAT(r.labels(), Not(Contains("mul#4")));
  EXPECT_THAT(r.labels(), Contains("sub#1"));
  const auto inside = r.event("sub#1");
  std::vector<int> arms;  // of the conditionals around it, outermost first
  for (std::size_t i = 0; i < r.capture.branches.size(); ++i) {
    const auto& branch = r.capture.branches[i];
    if (branch.first_op <= inside && inside < branch.end_op) arms.push_back(branch.arm);
  }
  ASSERT_FALSE(arms.empty());
  EXPECT_EQ(arms.front(), 1);  // steps > 3 is false
  const auto values = floats_of(*r.result.outputs.at(0).tensor);
  EXPECT_EQ(values.at(0), 8.0f - 2.0f);
}

// --- run mode
// ----------------------------------------------------------------------------------------------------------

TEST(RunMode, TrainAndEval) {
  const auto file = test::small_file("small_mode");
  Recording saved(file);
  saved.run();
  EXPECT_EQ(saved.session->info().mode, "eval");
  EXPECT_TRUE(saved.capture.run.health.state_changed.empty());
  Recording train(file, [](ModelRequest& request) { request.mode = ModelRequest::Mode::kTrain; });
  const auto plain = outputs_of(train.session->run_plain(train.request));
  train.run();
  EXPECT_EQ(train.session->info().mode, "train");
  EXPECT_EQ(outputs_of(train.result), plain);
  EXPECT_NE(outputs_of(train.result), outputs_of(saved.result));
  EXPECT_THAT(train.capture.run.health.state_changed,
              testing::UnorderedElementsAre("norm.running_mean", "norm.running_var", "norm.num_batches_tracked"));
  EXPECT_NE(train.capture.events[train.event("dropout#1")].flags & kOpRandom, 0u);
  EXPECT_NE(train.capture.events[train.event("batch_norm#1")].flags & kOpHiddenWrite, 0u);
  Recording eval(test::small_file("small_writes"),
                 [](ModelRequest& request) { request.mode = ModelRequest::Mode::kEval; });
  eval.run();
  EXPECT_THAT(eval.capture.run.health.state_changed, Not(Contains("norm.running_mean")));
}

TEST(RunMode, SeedDecides) {
  Recording r(test::small_file("small_random"));
  r.run();
  const auto first = outputs_of(r.result);
  r.request.seed = 12;
  EXPECT_NE(outputs_of(r.run().result), first);
  r.request.seed = 11;
  EXPECT_EQ(outputs_of(r.run().result), first);
}

TEST(RunMode, DefaultsAreTakenWhereNothingIsGiven) {
  Recording r(test::small_file("small_defaults"));
  r.run();
  const auto input = floats_of(*r.capture.payloads->tensor(PayloadId{r.capture.events[0].payload}));
  EXPECT_EQ(floats_of(*r.result.outputs.at(0).tensor).at(0), input.at(0) * 8);
  r.request.arguments[1].data = 3.0;
  r.request.arguments[2].data = std::int64_t{1};
  r.request.given = {true, true, true, false};
  r.run();
  EXPECT_EQ(floats_of(*r.result.outputs.at(0).tensor).at(0), input.at(0) * 3);
}

TEST(RunMode, WithoutPayloadsTheRecordsAreTheSame) {
  Recording r(test::small_file("small_views"));
  r.run();
  const auto labels = r.labels();
  const auto outputs = outputs_of(r.result);
  r.request.keep_payloads = false;
  r.run();
  EXPECT_EQ(r.labels(), labels);
  EXPECT_EQ(outputs_of(r.result), outputs);
}

// --- state
// -------------------------------------------------------------------------------------------------------------

class State : public testing::TestWithParam<const char*> {};

/// Every run starts from the file's state, whatever the one before it changed.
TEST_P(State, IsReloadedBeforeEveryRun) {
  const auto file = test::small_file("small_counter");
  Recording r(file);
  const GivenSet tensors = read_input_file(file.inputs);
  r.request.arguments = {tensors.entries.at(0).value, InputValue{std::string(GetParam()), "test"}};
  r.request.given = {true, true};
  const auto plain = outputs_of(r.session->run_plain(r.request));
  EXPECT_EQ(outputs_of(r.run().result), plain);
  EXPECT_EQ(outputs_of(r.run().result), plain) << "second recorded run";
  EXPECT_EQ(outputs_of(r.session->run_plain(r.request)), plain) << "plain run after a recorded one";
}

INSTANTIATE_TEST_SUITE_P(Counter, State, testing::Values("buffer", "rebound", "parameter", "plain", "number", "list"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST(Buffers, AreRowsOfTheirOwn) {
  Recording r(test::small_file("small_writes"));
  r.run();
  EXPECT_THAT(r.parents("add#1"), ElementsAre("table#1"));
  EXPECT_THAT(r.capture.run.health.state_changed, Contains("table"));
  EXPECT_THAT(r.capture.run.health.state_changed, Contains("count"));
  EXPECT_THAT(r.capture.run.health.state_changed, Contains("norm.running_var"));
}

}  // namespace
}  // namespace tl
