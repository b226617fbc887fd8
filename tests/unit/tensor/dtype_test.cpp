#include "tensor/dtype.h"

#include <gtest/gtest.h>

namespace tl {
namespace {

// Numbers and sizes from torch/headeronly/core/ScalarType.h.
TEST(DTypeTest, NumbersAreThoseOfScalarType) {
  EXPECT_EQ(static_cast<int>(DType::kF32), 6);
  EXPECT_EQ(static_cast<int>(DType::kBF16), 15);
  EXPECT_EQ(static_cast<int>(DType::kF8E8M0), 44);
  EXPECT_EQ(item_bytes(DType::kC128), 16U);
  EXPECT_EQ(item_bytes(DType::kC32), 4U);
  EXPECT_EQ(item_bytes(DType::kBool), 1U);
  EXPECT_EQ(item_bytes(DType::kBits16), 2U);
}

TEST(DTypeTest, EveryNameLeadsBackToItsRow) {
  int rows = 0;
  for (int number = 0; number < 255; ++number) {
    const auto dtype = static_cast<DType>(number);
    const DTypeInfo& info = dtype_info(dtype);
    if (info.dtype == DType::kNone) continue;
    ++rows;
    EXPECT_EQ(info.dtype, dtype);
    EXPECT_GT(info.item_bytes, 0U);
    EXPECT_EQ(dtype_from_name(info.short_name), dtype) << info.short_name;
    EXPECT_EQ(dtype_from_name(info.torch_name), dtype) << info.torch_name;
    EXPECT_EQ(dtype_from_name("torch." + std::string(info.torch_name)), dtype);
    if (!info.safetensors_name.empty()) {
      EXPECT_EQ(dtype_from_name(info.safetensors_name), dtype);
    }
  }
  EXPECT_EQ(rows, 32);
}

TEST(DTypeTest, UnknownNumbersAndNames) {
  EXPECT_EQ(short_name(static_cast<DType>(30)), "none");
  EXPECT_EQ(item_bytes(DType::kNone), 0U);
  for (const char* name : {"", "torch.", "none", "F31", "torch.f32", "torch.F32", "FLOAT32", "f", "C128"}) {
    EXPECT_EQ(dtype_from_name(name), std::nullopt) << name;
  }
}

TEST(DTypeTest, Aliases) {
  EXPECT_EQ(dtype_from_name("half"), DType::kF16);
  EXPECT_EQ(dtype_from_name("torch.float"), DType::kF32);
  EXPECT_EQ(dtype_from_name("double"), DType::kF64);
  EXPECT_EQ(dtype_from_name("torch.long"), DType::kI64);
  EXPECT_EQ(dtype_from_name("int"), DType::kI32);
  EXPECT_EQ(dtype_from_name("short"), DType::kI16);
}

TEST(DTypeTest, Families) {
  EXPECT_TRUE(is_floating(DType::kBF16));
  EXPECT_TRUE(is_floating(DType::kF8E8M0));
  EXPECT_FALSE(is_floating(DType::kC64));
  EXPECT_FALSE(is_floating(DType::kI64));
  EXPECT_TRUE(is_complex(DType::kC32));
  EXPECT_FALSE(is_complex(DType::kF64));
  EXPECT_TRUE(is_quantised(DType::kQU4x2));
  EXPECT_FALSE(is_quantised(DType::kU8));
}

}  // namespace
}  // namespace tl
