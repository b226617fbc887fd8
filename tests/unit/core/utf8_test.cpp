#include "core/utf8.h"

#include <gtest/gtest.h>

namespace tl {
namespace {

TEST(Utf8, DecodesEachLength) {
  EXPECT_EQ(decode_utf8("A").value, 0x41U);
  EXPECT_EQ(decode_utf8("é").value, 0xE9U);
  EXPECT_EQ(decode_utf8("漢").value, 0x6F22U);
  const CodePoint face = decode_utf8("🙂");
  EXPECT_EQ(face.value, 0x1F642U);
  EXPECT_EQ(face.bytes, 4U);
  EXPECT_TRUE(face.valid);
}

TEST(Utf8, RefusesWhatTheStandardForbids) {
  EXPECT_FALSE(is_utf8("\xc0\xaf"));          // overlong slash
  EXPECT_FALSE(is_utf8("\xe0\x80\xaf"));      // overlong, three bytes
  EXPECT_FALSE(is_utf8("\xed\xbf\xbf"));      // surrogate
  EXPECT_FALSE(is_utf8("\xf4\x90\x80\x80"));  // above U+10FFFF
  EXPECT_FALSE(is_utf8("\x80"));              // continuation first
  EXPECT_FALSE(is_utf8("\xe6\xbc"));          // truncated
  EXPECT_TRUE(is_utf8("\xf4\x8f\xbf\xbf"));   // U+10FFFF
  EXPECT_EQ(decode_utf8("\xe6\xbc").bytes, 1U);
}

}  // namespace
}  // namespace tl
