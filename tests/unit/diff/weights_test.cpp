#include "diff/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "core/digest.h"
#include "diff_fixtures.h"

namespace tl {
namespace {

using test::diff_of;
using test::tensor_of;
using test::trace_of;

class Weights final : public WeightSource {
 public:
  std::optional<WeightValue> find(std::string_view address) const override {
    asked = true;
    const auto found = values.find(std::string(address));
    return found == values.end() ? std::nullopt : std::optional(found->second);
  }
  std::vector<std::string> quantised() const override {
    asked = true;
    std::vector<std::string> addresses;
    for (const auto& [address, value] : values) {
      if (value.quantiser) addresses.push_back(address);
    }
    return addresses;
  }

  std::map<std::string, WeightValue> values;
  mutable bool asked = false;
};

std::string digest_of(const HostTensor& tensor) { return digest_hex(tensor.storage); }

const std::vector<float> kValues = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
const std::vector<float> kMoved = {1, 2, 3, 4, 9, 10, 11, 12, 5, 6, 7, 8, 13, 14, 15, 16};

HostTensor weight(const std::vector<float>& values) { return tensor_of(DType::kF32, {4, 4}, values); }

/// x, a linear layer that reads fc.weight of that digest, its result cut into four heads of one row.
std::string linear(const std::string& digest, const std::string& op = "aten::linear") {
  return "module self\nmodule fc class_name=Linear parent=self\ncontext c0 module=self\ncontext c1 module=fc "
         "parent=c0\n"
         "instruction " +
         op +
         " func_name=linear layer_type=linear arg_template=\"input=%0, weight=%1\"\n"
         "instruction view func_name=view layer_type=view\n"
         "param fc.weight module=fc dtype=f32 shape=[4,4] bytes=64 digest=" +
         digest +
         "\ncall self:1 first_op=x end_op=end\ncall fc:1 parent_call=self:1 first_op=l end_op=v output_op=l\n"
         "op x input out=f32[2,4] address=input.x\n"
         "op l " +
         op +
         " out=f32[2,4] parents=x@0 params=fc.weight@1 call=fc:1 context=c1\n"
         "op v view out=f32[2,2,2] parents=l@0\nop y output out=f32[2,2,2] parents=v@0 address=output\n";
}

DiffReport compare(const std::string& reference, const std::string& subject, const Weights& ours,
                   const Weights& theirs) {
  DiffOptions options;
  options.values = false;
  options.weights = {&ours, &theirs};
  return diff_of(trace_of(reference), trace_of(subject), options);
}

const Precondition& weights_of(const DiffReport& report) {
  for (const auto& condition : report.preconditions) {
    if (condition.name == "weights") return condition;
  }
  throw std::logic_error("no weights");
}

TEST(Weights, SayThatHeadsAreInAnotherOrder) {
  // Two heads of two rows: exchanged whole.
  const std::vector<float> exchanged = {9, 10, 11, 12, 13, 14, 15, 16, 1, 2, 3, 4, 5, 6, 7, 8};
  Weights ours;
  ours.values["fc.weight"] = {weight(kValues)};
  Weights theirs;
  theirs.values["fc.weight"] = {weight(exchanged)};
  const auto report = compare(linear(digest_of(weight(kValues))), linear(digest_of(weight(exchanged))), ours, theirs);
  ASSERT_EQ(report.weights.size(), 1U);
  EXPECT_EQ(report.weights[0].reference, "fc.weight");
  EXPECT_EQ(report.weights[0].text, "heads of 2 rows in another order: 1 0");
  EXPECT_THAT(weights_of(report).details, testing::ElementsAre("fc.weight: heads of 2 rows in another order: 1 0"));
  ASSERT_EQ(report.sites[1].arguments.size(), 1U);
  EXPECT_THAT(report.sites[1].arguments[0].subject, testing::EndsWith("(heads of 2 rows in another order: 1 0)"));
}

TEST(Weights, AreNotAskedForWhereNothingDiffers) {
  const Weights ours;
  const Weights theirs;
  const auto text = linear(digest_of(weight(kValues)));
  EXPECT_TRUE(compare(text, text, ours, theirs).weights.empty());
  EXPECT_FALSE(ours.asked || theirs.asked);
}

TEST(Weights, OfAnotherFileAreNotBelieved) {
  Weights ours;
  ours.values["fc.weight"] = {weight(kMoved)};  // the recording was made of other values
  Weights theirs;
  theirs.values["fc.weight"] = {weight(kMoved)};
  const auto report = compare(linear(digest_of(weight(kValues))), linear(digest_of(weight(kMoved))), ours, theirs);
  EXPECT_TRUE(report.weights.empty());
  EXPECT_THAT(weights_of(report).details, testing::ElementsAre("fc.weight: contents differ"));
}

TEST(Weights, PackedOnesAreComparedByWhatTheyStandFor) {
  // 0.5 per step: 1 .. 8 are exact, but for one that is a step off: SQNR = 10 log10(Σ r² / 0.25).
  std::vector<std::int8_t> steps;
  double signal = 0;
  for (const auto value : kValues) {
    steps.push_back(static_cast<std::int8_t>(value * 2));
    signal += value * value;
  }
  ++steps[3];
  Weights ours;
  ours.values["fc.weight"] = {weight(kValues)};
  Weights theirs;
  theirs.values["fc._packed_params._packed_params.0"] = {tensor_of(DType::kI8, {4, 4}, steps),
                                                         Quantiser{{0.5}, {0}, -1}};
  auto packed = linear("d", "quantized::linear");
  packed.erase(packed.find("param fc.weight"), packed.find("call self") - packed.find("param fc.weight"));
  packed.erase(packed.find(" params=fc.weight@1"), std::string(" params=fc.weight@1").size());
  const auto report = compare(linear(digest_of(weight(kValues))), packed, ours, theirs);
  ASSERT_EQ(report.weights.size(), 1U);
  EXPECT_EQ(report.weights[0].relation, WeightRelation::kQuantised);
  EXPECT_NEAR(report.weights[0].sqnr_db, 10 * std::log10(signal / 0.25), 1e-9);
  EXPECT_EQ(weights_of(report).agreement, Agreement::kDifferent);
}

TEST(Weights, DequantisedOnesAreComparedWithTheParameter) {
  auto close = kValues;
  close[0] += 0.5F;
  Weights ours;
  ours.values["fc.weight"] = {weight(kValues)};
  const Weights theirs;
  auto text = linear("d");
  text.insert(text.find("instruction view"),
              "instruction dq func_name=dequantize_per_tensor layer_type=dequantizepertensor\n");
  text.insert(text.find("op x input"), "op q dq out=f32[4,4]\n");
  text.replace(text.find("parents=x@0 params=fc.weight@1"), 30, "parents=x@0,q@1");
  text.replace(text.find("first_op=x"), 10, "first_op=q");
  text.erase(text.find("param fc.weight"), text.find("call self") - text.find("param fc.weight"));
  const auto zeros = [](const std::vector<std::int64_t>& sizes) {
    return tensor_of(DType::kF32, sizes, std::vector<float>(8, 0.0F));
  };
  const auto reference = trace_of(linear(digest_of(weight(kValues))), {zeros({2, 4}), zeros({2, 4})});
  const auto subject = trace_of(text, {weight(close), zeros({2, 4}), zeros({2, 4})});
  DiffOptions options;
  options.weights = {&ours, &theirs};
  const auto report = diff_of(reference, subject, options);
  ASSERT_EQ(report.weights.size(), 1U);
  EXPECT_EQ(report.weights[0].relation, WeightRelation::kQuantised);
  EXPECT_NEAR(report.weights[0].sqnr_db, 10 * std::log10(1496 / 0.25), 1e-9);  // Σ i², i = 1 .. 16, is 1496
}

}  // namespace
}  // namespace tl
