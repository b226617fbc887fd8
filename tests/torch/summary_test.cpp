// What `show MODEL` reads out of a file without LibTorch, held against what LibTorch makes of the same file.
#include "archive/torchscript_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "archive/torchscript_refusal.h"
#include "archive/zip_directory.h"
#include "core/mapped_file.h"
#include "torch/small_files.h"
#include "torchscript/registry_names.h"
#include "trace/tables.h"

extern "C" tl::Engine* torchlens_engine_open();

namespace tl {
namespace {

using testing::Contains;
using testing::IsEmpty;
using testing::Not;

Engine& engine() {
  static const std::unique_ptr<Engine> opened(torchlens_engine_open());
  return *opened;
}

TorchScriptSummary summary_of(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  return summarise_torchscript(ZipDirectory(file->bytes(), path.filename().string(), file));
}

std::vector<test::ZooFile> all_files() {
  auto files = test::runnable_files();
  const auto small = test::small_files();
  files.insert(files.end(), small.begin(), small.end());
  return files;
}

class Summary : public testing::TestWithParam<test::ZooFile> {};

TEST_P(Summary, AgreesWithLibTorch) {
  const auto summary = summary_of(GetParam().model);
  ModelRequest request;
  request.path = GetParam().model.string();
  const auto session = engine().load(request);
  const auto& info = session->info();
  ASSERT_FALSE(summary.modules.empty()) << summary.tree_error;
  EXPECT_EQ(summary.modules[0].class_name, info.class_name);
  EXPECT_EQ(summary.mode, info.mode);
  EXPECT_EQ(summary.traced, info.kind == "torchscript trace");
  const auto forward = std::ranges::find(summary.methods, "forward", &ScriptMethod::name);
  ASSERT_NE(forward, summary.methods.end());
  EXPECT_EQ(forward->signature(), info.signature.text);
  std::vector<std::string> methods;
  for (const auto& method : summary.methods) methods.push_back(method.name);
  for (const auto& name : info.methods) EXPECT_THAT(methods, Contains(name));
}

TEST_P(Summary, CountsTheModulesAndTensorsOfTheRecording) {
  const auto summary = summary_of(GetParam().model);
  ModelRequest request;
  request.path = GetParam().model.string();
  const auto session = engine().load(request);
  auto run = test::request_for(GetParam(), session->info().signature, 1);
  run.keep_payloads = false;
  Capture capture;
  session->run(run, capture);
  const bool restored = std::ranges::any_of(summary.modules, &ScriptModule::restored);
  if (restored) GTEST_SKIP() << "its attributes are made by __setstate__ while it is loaded";
  ASSERT_EQ(summary.modules.size(), capture.modules.address.size());
  for (std::size_t row = 0; row < summary.modules.size(); ++row) {
    const auto address = summary.modules[row].path.empty() ? "self" : summary.modules[row].path;
    EXPECT_EQ(address, capture.strings[capture.modules.address[row]]);
    EXPECT_EQ(summary.modules[row].class_name, capture.strings[capture.modules.qualified_class[row]]);
  }
  std::uint64_t parameters = 0;
  std::int64_t bytes = 0;
  for (std::size_t row = 0; row < capture.params.address.size(); ++row) {
    if (static_cast<ParamKind>(capture.params.kind[row]) != ParamKind::kParameter) continue;
    ++parameters;
    bytes += capture.params.bytes[row];
  }
  EXPECT_EQ(summary.parameters.tensors, parameters);
  EXPECT_EQ(summary.parameters.bytes, static_cast<std::uint64_t>(bytes));
  EXPECT_EQ(summary.buffers.tensors, capture.buffers.address.size());
}

TEST_P(Summary, MissesNothingInAFileThatLoads) {
  const auto known = lt::known_operator_names();
  const auto missing = missing_names(
      summary_of(GetParam().model).scan,
      [&](const std::string& name) { return std::ranges::binary_search(known, name); }, lt::is_known_class);
  EXPECT_FALSE(missing_refusal(missing, "")) << missing_refusal(missing, "")->message;
}

INSTANTIATE_TEST_SUITE_P(Files, Summary, testing::ValuesIn(all_files()),
                         [](const auto& instance) { return test::case_name(instance.param); });

TEST(RegistryNames, HoldWhatShowNeeds) {
  const auto operators = engine().operator_names();
  EXPECT_TRUE(std::ranges::is_sorted(operators));
  for (const char* name : {"aten::relu", "aten::conv2d", "prim::RaiseException", "aten::__getitem__", "aten::add",
                           "quantized::linear_dynamic", "aten::save", "prim::NumToTensor"}) {
    EXPECT_THAT(operators, Contains(name));
  }
  EXPECT_THAT(operators, Not(Contains("torchvision::nms")));
  const auto classes = lt::known_class_names();
  EXPECT_THAT(classes, Contains("__torch__.torch.classes.quantized.LinearPackedParamsBase"));
  for (const auto& name : classes) EXPECT_TRUE(lt::is_known_class(name)) << name;
}

}  // namespace
}  // namespace tl
