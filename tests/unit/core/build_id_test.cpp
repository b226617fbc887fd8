#include "core/build_id.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

namespace tl {
namespace {

TEST(BuildId, Is32HexDigits) {
  const std::string_view id = build_id();
  EXPECT_EQ(id.size(), 32U);
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string_view::npos);
}

TEST(BuildId, VersionHasThreeNumbers) {
  const std::string_view text = version();
  EXPECT_EQ(std::count(text.begin(), text.end(), '.'), 2) << text;
}

}  // namespace
}  // namespace tl
