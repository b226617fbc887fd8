#include "tensor/nonfinite.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

namespace tl {
namespace {

template <typename T>
HostTensor tensor_of(DType dtype, std::vector<std::int64_t> sizes, const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return make_host_tensor(dtype, std::move(sizes), std::move(bytes));
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(NonFinite, CountsByKindAndFindsTheFirst) {
  const auto found = find_nonfinite(tensor_of<float>(DType::kF32, {2, 4}, {1, -kInf, 0, kNan, kInf, kNan, -kInf, 2}));
  EXPECT_EQ(found.nan, 2);
  EXPECT_EQ(found.posinf, 1);
  EXPECT_EQ(found.neginf, 2);
  EXPECT_EQ(found.first, 3);  // the mask before it is not what is looked for
  EXPECT_FALSE(found.only_neginf());
}

TEST(NonFinite, MasksAreToldApart) {
  const auto mask = tensor_of<float>(DType::kF32, {3}, {0, -kInf, 0});
  EXPECT_TRUE(holds_nonfinite(mask));
  EXPECT_TRUE(find_nonfinite(mask).only_neginf());
  EXPECT_EQ(find_nonfinite(mask).first, 1);
}

TEST(NonFinite, OfOtherTypesAndLayouts) {
  EXPECT_FALSE(holds_nonfinite(tensor_of<float>(DType::kF32, {2}, {1, 2})));
  EXPECT_EQ(find_nonfinite(tensor_of<float>(DType::kF32, {0}, {})).first, -1);
  EXPECT_EQ(find_nonfinite(tensor_of<std::uint16_t>(DType::kF16, {2}, {0x7c00, 0x3c00})).posinf, 1);  // inf, 1
  EXPECT_EQ(find_nonfinite(tensor_of<std::uint16_t>(DType::kBF16, {2}, {0x3f80, 0x7fc0})).nan, 1);    // 1, NaN
  EXPECT_FALSE(holds_nonfinite(tensor_of<std::int32_t>(DType::kI32, {1}, {0x7f800000})));
  auto column =
      tensor_of<float>(DType::kF32, {2, 2}, {1, kNan, 2, 3});  // the first column of a 2 by 2 matrix is finite
  column.sizes = {2};
  column.strides = {2};
  EXPECT_FALSE(holds_nonfinite(column));
  column.offset = 1;
  EXPECT_EQ(find_nonfinite(column).first, 0);
}

}  // namespace
}  // namespace tl
