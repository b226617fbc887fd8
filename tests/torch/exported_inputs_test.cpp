#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "engine/bind_inputs.h"
#include "tensor/host_tensor.h"
#include "torch/recording.h"
#include "torch/zoo_files.h"

// What an exported program states of its inputs is checked before anything runs, and named in the user's words.
namespace tl {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

std::filesystem::path fixture(const std::string& name) {
  return std::filesystem::path(TL_SOURCE_DIR) / "tests/models/exported" / (name + ".pt2");
}

InputValue tensor(DType dtype, std::vector<std::int64_t> sizes) {
  const auto count = static_cast<std::size_t>(checked_numel(sizes));
  InputValue value;
  value.data = make_host_tensor(dtype, std::move(sizes), std::vector<std::byte>(count * item_bytes(dtype)));
  value.source = "given";
  return value;
}

InputValue floats(std::vector<std::int64_t> sizes) { return tensor(DType::kF32, std::move(sizes)); }

template <typename T>
InputValue host(T value) {
  InputValue result;
  result.data = std::move(value);
  result.source = "given";
  return result;
}

/// One run with the values given under these names, and what stopped it.
struct Attempt {
  Capture capture;
  RunResult result;
  std::string error;  ///< message, note and hint; empty if it ran
  std::string code;
};

Attempt attempt(const std::filesystem::path& model, std::vector<GivenInput> inputs, const std::string& program = {}) {
  Attempt attempt;
  try {
    const auto session = test::engine().load(test::model_request({model, {}, program}));
    GivenSet given{"--input", std::move(inputs), {}, {}, true};
    auto bound = bind_inputs(session->info().signature, std::span(&given, 1));
    RunRequest request;
    request.arguments = std::move(bound.arguments);
    request.given = std::move(bound.given);
    attempt.result = session->run(request, attempt.capture);
    EXPECT_TRUE(attempt.capture.run.outcome.complete()) << attempt.capture.run.outcome.reason;
  } catch (const Error& error) {
    attempt.error = error.message + "\n" + error.note + "\n" + error.hint;
    attempt.code = to_string(error.code);
  }
  return attempt;
}

std::vector<GivenInput> ranges(std::int64_t rows, std::int64_t odd, std::int64_t fours, std::int64_t width = 2) {
  return {{"x", floats({rows, width})}, {"y", floats({odd, 2})}, {"z", floats({fours})}};
}

// x: rows 2..16 by 2; y: 2*rows + 1 by 2; z: 4*columns, columns 1..9 (tests/models/exported/make_values.py)
TEST(ExportedInputs, SizesInsideTheRangesRun) {
  for (const auto rows : {2, 4, 16}) {
    const auto run = attempt(fixture("ranges"), ranges(rows, 2 * rows + 1, 8));
    EXPECT_EQ(run.error, "") << rows;
    ASSERT_THAT(run.result.outputs, SizeIs(2));
    EXPECT_EQ(run.result.outputs[0].tensor->to_host()[0].tensor.sizes, (std::vector<std::int64_t>{rows, 2}));
  }
}

TEST(ExportedInputs, SizesOutsideTheRangesAreNamed) {
  for (const auto rows : {1, 17, 99}) {
    const auto run = attempt(fixture("ranges"), ranges(rows, 2 * rows + 1, 8));
    EXPECT_EQ(run.code, "input_mismatch");
    EXPECT_THAT(run.error, HasSubstr("x.shape[0] = " + std::to_string(rows) + ", allowed 2..16"));
    EXPECT_EQ(run.capture.events.size(), 0u) << "nothing ran";
  }
}

TEST(ExportedInputs, ExpressionsOfSizesAreNamed) {
  const auto derived = attempt(fixture("ranges"), ranges(4, 10, 8));
  EXPECT_EQ(derived.code, "input_mismatch");
  EXPECT_THAT(derived.error, HasSubstr("y.shape[0] = 10"));
  EXPECT_THAT(derived.error, HasSubstr("= 9"));
  const auto multiple = attempt(fixture("ranges"), ranges(4, 9, 7));
  EXPECT_EQ(multiple.code, "input_mismatch");
  EXPECT_THAT(multiple.error, HasSubstr("z.shape[0] = 7"));
  const auto range = attempt(fixture("ranges"), ranges(4, 9, 40));
  EXPECT_EQ(range.code, "input_mismatch");
  EXPECT_THAT(range.error, HasSubstr("z.shape[0] = 40"));
}

TEST(ExportedInputs, FixedSizesRanksAndTypesAreNamed) {
  const auto size = attempt(fixture("ranges"), ranges(4, 9, 8, 3));
  EXPECT_EQ(size.code, "input_mismatch");
  EXPECT_THAT(size.error, HasSubstr("x: f32[4,3] given, the file states f32[*,2]"));
  const auto rank = attempt(fixture("ranges"), {{"x", floats({4})}, {"y", floats({9, 2})}, {"z", floats({8})}});
  EXPECT_EQ(rank.code, "input_mismatch");
  EXPECT_THAT(rank.error, HasSubstr("x"));
  EXPECT_THAT(rank.error, HasSubstr("1"));
  const auto type =
      attempt(fixture("ranges"), {{"x", tensor(DType::kF64, {4, 2})}, {"y", floats({9, 2})}, {"z", floats({8})}});
  EXPECT_EQ(type.code, "input_mismatch");
  EXPECT_THAT(type.error, HasSubstr("x"));
  EXPECT_THAT(type.error, HasSubstr("f64"));
  EXPECT_THAT(type.error, HasSubstr("f32"));
}

TEST(ExportedInputs, AllMisfitsAreInOneMessage) {
  const auto run = attempt(fixture("ranges"), ranges(99, 9, 7));
  EXPECT_EQ(run.code, "input_mismatch");
  for (const auto* text : {"x.shape[0] = 99", "y.shape[0] = 9", "z.shape[0] = 7"}) {
    EXPECT_THAT(run.error, HasSubstr(text));
  }
}

TEST(ExportedInputs, NamesAreChecked) {
  auto inputs = ranges(4, 9, 8);
  inputs[2].name = "zz";
  const auto run = attempt(fixture("ranges"), inputs);
  EXPECT_EQ(run.code, "input_mismatch");
  EXPECT_THAT(run.error, HasSubstr("zz"));
  EXPECT_THAT(run.error, HasSubstr("did you mean z?"));
  inputs.pop_back();
  const auto missing = attempt(fixture("ranges"), inputs);
  EXPECT_EQ(missing.code, "input_mismatch");
  EXPECT_THAT(missing.error, HasSubstr("z: nothing given"));
}

TEST(ExportedInputs, OneSymbolHasOneValue) {
  const auto model = std::filesystem::path(TL_SHARED_DIR) / "zoo/bert_tiny.dyn.pt2";
  if (!std::filesystem::exists(model)) GTEST_SKIP() << TL_SHARED_DIR << " beside the project is absent";
  const auto session = test::engine().load(test::model_request({model, {}, {}}));
  ASSERT_THAT(session->info().signature.arguments, SizeIs(2));
  const auto& first = session->info().signature.arguments[0].name;
  const auto& second = session->info().signature.arguments[1].name;
  const auto run = attempt(model, {{first, tensor(DType::kI64, {3, 10})}, {second, tensor(DType::kI64, {2, 10})}});
  EXPECT_EQ(run.code, "input_mismatch");
  EXPECT_THAT(run.error, HasSubstr(second + ".shape[0] = 2, " + first + ".shape[0] = 3"));
}

// --- nested arguments; forward(batch, point, *rest, scale=1.0, options=None), exported with scale=2.0

class NestedInputs : public testing::Test {
 protected:
  void SetUp() override {
    session_ = test::engine().load(test::model_request(kFile));
    request_ = test::request_for(kFile, session_->info().signature, 0);
  }

  InputValue& argument(const std::string& name) {
    const auto& arguments = session_->info().signature.arguments;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].name != name) continue;
      request_.given[i] = true;
      return request_.arguments[i];
    }
    ADD_FAILURE() << "no argument " << name;
    return request_.arguments.at(0);
  }

  Attempt run() {
    Attempt attempt;
    try {
      attempt.result = session_->run(request_, attempt.capture);
    } catch (const Error& error) {
      attempt.error = error.message + "\n" + error.note + "\n" + error.hint;
      attempt.code = to_string(error.code);
    }
    return attempt;
  }

  const test::ZooFile kFile{fixture("structures"),
                            fixture("structures").parent_path() / "structures.inputs.safetensors"};
  std::unique_ptr<Session> session_;
  RunRequest request_;
};

TEST_F(NestedInputs, ThatFitRunAndConstantsMayBeLeftOut) {
  const auto attempt = run();
  EXPECT_EQ(attempt.error, "");
  EXPECT_GT(attempt.result.outputs.size(), 10u);
}

TEST_F(NestedInputs, ConstantsOfTheExportAreNamed) {
  argument("scale") = host(3.0);
  const auto other = run();
  EXPECT_EQ(other.code, "input_mismatch");
  EXPECT_THAT(other.error, HasSubstr("scale"));
  EXPECT_THAT(other.error, HasSubstr("3"));
  EXPECT_THAT(other.error, HasSubstr("exported with 2"));
  argument("scale") = host(2.0);
  EXPECT_EQ(run().error, "");
}

TEST_F(NestedInputs, MisfitsAreNamedByPath) {
  auto& parts = std::get<InputValue::Tuple>(argument("batch").data).elements;  // z, a: bound in the file's order
  ASSERT_THAT(parts, SizeIs(2));
  parts[1] = tensor(DType::kI64, {});
  const auto type = run();
  EXPECT_EQ(type.code, "input_mismatch");
  EXPECT_THAT(type.error, HasSubstr("batch.a"));
  EXPECT_THAT(type.error, HasSubstr("i64"));
  parts.pop_back();
  const auto missing = run();
  EXPECT_EQ(missing.code, "input_mismatch");
  EXPECT_THAT(missing.error, HasSubstr("batch"));
}

// --- several programs

TEST(ExportedPrograms, AreListedWhereNoneIsChosen) {
  const auto run = attempt(fixture("several"), {});
  EXPECT_EQ(run.code, "usage");
  for (const auto* text : {"encoder", "decoder", "heads/second", "--model"}) EXPECT_THAT(run.error, HasSubstr(text));
}

TEST(ExportedPrograms, UnknownOnesAreRefusedWithThoseThatAre) {
  const auto run = attempt(fixture("several"), {}, "encodr");
  EXPECT_EQ(run.code, "usage");
  for (const auto* text : {"encodr", "encoder", "decoder", "heads/second"}) EXPECT_THAT(run.error, HasSubstr(text));
}

TEST(ExportedPrograms, EachHasItsOwnSignature) {
  const auto names = [](const std::string& program) {
    const auto session = test::engine().load(test::model_request({fixture("several"), {}, program}));
    std::vector<std::string> result;
    for (const auto& argument : session->info().signature.arguments) result.push_back(argument.name);
    return result;
  };
  EXPECT_EQ(names("encoder"), (std::vector<std::string>{"x"}));
  EXPECT_EQ(names("decoder"), (std::vector<std::string>{"code", "scale"}));
  EXPECT_EQ(names("heads/second"), (std::vector<std::string>{"code", "scale"}));
}

TEST(ExportedPrograms, NameThatIsNoProgramOfAFileWithOneIsRefused) {
  const auto run = attempt(fixture("plain"), {{"x", floats({2, 3})}}, "other");
  EXPECT_EQ(run.code, "usage");
  EXPECT_THAT(run.error, HasSubstr("other"));
  EXPECT_THAT(run.error, HasSubstr("model"));
}

// forward(x, n): torch._check(n.item() > 2), which the graph says of u0.
TEST(ExportedAssertions, AreReportedInTheNamesOfTheCaller) {
  const auto folder = fixture("asserts").parent_path();
  const auto session = test::engine().load(test::model_request({fixture("asserts"), {}, {}}));
  const auto request = test::request_for({fixture("asserts"), folder / "asserts.small_n.inputs.safetensors", {}},
                                         session->info().signature, 0);
  Capture capture;
  session->run(request, capture);
  EXPECT_EQ(capture.run.outcome.status, "failed");
  EXPECT_THAT(capture.run.outcome.reason, HasSubstr("u0 >= 3 on node 'ge' (u0 is item of n)"));
}

// --- the example in the file

TEST(ExportedExample, IsThereAndRuns) {
  for (const auto* name : {"plain", "ranges", "deflated", "torch26_dict", "structures"}) {
    const auto session = test::engine().load(test::model_request({fixture(name), {}, {}}));
    const auto& info = session->info();
    ASSERT_EQ(info.stored_arguments.size(), info.signature.arguments.size()) << name;
    RunRequest request;
    request.arguments = info.stored_arguments;
    request.given.assign(request.arguments.size(), true);
    Capture capture;
    EXPECT_NO_THROW(session->run(request, capture)) << name;
    EXPECT_TRUE(capture.run.outcome.complete()) << name << ": " << capture.run.outcome.reason;
  }
}

TEST(ExportedExample, IsNotMadeUpWhereTheFileHasNone) {
  const auto session = test::engine().load(test::model_request({fixture("no_samples"), {}, {}}));
  EXPECT_THAT(session->info().stored_arguments, IsEmpty());
}

// --- layout

TEST(ExportedInputs, AreLaidOutAsTheFileRecordedThem) {
  const auto session = test::engine().load(test::model_request({fixture("strides"), {}, {}}));
  auto request =
      test::request_for({fixture("strides"), fixture("strides").parent_path() / "strides.inputs.safetensors", {}},
                        session->info().signature, 0);
  Capture capture;
  const auto result = session->run(request, capture);
  ASSERT_TRUE(capture.run.outcome.complete()) << capture.run.outcome.reason;
  EXPECT_THAT(result.notes, testing::Contains(HasSubstr("transposed was laid out anew")));
  EXPECT_THAT(result.notes, testing::Contains(HasSubstr("image was laid out anew")));
  EXPECT_THAT(result.notes, testing::Each(Not(HasSubstr("expanded was"))));
}

}  // namespace
}  // namespace tl
