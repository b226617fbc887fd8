#include "core/digest.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace tl {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// Expected values: python-xxhash 3.x, xxhash.xxh3_128_hexdigest.
TEST(Digest, KnownValues) {
  EXPECT_EQ(digest_hex({}), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(digest_hex(bytes_of("a")), "a96faf705af16834e6c632b61e964e1f");
  EXPECT_EQ(digest_hex(bytes_of("abc")), "06b05ab6733a618578af5f94892f3950");
}

TEST(Digest, PiecesGiveTheSameAsTheWhole) {
  const std::string text(100000, 'x');
  Digester digester;
  EXPECT_EQ(digester.hex(), digest_hex({}));
  for (std::size_t at = 0; at < text.size(); at += 777)
    digester.update(bytes_of(std::string_view(text).substr(at, 777)));
  EXPECT_EQ(digester.hex(), digest_hex(bytes_of(text)));
}

}  // namespace
}  // namespace tl
