#include "tensor/host_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "core/error.h"
#include "data_files.h"
#include "tensor/element.h"
#include "tensor/strided_copy.h"

namespace tl {
namespace {

using test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

/// Bytes 0, 1, 2, … (modulo 251), so that neighbouring elements of every width differ.
std::vector<std::byte> counting_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i % 251);
  return bytes;
}

/// The row-major elements by the definition: offset + Σ index × stride, one at a time.
std::vector<std::byte> elements_by_definition(const HostTensor& tensor) {
  const std::size_t item = item_bytes(tensor.dtype);
  std::vector<std::byte> out;
  std::vector<std::int64_t> index(tensor.sizes.size(), 0);
  for (std::int64_t left = tensor.numel(); left > 0; --left) {
    std::int64_t at = tensor.offset;
    for (std::size_t axis = 0; axis < index.size(); ++axis) at += index[axis] * tensor.strides[axis];
    const auto* element = tensor.storage.data() + static_cast<std::size_t>(at) * item;
    out.insert(out.end(), element, element + item);
    for (std::size_t axis = index.size(); axis-- > 0;) {
      if (++index[axis] < tensor.sizes[axis]) break;
      index[axis] = 0;
    }
  }
  return out;
}

std::vector<std::byte> bytes_of(const HostTensor& tensor) { return {tensor.storage.begin(), tensor.storage.end()}; }

/// A tensor with random sizes over permuted, sliced, stepped and expanded axes.
HostTensor random_tensor(std::mt19937& random, DType dtype) {
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  HostTensor tensor;
  tensor.dtype = dtype;
  const int rank = pick(0, 5);
  std::vector<std::size_t> order(static_cast<std::size_t>(rank));
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::shuffle(order, random);
  tensor.sizes.resize(order.size());
  tensor.strides.resize(order.size());
  std::int64_t stride = pick(0, 9) == 0 ? 2 : 1;
  for (const std::size_t axis : order) {
    const int limit = rank <= 2 ? 90 : 9;
    tensor.sizes[axis] = pick(0, 19) == 0 ? 0 : pick(1, limit);
    tensor.strides[axis] = pick(0, 9) == 0 ? 0 : stride;
    if (tensor.strides[axis] != 0) stride *= std::max<std::int64_t>(1, tensor.sizes[axis]) + (pick(0, 3) == 0 ? 1 : 0);
  }
  tensor.offset = pick(0, 3);
  const std::size_t elements = static_cast<std::size_t>(stride + tensor.offset);
  const auto block = std::make_shared<std::vector<std::byte>>(counting_bytes(elements * item_bytes(dtype)));
  tensor.storage = *block;
  tensor.owner = block;
  return tensor;
}

TEST(HostTensorTest, RandomLayoutsCopyByDefinition) {
  std::mt19937 random(20240607);
  int checked = 0;
  for (int round = 0; round < 1500; ++round) {
    const std::vector<DType> dtypes = {DType::kU8, DType::kF16, DType::kF32, DType::kC64, DType::kC128};
    const HostTensor tensor = random_tensor(random, dtypes[static_cast<std::size_t>(round) % dtypes.size()]);
    ASSERT_TRUE(fits_storage(tensor, tensor.storage.size()));
    const std::vector<std::byte> expected = elements_by_definition(tensor);
    const HostTensor packed = to_contiguous(tensor);
    ASSERT_EQ(bytes_of(packed), expected) << "round " << round;
    ASSERT_TRUE(packed.is_contiguous());
    ASSERT_EQ(packed.sizes, tensor.sizes);

    const std::int64_t numel = tensor.numel();
    const auto begin = std::uniform_int_distribution<std::int64_t>(0, numel)(random);
    const auto count = std::uniform_int_distribution<std::int64_t>(0, numel - begin)(random);
    const std::size_t item = item_bytes(tensor.dtype);
    std::vector<std::byte> part(static_cast<std::size_t>(count) * item);
    copy_elements(tensor, begin, count, part);
    const auto* from = expected.data() + static_cast<std::size_t>(begin) * item;
    ASSERT_EQ(part, std::vector<std::byte>(from, from + part.size())) << "round " << round;

    std::vector<std::byte> joined;
    for_each_packed_block(tensor, 7, [&](std::int64_t at, std::span<const std::byte> block) {
      ASSERT_EQ(static_cast<std::size_t>(at) * item, joined.size());
      joined.insert(joined.end(), block.begin(), block.end());
    });
    ASSERT_EQ(joined, expected) << "round " << round;
    checked += numel > 0 ? 1 : 0;
  }
  EXPECT_GT(checked, 1000);
}

TEST(HostTensorTest, PackedTensorsAreNotCopied) {
  HostTensor tensor = make_host_tensor(DType::kI32, {4, 2}, counting_bytes(32));
  tensor.sizes = {3, 2};
  tensor.offset = 2;
  const HostTensor packed = to_contiguous(tensor);
  EXPECT_EQ(packed.storage.data(), tensor.storage.data() + 8);
  EXPECT_EQ(packed.storage.size(), 24U);
  EXPECT_EQ(packed.offset, 0);
  EXPECT_EQ(packed.owner, tensor.owner);
}

TEST(HostTensorTest, UnalignedStorage) {
  const auto bytes = std::make_shared<const std::vector<std::byte>>(counting_bytes(33));
  const HostTensor tensor{.dtype = DType::kF64,
                          .sizes = {2, 2},
                          .strides = {1, 2},
                          .storage = std::span(*bytes).subspan(1),
                          .owner = bytes};
  EXPECT_EQ(bytes_of(to_contiguous(tensor)), elements_by_definition(tensor));
}

// As Tensor.is_contiguous() of torch answers: axes of size 1 and empty tensors have any stride.
TEST(HostTensorTest, Contiguity) {
  const auto contiguous = [](std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides) {
    return HostTensor{.dtype = DType::kU8, .sizes = std::move(sizes), .strides = std::move(strides)}.is_contiguous();
  };
  EXPECT_TRUE(contiguous({}, {}));
  EXPECT_TRUE(contiguous({2, 3}, {3, 1}));
  EXPECT_TRUE(contiguous({2, 1, 3}, {3, 99, 1}));
  EXPECT_TRUE(contiguous({0, 3}, {7, 7}));
  EXPECT_FALSE(contiguous({2, 3}, {1, 2}));
  EXPECT_FALSE(contiguous({2, 3}, {4, 1}));
  EXPECT_FALSE(contiguous({4}, {0}));
}

TEST(HostTensorTest, StridesOfRowMajor) {
  EXPECT_THAT(contiguous_strides(std::vector<std::int64_t>{2, 3, 4}), ElementsAre(12, 4, 1));
  EXPECT_THAT(contiguous_strides(std::vector<std::int64_t>{2, 0, 4}), ElementsAre(4, 4, 1));
  EXPECT_TRUE(contiguous_strides({}).empty());
}

TEST(HostTensorTest, NumelIsChecked) {
  const auto numel = [](std::vector<std::int64_t> sizes) { return checked_numel(sizes); };
  EXPECT_EQ(numel({}), 1);
  EXPECT_EQ(numel({2, 3, 4}), 24);
  EXPECT_EQ(numel({2, 0, 4}), 0);
  EXPECT_EQ(numel({kHuge}), kHuge);
  const auto [negative_code, negative] = error_of([&] { numel({2, -3}); });
  EXPECT_EQ(negative_code, ErrorCode::kFileDamaged);
  EXPECT_EQ(negative, "shape [2,-3] has a negative size");
  const auto [overflow_code, overflow] = error_of([&] { numel({1LL << 40, 1LL << 40}); });
  EXPECT_EQ(overflow_code, ErrorCode::kFileDamaged);
  EXPECT_THAT(overflow, HasSubstr("[1099511627776,1099511627776]"));
  EXPECT_EQ(error_of([&] { numel({kHuge, kHuge, 0}); }).first, ErrorCode::kFileDamaged);
}

TEST(HostTensorTest, FitsStorage) {
  const auto fits = [](std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides, std::int64_t offset,
                       std::size_t bytes) {
    return fits_storage(
        {.dtype = DType::kF32, .sizes = std::move(sizes), .strides = std::move(strides), .offset = offset}, bytes);
  };
  EXPECT_TRUE(fits({2, 3}, {3, 1}, 0, 24));
  EXPECT_FALSE(fits({2, 3}, {3, 1}, 0, 23));
  EXPECT_FALSE(fits({2, 3}, {3, 1}, 1, 24));
  EXPECT_TRUE(fits({2, 3}, {0, 1}, 0, 12));
  EXPECT_TRUE(fits({}, {}, 5, 24));
  EXPECT_FALSE(fits({}, {}, 6, 24));
  EXPECT_TRUE(fits({0, kHuge}, {1, 1}, 0, 0));
  EXPECT_FALSE(fits({2}, {-1}, 1, 24));
  EXPECT_FALSE(fits({-1}, {1}, 0, 24));
  EXPECT_FALSE(fits({2}, {1}, -1, 24));
  EXPECT_FALSE(fits({2}, {}, 0, 24));
  EXPECT_FALSE(fits({kHuge}, {kHuge}, 0, 24));
  EXPECT_FALSE(fits({2}, {kHuge}, kHuge, 24));
  EXPECT_FALSE(fits({kHuge, 3}, {0, 0}, 0, 24));
  EXPECT_FALSE(fits_storage({.sizes = {}, .strides = {}}, 24)) << "no dtype";
}

TEST(HostTensorTest, ReadsBeyondTheStorageAreRefused) {
  HostTensor tensor = make_host_tensor(DType::kI32, {4}, counting_bytes(16));
  tensor.strides = {2};
  std::vector<std::byte> out(16);
  EXPECT_EQ(error_of([&] { to_contiguous(tensor); }).first, ErrorCode::kInternal);
  EXPECT_EQ(error_of([&] { copy_elements(tensor, 0, 1, out); }).first, ErrorCode::kInternal);
  tensor.strides = {1};
  EXPECT_NE(error_of([&] { copy_elements(tensor, 3, 2, out); }).second, "none");
  EXPECT_NE(error_of([&] { element_as_double(tensor, 4); }).second, "none");
  EXPECT_NE(error_of([&] { copy_elements(tensor, 0, 4, std::span(out).first(15)); }).second, "none");
}

}  // namespace
}  // namespace tl
