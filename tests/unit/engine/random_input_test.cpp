#include "engine/random_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/error.h"
#include "tensor/statistics.h"

namespace tl {
namespace {

template <typename T>
std::vector<T> values(const HostTensor& tensor) {
  std::vector<T> result(static_cast<std::size_t>(tensor.numel()));
  std::memcpy(result.data(), tensor.storage.data(), result.size() * sizeof(T));
  return result;
}

HostTensor made(const std::string& spec, std::uint64_t seed) {
  return make_random_tensor(parse_random_spec(spec), seed);
}

// Expected values: xoshiro256++, splitmix64 and FNV-1a written again in Python from their published descriptions; the
// roundings to half precision by torch.
TEST(RandomInput, KnownValues) {
  const auto x = values<double>(made("x:f64[6]", 7));
  const double expected[] = {1.2434292895446146, -0.5032639450246745, -1.0089092730633569,
                             1.6137658179625207, 0.9203950930086412,  0.4568150968639372};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(x[i], expected[i], 1e-14) << i;
  EXPECT_THAT(values<std::int64_t>(made("ids:i64[8]<100", 7)), testing::ElementsAre(23, 62, 99, 50, 23, 9, 94, 99));
  EXPECT_THAT(values<std::uint8_t>(made("mask:bool[8]", 0)), testing::ElementsAre(0, 0, 0, 0, 0, 0, 0, 1));
  EXPECT_THAT(values<std::uint16_t>(made("h:f16[6]", 7)),
              testing::ElementsAre(0x4000, 0xc0b5, 0xb5fa, 0xb90a, 0xb131, 0x3dd3));
  EXPECT_THAT(values<std::uint16_t>(made("h:bf16[6]", 7)),
              testing::ElementsAre(0x4000, 0xc017, 0xbebf, 0xbf21, 0xbe26, 0x3fba));
}

TEST(RandomInput, SameSeedSameBytesOtherNameOtherBytes) {
  EXPECT_EQ(values<float>(made("x:f32[50]", 3)), values<float>(made("x:f32[50]", 3)));
  EXPECT_NE(values<float>(made("x:f32[50]", 3)), values<float>(made("x:f32[50]", 4)));
  EXPECT_NE(values<float>(made("x:f32[50]", 3)), values<float>(made("y:f32[50]", 3)));
}

TEST(RandomInput, MomentsOfTheNormal) {
  const auto stats = compute_stats(made("x:f32[100000]", 1));
  EXPECT_NEAR(stats.mean(), 0, 4 / std::sqrt(100000.0));  // four standard errors
  EXPECT_NEAR(stats.stddev(), 1, 4 / std::sqrt(200000.0));
  EXPECT_EQ(stats.finite(), 100000);
}

TEST(RandomInput, IntegersStayBelowTheirBound) {
  const auto small = compute_stats(made("x:i8[1000]", 1));
  EXPECT_EQ(small.min, 0);
  EXPECT_EQ(small.max, kDefaultIntegerBound - 1);
  EXPECT_EQ(compute_stats(made("x:u8[5000]<256", 1)).max, 255);
  EXPECT_EQ(compute_stats(made("x:i32[10]<1", 1)).max, 0);
}

TEST(RandomInput, Specs) {
  const auto spec = parse_random_spec("batch.mask:f32[2, 3]");
  EXPECT_EQ(spec.name, "batch.mask");
  EXPECT_EQ(spec.dtype, DType::kF32);
  EXPECT_THAT(spec.sizes, testing::ElementsAre(2, 3));
  EXPECT_TRUE(parse_random_spec("x:float32[]").sizes.empty());
  EXPECT_EQ(made("x:f32[0,3]", 1).numel(), 0);
}

TEST(RandomInput, BadSpecsAreUsageErrors) {
  for (const auto* text :
       {"x", "x:f32", "f32[2]", ":f32[2]", "x:f99[2]", "x:f32[2", "x:f32[a]", "x:f32[-1]", "x:f32[1,]", "x:f32[2]<3",
        "x:i8[2]<0", "x:i8[2]<129", "x:i64[2]>3", "x:i64[2]<9999999999999999999"}) {
    try {
      parse_random_spec(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code, ErrorCode::kUsage) << text;
      EXPECT_THAT(error.hint, testing::HasSubstr("x:f32[2,3]"));
    }
  }
  EXPECT_THROW(made("x:f32[100000000,100000000,100000000]", 1), Error);
  EXPECT_THROW(made("x:qi8[2]", 1), Error);
}

}  // namespace
}  // namespace tl
