#include "archive/model_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tensor/element.h"
#include "test_files.h"

namespace tl {
namespace {

std::filesystem::path model(const std::string& name) {
  return std::filesystem::path(TL_SOURCE_DIR) / "tests/models" / name;
}

std::vector<double> elements(const HostTensor& tensor) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < tensor.numel(); ++i) values.push_back(element_as_double(tensor, i));
  return values;
}

// make_linear.py: Sequential(Linear(3, 2), ReLU); values as torch prints them.
TEST(ModelWeights, OfScriptsAndExportedProgramsByAddress) {
  for (const auto* name : {"linear.ts.pt", "linear.pt2"}) {
    const auto weights = read_model_weights(model(name));
    const auto weight = weights->find("0.weight");
    ASSERT_TRUE(weight) << name;
    EXPECT_THAT(weight->tensor.sizes, testing::ElementsAre(2, 3));
    EXPECT_FLOAT_EQ(elements(weight->tensor)[1], 0.3097158372402191F);
    EXPECT_FLOAT_EQ(elements(weights->find("0.bias")->tensor)[0], -0.011439144611358643F);
    EXPECT_TRUE(weights->quantised().empty());
    for (const auto* none : {"", "0", "0.weight.x", "1.weight", "weight", "CONSTANTS.c7", "0..weight"}) {
      EXPECT_FALSE(weights->find(none)) << name << " " << none;
    }
  }
}

TEST(ModelWeights, PackedOnesWithTheirQuantisers) {
  const auto weights = read_model_weights(model("linear.quantised.ts.pt"));
  const std::string address = "0._packed_params._packed_params.0";
  EXPECT_THAT(weights->quantised(), testing::ElementsAre(address));
  const auto weight = weights->find(address);
  ASSERT_TRUE(weight && weight->quantiser);
  EXPECT_THAT(elements(weight->tensor), testing::ElementsAre(-1, 83, -127, -114, -60, 42));
  EXPECT_THAT(weight->quantiser->scales, testing::ElementsAre(testing::DoubleNear(0.003726943861693144, 1e-12)));
  EXPECT_EQ(weight->quantiser->axis, -1);
}

TEST(ModelWeights, RefusesWhatIsNoModel) {
  try {
    read_model_weights(model("linear.inputs.safetensors"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kNotAModel);
  }
}

}  // namespace
}  // namespace tl
