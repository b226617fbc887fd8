#include "tensor/decode.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "data_files.h"
#include "tensor/element.h"

namespace tl {
namespace {

using test::data_path;
using test::tensor_of;

class DecodeTest : public testing::TestWithParam<const char*> {};

/// The same bits, or NaN on both sides.
void expect_same(float value, float expected, std::size_t index) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(value)) << index;
  } else {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(expected)) << index << ": " << value;
  }
}

TEST_P(DecodeTest, NarrowFloatsEqualTorch) {
  const auto file = SafetensorsFile::open(data_path("decoded.safetensors"));
  const HostTensor codes = tensor_of(file, GetParam());
  const HostTensor expected = tensor_of(file, std::string(GetParam()) + ".f32");
  const auto count = static_cast<std::size_t>(codes.numel());
  ASSERT_GE(count, 256U);
  std::vector<float> floats(count);
  std::vector<double> doubles(count);
  decode_floats(codes.dtype, codes.storage, floats);
  decode_doubles(codes.dtype, codes.storage, doubles);
  for (std::size_t i = 0; i < count; ++i) {
    float value = 0;
    std::memcpy(&value, expected.storage.data() + 4 * i, 4);
    expect_same(floats[i], value, i);
    expect_same(static_cast<float>(doubles[i]), value, i);
  }
}

INSTANTIATE_TEST_SUITE_P(NarrowFloats, DecodeTest,
                         testing::Values("e5m2", "e4m3", "e5m2fnuz", "e4m3fnuz", "e8m0", "f16", "bf16"));

template <typename T>
HostTensor tensor_from(DType dtype, std::vector<T> values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  const auto elements = static_cast<std::int64_t>(bytes.size() / item_bytes(dtype));
  return make_host_tensor(dtype, {elements}, std::move(bytes));
}

TEST(ElementTest, IntegersKeepTheirDigits) {
  const HostTensor wide = tensor_from<std::int64_t>(DType::kI64, {INT64_MIN, INT64_MAX, (1LL << 53) + 1});
  EXPECT_EQ(format_element(wide, 0), "-9223372036854775808");
  EXPECT_EQ(format_element(wide, 1), "9223372036854775807");
  EXPECT_EQ(format_element(wide, 2), "9007199254740993");
  EXPECT_EQ(element_as_double(wide, 0), -0x1p63);
  EXPECT_EQ(format_element(tensor_from<std::uint64_t>(DType::kU64, {UINT64_MAX}), 0), "18446744073709551615");
  EXPECT_EQ(format_element(tensor_from<std::int8_t>(DType::kQI8, {-7}), 0), "-7");
  EXPECT_EQ(element_as_double(tensor_from<std::uint32_t>(DType::kU32, {UINT32_MAX}), 0), 4294967295.0);
}

TEST(ElementTest, FloatsComplexAndBool) {
  const HostTensor floats = tensor_from<float>(DType::kF32, {1.0F / 3, NAN, -INFINITY, 1e10F, 2});
  EXPECT_EQ(format_element(floats, 0), "0.333333");
  EXPECT_EQ(format_element(floats, 1), "nan");
  EXPECT_EQ(format_element(floats, 2), "-inf");
  EXPECT_EQ(format_element(floats, 3), "1e+10");
  EXPECT_EQ(format_element(floats, 4), "2");
  const HostTensor complex = tensor_from<double>(DType::kC128, {3, -4, 0, 1});
  EXPECT_EQ(format_element(complex, 0), "3-4j");
  EXPECT_EQ(format_element(complex, 1), "0+1j");
  EXPECT_EQ(element_as_double(complex, 0), 5);
  const HostTensor half = tensor_from<std::uint16_t>(DType::kC32, {0x4200, 0xC400});  // 3 and -4 in IEEE half
  EXPECT_EQ(format_element(half, 0), "3-4j");
  EXPECT_EQ(element_as_double(half, 0), 5);
  const HostTensor bools = tensor_from<std::uint8_t>(DType::kBool, {0, 1, 255});
  EXPECT_EQ(format_element(bools, 0), "false");
  EXPECT_EQ(format_element(bools, 2), "true");
  EXPECT_EQ(element_as_double(bools, 2), 1);
}

TEST(ElementTest, ComplexMagnitudesLikeHypot) {
  const HostTensor values = tensor_from<float>(DType::kC64, {INFINITY, NAN, NAN, 1, 3e38F, 3e38F});
  EXPECT_TRUE(std::isinf(element_as_double(values, 0)));
  EXPECT_TRUE(std::isnan(element_as_double(values, 1)));
  EXPECT_NEAR(element_as_double(values, 2) / (std::sqrt(2.0) * static_cast<double>(3e38F)), 1, 1e-15);
}

TEST(ElementTest, RowMajorIndexOfAStridedTensor) {
  HostTensor tensor = tensor_from<float>(DType::kF32, {0, 1, 2, 3, 4, 5});
  tensor.sizes = {2, 3};
  tensor.strides = {1, 2};
  EXPECT_EQ(element_as_double(tensor, 1), 2);
  EXPECT_EQ(element_as_double(tensor, 3), 1);
}

}  // namespace
}  // namespace tl
