#include "analysis/finite_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "postprocess/pipeline.h"
#include "support/trace_fixtures.h"
#include "tensor/statistics.h"
#include "trace/finiteness.h"

namespace tl {
namespace {

/// Payload k is the k-th tensor.
class Tensors final : public PayloadSource {
 public:
  class Ref final : public TensorRef {
   public:
    explicit Ref(HostTensor tensor) : tensor_(std::move(tensor)) {}
    TensorKind kind() const override { return TensorKind::kStrided; }
    std::vector<TensorPart> to_host() const override { return {{"", tensor_}}; }

   private:
    HostTensor tensor_;
  };
  explicit Tensors(std::vector<HostTensor> tensors) : tensors_(std::move(tensors)) {}
  std::size_t size() const override { return tensors_.size(); }
  PayloadFacts facts(PayloadId id) const override {
    const auto& tensor = tensors_[id.index()];
    PayloadFacts facts;
    facts.dtype = tensor.dtype;
    facts.storage = id.index() + 1;
    facts.sizes = tensor.sizes;
    facts.strides = tensor.strides;
    return facts;
  }
  TensorRefPtr tensor(PayloadId id) const override { return std::make_shared<Ref>(tensors_[id.index()]); }

 private:
  std::vector<HostTensor> tensors_;
};

template <typename Word>
HostTensor tensor_of(DType dtype, std::vector<Word> words) {
  std::vector<std::byte> bytes(words.size() * sizeof(Word));
  std::memcpy(bytes.data(), words.data(), bytes.size());
  const auto elements = static_cast<std::int64_t>(bytes.size() / item_bytes(dtype));
  return make_host_tensor(dtype, {elements}, std::move(bytes));
}

/// What is kept of each of the three values of a chain.
enum class Kept { kFull, kSample, kNothing };

/// A chain a → b → c of f32[2] whose payloads, or samples, are the three tensors.
Trace chain(std::vector<HostTensor> tensors, std::array<Kept, 3> kept = {}, StatisticsTable statistics = {}) {
  auto capture = test::capture_from_text(
      "trace 1\nmodule self\ncontext c0 module=self\n"
      "call_site s0 file=net.py line=3 column=8 column_end=20\ncall_site s1 file=net.py line=4 column=8 column_end=20\n"
      "instruction log func_name=log layer_type=log call_site=s0\n"
      "instruction log2 func_name=log layer_type=log call_site=s1\n"
      "call self:1 first_op=a end_op=end\n"
      "op a input out=f32[2] address=input.x\nop b log out=f32[2] parents=a@0\nop c log2 out=f32[2] parents=b@0\n");
  for (std::uint32_t event = 0; event < 3; ++event) {
    if (kept[event] == Kept::kNothing) continue;
    capture.events[event].payload = event;
    capture.events[event].sampled = kept[event] == Kept::kSample;
  }
  capture.statistics = std::move(statistics);
  capture.payloads = std::make_shared<Tensors>(std::move(tensors));
  return run_pipeline(std::move(capture));
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(FiniteCheck, NamesTheFirstProducerOnly) {
  auto trace = chain({tensor_of<float>(DType::kF32, {1.0f, 2.0f}), tensor_of<float>(DType::kF32, {1.0f, kNan}),
                      tensor_of<float>(DType::kF32, {kInf, 1.0f})});
  check_finite(trace);
  EXPECT_TRUE(trace.run.health.nonfinite_checked);
  EXPECT_THAT(trace.run.health.nonfinite, testing::ElementsAre("log_1_1"));
  EXPECT_EQ(trace.ops.flags[0] & kOpNonFinite, 0u);
  EXPECT_NE(trace.ops.flags[1] & kOpNonFinite, 0u);
  EXPECT_NE(trace.ops.flags[2] & kOpNonFinite, 0u);
}

TEST(FiniteCheck, LargestFiniteNumbersAreFinite) {
  // IEEE 754: the exponent below all ones; bf16 0x7f7f, f16 0x7bff, f8e4m3fn 0x7e (448), f8e5m2 0x7b (57344).
  auto trace = chain({tensor_of<float>(DType::kF32, {std::numeric_limits<float>::max(), -0.0f}),
                      tensor_of<std::uint16_t>(DType::kBF16, {0x7f7f, 0xff7f}),
                      tensor_of<std::uint8_t>(DType::kF8E4M3, {0x7e, 0xfe})});
  check_finite(trace);
  EXPECT_TRUE(trace.run.health.nonfinite_checked);
  EXPECT_THAT(trace.run.health.nonfinite, testing::IsEmpty());
}

TEST(FiniteCheck, KnowsEveryFormat) {
  const std::vector<HostTensor> bad = {tensor_of<double>(DType::kF64, {0.0, std::numeric_limits<double>::infinity()}),
                                       tensor_of<std::uint16_t>(DType::kF16, {0x0000, 0xfc00}),  // -inf
                                       tensor_of<std::uint16_t>(DType::kBF16, {0x0000, 0x7fc0}),
                                       tensor_of<float>(DType::kC64, {0.0f, kNan}),
                                       tensor_of<std::uint8_t>(DType::kF8E5M2, {0x00, 0x7c}),
                                       tensor_of<std::uint8_t>(DType::kF8E4M3, {0x00, 0xff}),
                                       tensor_of<std::uint8_t>(DType::kF8E4M3FNUZ, {0x00, 0x80})};
  for (const auto& tensor : bad) {
    auto trace =
        chain({tensor, tensor_of<float>(DType::kF32, {1.0f, 2.0f}), tensor_of<float>(DType::kF32, {1.0f, 2.0f})});
    check_finite(trace);
    EXPECT_THAT(trace.run.health.nonfinite, testing::ElementsAre("input_1")) << short_name(tensor.dtype);
  }
}

TEST(FiniteCheck, NothingKeptIsNothingClaimed) {
  Trace trace;
  check_finite(trace);
  EXPECT_FALSE(trace.run.health.nonfinite_checked);
  auto unsaved = chain({}, {Kept::kNothing, Kept::kNothing, Kept::kNothing});
  check_finite(unsaved);
  EXPECT_FALSE(unsaved.run.health.nonfinite_checked);
  EXPECT_TRUE(count_checked(unsaved).nothing_checked());
  EXPECT_EQ(count_checked(unsaved).checkable, 3);
}

TEST(FiniteCheck, WhatWasNotKeptIsNotCalledFinite) {
  const auto fine = tensor_of<float>(DType::kF32, {1.0f, 2.0f});
  auto trace = chain({fine, fine, fine}, {Kept::kNothing, Kept::kFull, Kept::kNothing});
  check_finite(trace);
  EXPECT_TRUE(trace.run.health.nonfinite_checked);
  EXPECT_EQ(finiteness_of(trace.ops.flags[0]), Finiteness::kUnknown);
  EXPECT_EQ(finiteness_of(trace.ops.flags[1]), Finiteness::kFinite);
  EXPECT_EQ(finiteness_of(trace.ops.flags[2]), Finiteness::kUnknown);
  EXPECT_EQ(count_checked(trace).checked, 1);
  EXPECT_EQ(count_checked(trace).checkable, 3);
}

TEST(FiniteCheck, ASampleShowsThatThereIsOneAndNeverThatThereIsNone) {
  auto trace = chain({tensor_of<float>(DType::kF32, {1.0f}), tensor_of<float>(DType::kF32, {kNan}),
                      tensor_of<float>(DType::kF32, {1.0f, 2.0f})},
                     {Kept::kSample, Kept::kSample, Kept::kSample});
  check_finite(trace);
  EXPECT_EQ(finiteness_of(trace.ops.flags[0]), Finiteness::kUnknown);
  EXPECT_EQ(finiteness_of(trace.ops.flags[1]), Finiteness::kNonFinite);
  EXPECT_EQ(finiteness_of(trace.ops.flags[2]), Finiteness::kFinite);  // the sample holds both elements
  EXPECT_THAT(trace.run.health.nonfinite, testing::ElementsAre("log_1_1"));
  EXPECT_EQ(count_checked(trace).checked, 2);
  EXPECT_EQ(count_checked(trace).sampled, 1);
}

TEST(FiniteCheck, StatisticsOfValuesThatWereNotKeptCount) {
  StatisticsTable statistics;
  statistics.taken = kStatNan | kStatInf;
  statistics.append(0, compute_stats(tensor_of<float>(DType::kF32, {1.0f, 2.0f})), false);
  statistics.append(1, compute_stats(tensor_of<float>(DType::kF32, {1.0f, -kInf})), false);
  statistics.append(2, compute_stats(tensor_of<float>(DType::kF32, {kNan, 1.0f})), false);
  auto trace = chain({}, {Kept::kNothing, Kept::kNothing, Kept::kNothing}, statistics);
  trace.payload_source = nullptr;
  check_finite(trace);
  EXPECT_EQ(finiteness_of(trace.ops.flags[0]), Finiteness::kFinite);
  EXPECT_THAT(trace.run.health.nonfinite, testing::ElementsAre("log_1_1"));
  EXPECT_EQ(count_checked(trace).checked, 3);
}

TEST(FiniteCheck, CountsOfNanAloneDoNotRuleInfinitiesOut) {
  StatisticsTable statistics;
  statistics.taken = kStatNan;
  for (std::size_t op = 0; op < 3; ++op) {
    statistics.append(op, compute_stats(tensor_of<float>(DType::kF32, {1.0f, op == 2 ? kNan : kInf})), false);
  }
  auto trace = chain({}, {Kept::kNothing, Kept::kNothing, Kept::kNothing}, statistics);
  check_finite(trace);
  EXPECT_EQ(finiteness_of(trace.ops.flags[0]), Finiteness::kUnknown);
  EXPECT_EQ(finiteness_of(trace.ops.flags[2]), Finiteness::kNonFinite);
}

}  // namespace
}  // namespace tl
