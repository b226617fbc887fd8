#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "core/error.h"
#include "postprocess/pipeline.h"
#include "postprocess/retain_payloads.h"
#include "support/trace_fixtures.h"
#include "trace/invariants.h"
#include "trace/saved_value.h"
#include "trace/text.h"

namespace tl {
namespace {

struct Stored {
  TensorKind kind = TensorKind::kStrided;
  DType dtype = DType::kF32;
  std::uint64_t storage = 0;
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  bool conjugate = false;
};

class FakeStore : public PayloadSource {
 public:
  explicit FakeStore(std::vector<Stored> rows) : rows_(std::move(rows)) {}
  std::size_t size() const override { return rows_.size(); }
  PayloadFacts facts(PayloadId id) const override {
    const auto& row = rows_[id.index()];
    return {row.kind, row.dtype, row.storage, row.offset, row.sizes, row.strides, row.conjugate, false};
  }
  TensorRefPtr tensor(PayloadId) const override { return nullptr; }

 private:
  std::vector<Stored> rows_;
};

/// A chain of Ops, one a payload (row `payload` of the store, -1 for none), after an input without payload; returns the
/// last.
Trace settle(std::vector<Stored> store, const std::vector<int>& payloads, std::uint32_t last_flags = 0) {
  std::string text =
      "trace 1\nmodule self\ncontext c0 module=self\ninstruction i func_name=neg layer_type=neg\n"
      "call self:1 first_op=#0 end_op=end\nop o0 input out=f32[4] address=input.x\n";
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    text += "op o" + std::to_string(i + 1) + " i out=f32[4] parents=o" + std::to_string(i) + "@0 payload=#" +
            std::to_string(payloads[i]) + "\n";
  }
  text += "op out output out=f32[4] parents=o" + std::to_string(payloads.size()) + "@0 address=output\n";
  auto capture = test::capture_from_text(text);
  capture.events[payloads.size()].flags |= last_flags;
  capture.payloads = std::make_shared<FakeStore>(std::move(store));
  auto trace = run_pipeline(std::move(capture));
  for (const auto& finding : check_invariants(trace)) ADD_FAILURE() << finding.check << ": " << finding.message;
  return trace;
}

PayloadEncoding encoding(Stored stored, std::uint32_t flags = 0) {
  const auto trace = settle({std::move(stored)}, {0}, flags);
  EXPECT_EQ(trace.payloads.encoding.size(), 1U);
  return static_cast<PayloadEncoding>(trace.payloads.encoding[0]);
}

TEST(SettlePayloads, EqualViewsOfAStorageAreOneRow) {
  const Stored whole{.storage = 1, .sizes = {4}, .strides = {1}};
  const Stored again = whole;
  const Stored part{.storage = 1, .offset = 2, .sizes = {2}, .strides = {1}};
  const Stored other{.storage = 2, .sizes = {4}, .strides = {1}};
  const Stored as_integers{.dtype = DType::kI32, .storage = 1, .sizes = {4}, .strides = {1}};
  const auto trace = settle({other, whole, again, part, as_integers}, {1, 2, 3, 0, 4, 1});
  EXPECT_THAT(test::rows(trace.ops.payload),
              testing::ElementsAre(-1, 0, 0, 1, 2, 3, 0, 0));  // the output has its parent's
  EXPECT_THAT(test::rows(trace.payloads.first_op), testing::ElementsAre(1, 3, 4, 5));
  EXPECT_THAT(test::rows(trace.payloads.bytes), testing::ElementsAre(16, 8, 16, 16));
  ASSERT_EQ(trace.payload_source->size(), 4U);
  EXPECT_EQ(trace.payload_source->facts(PayloadId{0}).storage, 1U);
  EXPECT_EQ(trace.payload_source->facts(PayloadId{1}).offset, 2);
  EXPECT_EQ(trace.payload_source->facts(PayloadId{2}).storage, 2U);
  EXPECT_EQ(trace.payload_source->facts(PayloadId{3}).dtype, DType::kI32);
}

TEST(SettlePayloads, TensorsWithoutStorageNumberAreKeptApart) {
  const Stored unknown{.storage = 0, .sizes = {4}, .strides = {1}};
  const Stored sparse{.kind = TensorKind::kSparse, .storage = 7, .sizes = {4}, .strides = {}};
  const auto trace = settle({unknown, unknown, sparse, sparse}, {0, 1, 2, 3, 3});
  EXPECT_THAT(test::rows(trace.ops.payload), testing::ElementsAre(-1, 0, 1, 2, 3, 3, 3));
}

TEST(SettlePayloads, ALazilyConjugatedViewIsAnotherValue) {
  const Stored plain{.dtype = DType::kC64, .storage = 5, .sizes = {4}, .strides = {1}};
  auto conjugated = plain;
  conjugated.conjugate = true;
  const auto trace = settle({plain, conjugated}, {0, 1});
  EXPECT_THAT(test::rows(trace.ops.payload), testing::ElementsAre(-1, 0, 1, 1));
}

TEST(SettlePayloads, UninitialisedMemoryIsNoAliasOfWhatFillsIt) {
  const Stored memory{.storage = 5, .sizes = {4}, .strides = {1}};
  const auto trace = settle({memory, memory}, {0, 1}, kOpUninitialised);
  EXPECT_THAT(test::rows(trace.payloads.encoding), testing::ElementsAre(0, 5));
}

TEST(SettlePayloads, OrphansTakeNothingWithThem) {
  auto capture = test::capture_from_text(
      "trace 1\nmodule self\ncontext c0 module=self\ninstruction i func_name=neg layer_type=neg\n"
      "call self:1 first_op=a end_op=end\nop a input out=f32[4] address=input.x payload=#1\nop island i out=f32[4] "
      "payload=#0\n");
  capture.payloads = std::make_shared<FakeStore>(
      std::vector<Stored>{{.storage = 1, .sizes = {4}, .strides = {1}}, {.storage = 2, .sizes = {4}, .strides = {1}}});
  const auto trace = run_pipeline(std::move(capture));
  ASSERT_EQ(trace.payload_source->size(), 1U);
  EXPECT_EQ(trace.payload_source->facts(PayloadId{0}).storage, 2U);
}

// torch: x = randn(3, 4): x.t(), x[::2], x[:, 1:3] hold distinct elements, however they lie.
TEST(PayloadEncoding, DistinctElementsAreDense) {
  EXPECT_EQ(encoding({.storage = 1, .sizes = {3, 4}, .strides = {4, 1}}), PayloadEncoding::kDense);
  EXPECT_EQ(encoding({.storage = 1, .sizes = {4, 3}, .strides = {1, 4}}), PayloadEncoding::kDense);
  EXPECT_EQ(encoding({.storage = 1, .sizes = {2, 4}, .strides = {8, 1}}), PayloadEncoding::kDense);
  EXPECT_EQ(encoding({.storage = 1, .offset = 1, .sizes = {3, 2}, .strides = {4, 1}}), PayloadEncoding::kDense);
  EXPECT_EQ(encoding({.storage = 1, .sizes = {}, .strides = {}}), PayloadEncoding::kDense);
  EXPECT_EQ(encoding({.storage = 1, .sizes = {1, 1}, .strides = {0, 0}}), PayloadEncoding::kDense);
  EXPECT_EQ(encoding({.storage = 1, .sizes = {0, 5}, .strides = {0, 0}}), PayloadEncoding::kDense);
}

// x.expand(5, 3, 4); randn(10).unfold(0, 4, 1) and as_strided((3, 3), (1, 1)): elements share memory.
TEST(PayloadEncoding, SharedElementsAreAWindow) {
  EXPECT_EQ(encoding({.storage = 1, .sizes = {5, 3, 4}, .strides = {0, 4, 1}}), PayloadEncoding::kWindow);
  EXPECT_EQ(encoding({.storage = 1, .sizes = {7, 4}, .strides = {1, 1}}), PayloadEncoding::kWindow);
  EXPECT_EQ(encoding({.storage = 1, .sizes = {3, 3}, .strides = {1, 1}}), PayloadEncoding::kWindow);
}

// randn(3, 100)[:, :1].expand(3, 4): the block from the first to the last element is 201 elements, the value 12.
TEST(PayloadEncoding, AWindowLargerThanTheValueIsDense) {
  EXPECT_EQ(encoding({.storage = 1, .sizes = {3, 4}, .strides = {100, 0}}), PayloadEncoding::kDense);
}

TEST(PayloadEncoding, KindsAndTypes) {
  EXPECT_EQ(
      encoding({.kind = TensorKind::kQuantised, .dtype = DType::kQI8, .storage = 1, .sizes = {4}, .strides = {1}}),
      PayloadEncoding::kQuantised);
  EXPECT_EQ(encoding({.kind = TensorKind::kSparse, .storage = 1, .sizes = {4}, .strides = {}}),
            PayloadEncoding::kSparse);
  EXPECT_EQ(encoding({.kind = TensorKind::kOpaque, .storage = 1, .sizes = {4}, .strides = {}}),
            PayloadEncoding::kOpaque);
  EXPECT_EQ(encoding({.dtype = DType::kC128, .storage = 1, .sizes = {4}, .strides = {1}}), PayloadEncoding::kPairs);
  EXPECT_EQ(encoding({.storage = 1, .sizes = {4}, .strides = {1}}, kOpUninitialised), PayloadEncoding::kEmpty);
}

TEST(PayloadEncoding, HugeSizesDoNotOverflow) {
  const std::int64_t huge = std::int64_t{1} << 62;
  EXPECT_EQ(encoding({.storage = 1, .sizes = {huge, huge}, .strides = {0, 1}}), PayloadEncoding::kWindow);
  EXPECT_EQ(encoding({.storage = 1, .sizes = {3, 4}, .strides = {huge, huge}}), PayloadEncoding::kDense);
  EXPECT_EQ(encoding({.storage = 1, .sizes = {3, 4}, .strides = {huge, 1}}), PayloadEncoding::kDense);
}

// --- retain_payloads

TEST(RetainPayloads, KeepsRowsInTheOrderOfTheirFirstOp) {
  const Stored a{.storage = 1, .sizes = {4}, .strides = {1}};
  const Stored b{.storage = 2, .sizes = {4}, .strides = {1}};
  const Stored c{.storage = 3, .sizes = {4}, .strides = {1}};
  auto trace = settle({a, b, c}, {0, 1, 0, 2});  // Ops 1 to 4; the output has the last one's
  retain_payloads(trace, {true, false, true, true, true, true});
  EXPECT_THAT(test::rows(trace.ops.payload), testing::ElementsAre(-1, -1, 0, 1, 2, 2));
  EXPECT_THAT(test::rows(trace.payloads.first_op), testing::ElementsAre(2, 3, 4));
  EXPECT_EQ(trace.payload_source->facts(PayloadId{0}).storage, 2U);
  EXPECT_EQ(trace.payload_source->facts(PayloadId{1}).storage, 1U);
  retain_payloads(trace, {true, true, false, false, true, false});
  EXPECT_THAT(test::rows(trace.ops.payload), testing::ElementsAre(-1, -1, -1, -1, 0, -1));
  ASSERT_EQ(trace.payload_source->size(), 1U);
  EXPECT_EQ(trace.payload_source->facts(PayloadId{0}).storage, 3U);
  for (const auto& finding : check_invariants(trace)) ADD_FAILURE() << finding.check << ": " << finding.message;
}

TEST(SettlePayloads, AnOutputThatIsNoMoreWhatItsProducerMadeHasNone) {
  auto capture = test::capture_from_text(
      "trace 1\nmodule self\ncontext c0 module=self\ninstruction i func_name=neg layer_type=neg\n"
      "call self:1 first_op=#0 end_op=end\nop a input out=f32[4] address=input.x\n"
      "op b i out=f32[4] parents=a@0 payload=#0\nop c output out=f32[4] parents=b@0 address=output\n");
  capture.outputs[0].same_value = false;
  capture.outputs[0].payload = PayloadId::kNone;
  capture.payloads = std::make_shared<FakeStore>(std::vector<Stored>{{.storage = 1, .sizes = {4}, .strides = {1}}});
  const auto trace = run_pipeline(std::move(capture));
  EXPECT_THAT(test::rows(trace.ops.payload), testing::ElementsAre(-1, 0, -1));
}

TEST(Evidence, FollowsFromTheColumns) {
  const Stored whole{.storage = 1, .sizes = {4}, .strides = {1}};
  const Stored opaque{.kind = TensorKind::kOpaque, .sizes = {}, .strides = {}};
  auto trace = settle({whole, opaque}, {0, 1, -1});
  EXPECT_EQ(evidence_of(trace, OpId{1}), Evidence::kFull);
  EXPECT_EQ(evidence_of(trace, OpId{2}), Evidence::kShape);
  EXPECT_EQ(evidence_of(trace, OpId{3}, true), Evidence::kStatistics);
  std::swap(trace.ops.sample.rows()[1], trace.ops.payload.rows()[1]);
  EXPECT_EQ(evidence_of(trace, OpId{1}), Evidence::kSampled);
  try {
    static_cast<void>(saved_value(trace, OpId{1}));
    ADD_FAILURE() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kActivationNotSaved);
    EXPECT_THAT(error.message, testing::HasSubstr("neg_1_1:1 was not saved: the recording holds a sample of it"));
  }
  trace.payload_source.reset();  // records only
  EXPECT_EQ(evidence_of(trace, OpId{1}), Evidence::kShape);
}

}  // namespace
}  // namespace tl
