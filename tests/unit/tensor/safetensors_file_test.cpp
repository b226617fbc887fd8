#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data_files.h"
#include "tensor/element.h"
#include "tensor/safetensors.h"

namespace tl {
namespace {

using test::data_path;
using test::tensor_of;
using testing::ElementsAre;
using testing::Pair;

TEST(SafetensorsFileTest, ReadsWhatPythonWrote) {
  const auto file = SafetensorsFile::open(data_path("dtypes.safetensors"));
  EXPECT_EQ(file.entries().size(), 21U);
  EXPECT_THAT(file.metadata(), ElementsAre(Pair("format", "pt"), Pair("note", "quote \" and ümlaut")));
  const auto element = [&](const char* name, std::int64_t index) {
    return format_element(tensor_of(file, name), index);
  };
  EXPECT_EQ(element("bool", 0), "true");
  EXPECT_EQ(element("u8", 1), "255");
  EXPECT_EQ(element("i8", 0), "-128");
  EXPECT_EQ(element("i16", 0), "-32768");
  EXPECT_EQ(element("u16", 1), "65535");
  EXPECT_EQ(element("i32", 1), "2147483647");
  EXPECT_EQ(element("u32", 1), "4294967295");
  EXPECT_EQ(element("i64", 0), "-9223372036854775808");
  EXPECT_EQ(element("u64", 1), "18446744073709551615");
  EXPECT_EQ(element("f16", 1), "-0.25");
  EXPECT_EQ(element("bf16", 1), "-3");
  EXPECT_EQ(element("f32", 5), "2.5");
  EXPECT_EQ(element("f64", 0), "3.14159");
  EXPECT_EQ(element("c64", 0), "3-4j");
  EXPECT_EQ(element("scalar", 0), "7");
  EXPECT_EQ(tensor_of(file, "f8_e4m3").dtype, DType::kF8E4M3);
  EXPECT_EQ(tensor_of(file, "f8_e8m0").dtype, DType::kF8E8M0);
}

TEST(SafetensorsFileTest, Shapes) {
  const auto file = SafetensorsFile::open(data_path("dtypes.safetensors"));
  EXPECT_THAT(tensor_of(file, "f32").sizes, ElementsAre(2, 3));
  EXPECT_THAT(tensor_of(file, "f32").strides, ElementsAre(3, 1));
  EXPECT_TRUE(tensor_of(file, "scalar").sizes.empty());
  EXPECT_THAT(tensor_of(file, "empty").sizes, ElementsAre(0, 4));
  EXPECT_FALSE(file.tensor("f3").has_value());
  EXPECT_EQ(file.find("__metadata__"), nullptr);
}

TEST(SafetensorsFileTest, TensorsOutliveTheFile) {
  HostTensor tensor;
  {
    auto file = SafetensorsFile::open(data_path("dtypes.safetensors"));
    const SafetensorsFile moved = std::move(file);
    EXPECT_NE(moved.find("f32"), nullptr);
    tensor = tensor_of(moved, "f32");
  }
  EXPECT_EQ(element_as_double(tensor, 0), -2.5);
}

// The keys and shapes of every file that the safetensors library wrote for the zoo can be read.
TEST(SafetensorsFileTest, OpensTheReferenceFiles) {
  const std::filesystem::path zoo = std::filesystem::path(TL_SHARED_DIR) / "zoo";
  if (!std::filesystem::is_directory(zoo)) GTEST_SKIP() << "no reference files at " << zoo;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(zoo)) {
    if (entry.path().extension() != ".safetensors") continue;
    EXPECT_NO_THROW(SafetensorsFile::open(entry.path())) << entry.path();
    ++files;
  }
  EXPECT_GT(files, 50);
}

}  // namespace
}  // namespace tl
