#include "engine/known_operators.h"

#include <gmock/gmock.h>

#include <fstream>

#include "engine/registry.h"
#include "support/temp_directory.h"

namespace tl {
namespace {

KnownOperators sample() { return {"LibTorch 2.13.0", {"aten::add", "aten::relu"}, {"__torch__.torch.classes.a.B"}}; }

TEST(KnownOperators, ComeBackFromTheirText) {
  const auto text = format_known_operators(sample());
  EXPECT_EQ(text,
            "torchlens operators 1\nengine LibTorch 2.13.0\nop aten::add\nop aten::relu\n"
            "class __torch__.torch.classes.a.B\n");
  const auto known = parse_known_operators(text);
  ASSERT_TRUE(known);
  EXPECT_EQ(known->engine, "LibTorch 2.13.0");
  EXPECT_TRUE(known->has_operator("aten::relu"));
  EXPECT_FALSE(known->has_operator("aten::rel"));
  EXPECT_TRUE(known->has_class("__torch__.torch.classes.a.B"));
  EXPECT_FALSE(known->has_class("aten::relu"));
}

TEST(KnownOperators, OfAnotherVersionOrNoneAreUnknown) {
  EXPECT_FALSE(parse_known_operators(""));
  EXPECT_FALSE(parse_known_operators("torchlens operators 2\nop aten::add\n"));
  EXPECT_FALSE(parse_known_operators("torchlens operators 1\n"));
  EXPECT_TRUE(parse_known_operators("torchlens operators 1\nop b\nop a")->has_operator("a"));
}

TEST(KnownOperators, LieBesideThePlugin) {
  const TempDirectory dir;
  EXPECT_FALSE(read_known_operators(dir.path())) << "no plugin";
  std::ofstream(dir / kOperatorListFileName) << format_known_operators(sample());
  EXPECT_FALSE(read_known_operators(dir.path())) << "a list without its plugin is stale";
  std::ofstream(dir / kEngineFileName) << "plugin";
  ASSERT_TRUE(read_known_operators(dir.path()));
  std::filesystem::remove(dir / kOperatorListFileName);
  EXPECT_FALSE(read_known_operators(dir.path())) << "no list";
}

}  // namespace
}  // namespace tl
