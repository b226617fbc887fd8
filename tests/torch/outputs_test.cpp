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
#include "torch/recording.h"
#include "torch/small_files.h"

namespace tl {
namespace {

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

// The recorded run gives bit for bit what a plain run of a fresh copy of the same file gives: with LibTorch's own
// interpreter, or, for exported programs, with each operator called bare through the dispatcher.
TEST_P(Outputs, AreThoseOfLibTorch) {
  const auto& file = GetParam();
  const auto plain_session = test::engine().load(test::model_request(file));
  const auto request = test::request_for(file, plain_session->info(), 1234);
  const auto plain = plain_session->run_plain(request);
  const auto session = test::engine().load(test::model_request(file));
  Capture capture;
  const auto recorded = session->run(request, capture);
  ASSERT_TRUE(capture.run.outcome.complete()) << capture.run.outcome.error_type << ": " << capture.run.outcome.reason
                                              << " at " << capture.run.outcome.boundary_label;
  ASSERT_EQ(recorded.outputs.size(), plain.outputs.size());
  for (std::size_t i = 0; i < plain.outputs.size(); ++i) expect_same_bits(recorded.outputs[i], plain.outputs[i]);
  EXPECT_GT(capture.events.size(), 0u);
}

/// Complex numbers as pairs of real ones, which is how complex128 is stored; anything else as it is.
HostTensor in_real_numbers(HostTensor tensor) {
  if (!is_complex(tensor.dtype)) return tensor;
  auto pairs = to_contiguous(tensor);
  pairs.dtype = pairs.dtype == DType::kC128 ? DType::kF64 : (pairs.dtype == DType::kC64 ? DType::kF32 : DType::kF16);
  pairs.sizes.push_back(2);
  for (auto& stride : pairs.strides) stride *= 2;
  pairs.strides.push_back(1);
  pairs.offset *= 2;
  return pairs;
}

/// Within the tolerance of the reference files: 1e-5 absolute for f32 and wider types, two units in the last place of
/// the value for 16-bit types, exact for integers. Returns false where the shapes or types have nothing in common.
bool expect_near(const std::string& role, const HostTensor& got, const HostTensor& want) {
  const auto left = in_real_numbers(got);
  const auto right = in_real_numbers(want);
  if (left.sizes != right.sizes || left.dtype != right.dtype) return false;
  const double slack = item_bytes(right.dtype) >= 4 || !is_floating(right.dtype) ? 0 : 1.0 / 64;
  const double absolute = is_floating(right.dtype) ? 1e-5 : 0;
  for (std::int64_t i = 0; i < right.numel(); ++i) {
    const auto expected = element_as_double(right, i);
    const auto actual = element_as_double(left, i);
    if ((std::isnan(expected) && std::isnan(actual)) || expected == actual) continue;
    const auto allowed = absolute + (slack + 1e-5) * std::fabs(expected);
    if (std::fabs(actual - expected) <= allowed) continue;
    ADD_FAILURE() << role << " element " << i << " is " << actual << ", stored " << expected;
    return true;
  }
  return true;
}

// The leaves of what the model returned are near those that Python stored: out.NNN, by leaf of the flattened value.
TEST_P(Outputs, AreNearTheStoredOnes) {
  const auto& file = GetParam();
  const auto path = file.outputs();
  if (path.empty()) GTEST_SKIP() << "no stored outputs";
  const auto stored = SafetensorsFile::open(path);
  const auto session = test::engine().load(test::model_request(file));
  Capture capture;
  const auto recorded = session->run(test::request_for(file, session->info(), 1234), capture);
  ASSERT_TRUE(capture.run.outcome.complete()) << capture.run.outcome.reason;
  std::size_t compared = 0;
  for (std::size_t leaf = 0; leaf < recorded.outputs.size(); ++leaf) {
    const auto& output = recorded.outputs[leaf];
    char key[32];
    std::snprintf(key, sizeof key, "out.%03zu", leaf);
    const auto expected = stored.tensor(key);
    // The leaves of an exported program are Python's; a script may return another structure than the module it is of.
    if (file.is_exported()) {
      EXPECT_EQ(expected.has_value(), output.tensor != nullptr) << output.role;
    }
    if (!expected || !output.tensor) continue;
    const auto parts = output.tensor->to_host();
    const bool alike = parts.size() == 1 && expect_near(output.role, parts[0].tensor, *expected);
    compared += alike ? 1 : 0;
    if (file.is_exported()) {
      EXPECT_TRUE(alike) << output.role << " has another shape or type than " << key;
    }
  }
  EXPECT_GT(compared, 0u);
}

INSTANTIATE_TEST_SUITE_P(Zoo, Outputs, testing::ValuesIn(test::all_runnable_files()),
                         [](const auto& instance) { return test::case_name(instance.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Outputs);

TEST(OutputsSetup, ReferenceFilesAreThere) {
  if (test::runnable_files().empty())
    GTEST_SKIP() << "the reference files beside the project (" << TL_SHARED_DIR << ") are absent";
  EXPECT_GT(test::runnable_files().size(), 100u);
  EXPECT_GT(test::runnable_exported_files().size(), 110u);
}

}  // namespace
}  // namespace tl
