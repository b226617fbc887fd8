#include "engine/stated_inputs.h"

#include <gtest/gtest.h>

#include <fstream>

#include "signature_text.h"
#include "support/temp_directory.h"

namespace tl {
namespace {

namespace fs = std::filesystem;

// zoo/zoo.json: smallconv was traced with f32[2,3,16,16].
TEST(StatedInputs, OfATrace) {
  const auto path = fs::path(TL_SHARED_DIR) / "zoo/smallconv.trace.pt";
  if (!fs::exists(path)) GTEST_SKIP() << "no reference files beside the project";
  const auto stated = read_stated_inputs(path, test::signature_from_text("forward(Tensor x)"));
  ASSERT_EQ(stated.size(), 1U);
  EXPECT_EQ(stated[0].path, "x");
  EXPECT_EQ(stated[0].dtype, DType::kF32);
  EXPECT_EQ(stated[0].sizes, (std::vector<std::int64_t>{2, 3, 16, 16}));
  EXPECT_TRUE(read_stated_inputs(path, test::signature_from_text("forward(Tensor x, Tensor y)")).empty());
}

TEST(StatedInputs, NothingOfScriptsAndOtherFiles) {
  const TempDirectory directory;
  const auto signature = test::signature_from_text("forward(Tensor x)");
  std::ofstream(directory / "a.pt") << "PK\x03\x04 damaged";
  EXPECT_TRUE(read_stated_inputs(directory / "a.pt", signature).empty());
  EXPECT_TRUE(read_stated_inputs(directory / "missing.pt", signature).empty());
  const auto script = fs::path(TL_SHARED_DIR) / "zoo/smallconv.ts.pt";
  if (fs::exists(script)) {
    EXPECT_TRUE(read_stated_inputs(script, signature).empty());
  }
}

}  // namespace
}  // namespace tl
