#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "archive/model_kind.h"
#include "core/error.h"
#include "torch/small_files.h"

extern "C" tl::Engine* torchlens_engine_open();

namespace tl {
namespace {

using testing::HasSubstr;
using testing::Not;

Engine& engine() {
  static const std::unique_ptr<Engine> opened(torchlens_engine_open());
  return *opened;
}

/// Looks at a file and loads it as `trace` does; the error that stops it, if any.
std::optional<Error> error_of(const ModelRequest& request) {
  try {
    if (auto refusal = refusal_for(inspect_model_file(request.path))) return refusal;
    engine().load(request);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

struct RefusalCase : test::Refusal {};
void PrintTo(const RefusalCase& refusal, std::ostream* out) { *out << refusal.file(); }

std::vector<RefusalCase> cases() {
  std::vector<RefusalCase> result;
  for (const auto& refusal : test::expected_refusals()) result.push_back({refusal});
  return result;
}

class Refusals : public testing::TestWithParam<RefusalCase> {};

TEST_P(Refusals, AreAsExpected) {
  const auto& expected = GetParam();
  ModelRequest request;
  request.path = expected.path.string();
  const auto error = error_of(request);
  ASSERT_TRUE(error) << "was loaded";
  EXPECT_EQ(static_cast<int>(exit_code_of(error->code)), expected.exit_code) << error->message;
  if (!expected.code.empty()) {
    EXPECT_EQ(to_string(error->code), expected.code) << error->message;
  }
  EXPECT_THAT(error->message, HasSubstr(expected.file()));
  EXPECT_THAT(error->message, Not(HasSubstr("\n")));
  for (const auto& name : expected.names) EXPECT_THAT(error->message, HasSubstr(name));
  EXPECT_NE(error->hint, "") << "says what to do";
}

INSTANTIATE_TEST_SUITE_P(Zoo, Refusals, testing::ValuesIn(cases()), [](const auto& instance) {
  return test::case_name({instance.param.path, {}});
});
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Refusals);

TEST(UnsafeOperator, IsRefusedByName) {
  ModelRequest request;
  request.path = test::small_file("small_saves").model.string();
  const auto error = error_of(request);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, ErrorCode::kUnsafeOperator);
  EXPECT_EQ(exit_code_of(error->code), ExitCode::kRefused);
  EXPECT_THAT(error->message, HasSubstr("aten::save"));
  EXPECT_THAT(error->hint, HasSubstr("--allow-op aten::save"));
}

TEST(UnsafeOperator, RunsWhenItIsAllowed) {
  const auto file = test::small_file("small_saves");
  ModelRequest request;
  request.path = file.model.string();
  request.allowed_ops = {"aten::save"};
  const auto session = engine().load(request);
  Capture capture;
  const auto result = session->run(test::request_for(file, session->info().signature, 1), capture);
  EXPECT_TRUE(capture.run.outcome.complete()) << capture.run.outcome.reason;
  EXPECT_EQ(result.outputs.size(), 1u);
}

TEST(UnsafeOperator, AnotherAllowedNameDoesNotHelp) {
  ModelRequest request;
  request.path = test::small_file("small_saves").model.string();
  request.allowed_ops = {"aten::from_file"};
  const auto error = error_of(request);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, ErrorCode::kUnsafeOperator);
}

TEST(ModeOption, IsRefusedForTraces) {
  ModelRequest request;
  request.path = std::string(TL_SOURCE_DIR) + "/tests/torch/data/small_linear.trace.pt";
  EXPECT_FALSE(error_of(request));
  for (const auto mode : {ModelRequest::Mode::kTrain, ModelRequest::Mode::kEval}) {
    request.mode = mode;
    const auto error = error_of(request);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code, ErrorCode::kModeNotAllowed);
  }
}

TEST(Method, UnknownOneIsRefusedWithThoseThatAre) {
  ModelRequest request;
  request.path = test::small_file("small_multi_method").model.string();
  request.method = "encod";
  const auto error = error_of(request);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, ErrorCode::kMethodNotFound);
  EXPECT_THAT(error->message, HasSubstr("encode"));
}

}  // namespace
}  // namespace tl
