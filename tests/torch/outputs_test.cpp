#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>

#include "core/error.h"
#include "tensor/element.h"
#include "tensor/host_tensor.h"
#include "tensor/safetensors.h"
#include "torch/zoo_files.h"

extern "C" tl::Engine* torchlens_engine_open();

namespace tl {
namespace {

Engine& engine() {
  static const std::unique_ptr<Engine> opened(torchlens_engine_open());
  return *opened;
}

ModelRequest model_request(const test::ZooFile& file) {
  ModelRequest request;
  request.path = file.model.string();
  request.threads = 1;
  return request;
}

/// Same parts, same bytes.
void expect_same_bits(const OutputValue& ours, const OutputValue& plain) {
  ASSERT_EQ(ours.role, plain.role);
  ASSERT_EQ(ours.scalar, plain.scalar) << ours.role;
  ASSERT_EQ(ours.tensor == nullptr, plain.tensor == nullptr) << ours.role;
  if (!ours.tensor) return;
  const auto left = ours.tensor->to_host();
  const auto right = plain.tensor->to_host();
  ASSERT_EQ(left.size(), right.size()) << ours.role;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const auto a = to_contiguous(left[i].tensor);
    const auto b = to_contiguous(right[i].tensor);
    ASSERT_EQ(a.dtype, b.dtype) << ours.role << left[i].suffix;
    ASSERT_EQ(a.sizes, b.sizes) << ours.role << left[i].suffix;
    const auto* first = a.storage.data() + static_cast<std::size_t>(a.offset) * item_bytes(a.dtype);
    const auto* second = b.storage.data() + static_cast<std::size_t>(b.offset) * item_bytes(b.dtype);
    ASSERT_EQ(std::memcmp(first, second, a.nbytes()), 0) << ours.role << left[i].suffix << " differs";
  }
}

class Outputs : public testing::TestWithParam<test::ZooFile> {};

// The recorded run gives bit for bit what LibTorch's own interpreter gives on a fresh copy of the same file.
TEST_P(Outputs, AreThoseOfLibTorch) {
  const auto& file = GetParam();
  const auto plain_session = engine().load(model_request(file));
  const auto request = test::request_for(file, plain_session->info().signature, 1234);
  const auto plain = plain_session->run_plain(request);
  const auto session = engine().load(model_request(file));
  Capture capture;
  const auto recorded = session->run(request, capture);
  ASSERT_TRUE(capture.run.outcome.complete()) << capture.run.outcome.error_type << ": " << capture.run.outcome.reason
                                              << " at " << capture.run.outcome.boundary_label;
  ASSERT_EQ(recorded.outputs.size(), plain.outputs.size());
  for (std::size_t i = 0; i < plain.outputs.size(); ++i) expect_same_bits(recorded.outputs[i], plain.outputs[i]);
  EXPECT_GT(capture.events.size(), 0u);
}

/// The file with what Python computed: out.NNN, by leaf of the flattened return value.
std::filesystem::path stored_outputs(const test::ZooFile& file) {
  const auto folder = file.model.parent_path();
  const auto own = folder / (file.name() + ".outputs.safetensors");
  if (std::filesystem::exists(own)) return own;
  return folder / (file.name().substr(0, file.name().find('.')) + ".outputs.safetensors");
}

// Within the tolerance of the reference files of what Python stored: 1e-5 absolute for f32 and wider types, two units
// in the last place of the value for 16-bit types, exact for integers.
TEST_P(Outputs, AreNearTheStoredOnes) {
  const auto& file = GetParam();
  const auto path = stored_outputs(file);
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no stored outputs";
  const auto stored = SafetensorsFile::open(path);
  const auto session = engine().load(model_request(file));
  Capture capture;
  const auto recorded = session->run(test::request_for(file, session->info().signature, 1234), capture);
  ASSERT_TRUE(capture.run.outcome.complete()) << capture.run.outcome.reason;
  std::size_t compared = 0;
  for (std::size_t leaf = 0; leaf < recorded.outputs.size(); ++leaf) {
    char key[32];
    std::snprintf(key, sizeof key, "out.%03zu", leaf);
    const auto expected = stored.tensor(key);
    if (!expected || !recorded.outputs[leaf].tensor) continue;
    const auto parts = recorded.outputs[leaf].tensor->to_host();
    if (parts.size() != 1 || parts[0].tensor.sizes != expected->sizes || parts[0].tensor.dtype != expected->dtype)
      continue;
    ++compared;
    const double slack = item_bytes(expected->dtype) >= 4 || !is_floating(expected->dtype) ? 0 : 1.0 / 64;
    const double absolute = is_floating(expected->dtype) || is_complex(expected->dtype) ? 1e-5 : 0;
    for (std::int64_t i = 0; i < expected->numel(); ++i) {
      const auto want = element_as_double(*expected, i);
      const auto got = element_as_double(parts[0].tensor, i);
      if (std::isnan(want) && std::isnan(got)) continue;
      if (want == got) continue;
      ASSERT_NEAR(got, want, absolute + (slack + 1e-5) * std::fabs(want))
          << recorded.outputs[leaf].role << " element " << i;
    }
  }
  EXPECT_GT(compared, 0u);
}

std::string test_name(const testing::TestParamInfo<test::ZooFile>& info) {
  auto name = info.param.name();
  std::ranges::replace_if(
      name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name + (info.param.model.parent_path().filename() == "artifacts" ? "_reference" : "");
}

INSTANTIATE_TEST_SUITE_P(Zoo, Outputs, testing::ValuesIn(test::runnable_files()), test_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Outputs);

TEST(OutputsSetup, ReferenceFilesAreThere) {
  if (test::runnable_files().empty())
    GTEST_SKIP() << "the reference files beside the project (" << TL_SHARED_DIR << ") are absent";
  EXPECT_GT(test::runnable_files().size(), 100u);
}

}  // namespace
}  // namespace tl
