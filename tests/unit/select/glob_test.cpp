#include "select/glob.h"

#include <gtest/gtest.h>

#include <string>

namespace tl {
namespace {

// Expected values: Python's fnmatch.fnmatchcase.
TEST(Glob, MatchesAsFnmatch) {
  EXPECT_TRUE(glob_matches("blocks.*.attn", "blocks.0.attn"));
  EXPECT_TRUE(glob_matches("blocks.*.attn", "blocks.0.x.attn"));
  EXPECT_FALSE(glob_matches("blocks.*.attn", "blocks.attn"));
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("**a", "a"));
  EXPECT_TRUE(glob_matches("?", "x"));
  EXPECT_FALSE(glob_matches("?", ""));
  EXPECT_TRUE(glob_matches("conv[12]", "conv1"));
  EXPECT_FALSE(glob_matches("conv[12]", "conv3"));
  EXPECT_TRUE(glob_matches("conv[!12]", "conv3"));
  EXPECT_TRUE(glob_matches("conv[0-9]", "conv7"));
  EXPECT_TRUE(glob_matches("a[", "a["));
  EXPECT_TRUE(glob_matches("[]]", "]"));
  EXPECT_FALSE(glob_matches("relu", "relu_"));
  EXPECT_TRUE(glob_matches("*a*b*c", "xxaxbxbxc"));
  EXPECT_FALSE(glob_matches("*a*b*c", "xxaxbxbx"));
}

TEST(Glob, ManyStarsTakeNoExponentialTime) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "*a";
  EXPECT_FALSE(glob_matches(pattern + "b", std::string(5000, 'a')));
}

}  // namespace
}  // namespace tl
