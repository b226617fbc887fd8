#include "tlspec/payload_encoding.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "core/error.h"
#include "tensor/strided_copy.h"

namespace tl {
namespace {

constexpr std::array kSuffixes = {
    std::string_view(""),
    std::string_view(".scale"),
    std::string_view(".zero_point"),
    std::string_view(".axis"),
    std::string_view(".crow_indices"),
    std::string_view(".col_indices"),
    std::string_view(".ccol_indices"),
    std::string_view(".row_indices"),
    std::string_view(".indices"),
    std::string_view(".values"),
};

/// The component type of a complex dtype that is stored as pairs; kNone for all others.
DType pair_component(DType dtype) {
  if (dtype == DType::kC128) return DType::kF64;
  if (dtype == DType::kC32) return DType::kF16;
  return DType::kNone;
}

/// A dtype of the same element size that a safetensors header can name.
DType stored_dtype(DType dtype) {
  if (!dtype_info(dtype).safetensors_name.empty()) return dtype;
  if (dtype == DType::kQI8) return DType::kI8;
  if (dtype == DType::kQI32) return DType::kI32;
  switch (item_bytes(dtype)) {
    case 1:
      return DType::kU8;
    case 2:
      return DType::kU16;
    default:
      return DType::kNone;
  }
}

HostTensor as_stored(HostTensor tensor) {
  if (const DType component = pair_component(tensor.dtype); component != DType::kNone) {
    tensor.dtype = component;
    for (auto& stride : tensor.strides) stride *= 2;
    tensor.offset *= 2;
    tensor.sizes.push_back(2);
    tensor.strides.push_back(1);
  } else {
    tensor.dtype = stored_dtype(tensor.dtype);
  }
  return tensor;
}

/// Elements from the first to the last one in memory; 0 if the tensor has none.
std::int64_t extent_of(const HostTensor& tensor) {
  std::int64_t extent = 1;
  for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (tensor.sizes[i] == 0) return 0;
    extent += (tensor.sizes[i] - 1) * tensor.strides[i];
  }
  return extent;
}

StoredPayload encode_strided(HostTensor tensor) {
  check_readable(tensor);
  const std::int64_t extent = extent_of(tensor);
  const bool pairs = pair_component(tensor.dtype) != DType::kNone;
  StoredPayload stored;
  stored.encoding = pairs ? PayloadEncoding::kPairs : PayloadEncoding::kDense;
  if (!pairs && extent < tensor.numel()) {
    stored.encoding = PayloadEncoding::kWindow;
    const auto item = item_bytes(tensor.dtype);
    tensor.storage =
        tensor.storage.subspan(static_cast<std::size_t>(tensor.offset) * item, static_cast<std::size_t>(extent) * item);
    tensor.offset = 0;
    tensor.sizes = {extent};
    tensor.strides = {1};
  }
  stored.parts.push_back({"", as_stored(std::move(tensor))});
  return stored;
}

std::string shown(DType dtype, std::span<const std::int64_t> sizes) {
  std::string text = std::string(short_name(dtype)) + "[";
  for (std::size_t i = 0; i < sizes.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(sizes[i]);
  return text + "]";
}

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::kFileDamaged, what); }

void expect(const HostTensor& tensor, DType dtype, std::span<const std::int64_t> sizes) {
  if (tensor.dtype != dtype || !std::ranges::equal(tensor.sizes, sizes)) {
    fail("is stored as " + shown(tensor.dtype, tensor.sizes) + ", the columns say " + shown(dtype, sizes));
  }
}

void decode_pairs(DType dtype, HostTensor& tensor) {
  const DType component = pair_component(dtype);
  if (component == DType::kNone || tensor.dtype != component || tensor.sizes.empty() || tensor.sizes.back() != 2) {
    fail("is stored as " + shown(tensor.dtype, tensor.sizes) + ", which is no pairs of a " +
         std::string(short_name(dtype)));
  }
  tensor.dtype = dtype;
  tensor.sizes.pop_back();
  tensor.strides = contiguous_strides(tensor.sizes);
}

void decode_window(const PayloadShape& shape, HostTensor& block) {
  if (block.dtype != stored_dtype(shape.dtype) || block.sizes.size() != 1) {
    fail("is stored as " + shown(block.dtype, block.sizes) + ", the columns say a block of " +
         std::string(short_name(shape.dtype)));
  }
  const auto elements = block.sizes[0];
  block.dtype = shape.dtype;
  block.sizes.assign(shape.sizes.begin(), shape.sizes.end());
  block.strides.assign(shape.strides.begin(), shape.strides.end());
  block.offset = shape.offset;
  if (!fits_storage(block, block.storage.size())) {
    fail("has a block of " + std::to_string(elements) + " elements, which " + shown(shape.dtype, shape.sizes) +
         " with its strides leaves");
  }
}

HostTensor* find_part(std::vector<TensorPart>& parts, std::string_view suffix) {
  const auto found = std::ranges::find(parts, suffix, &TensorPart::suffix);
  return found == parts.end() ? nullptr : &found->tensor;
}

HostTensor& need_part(std::vector<TensorPart>& parts, std::string_view suffix) {
  auto* part = find_part(parts, suffix);
  if (part == nullptr) fail(suffix.empty() ? "is not stored" : "has no part " + std::string(suffix));
  return *part;
}

void decode_sparse(const PayloadShape& shape, std::vector<TensorPart>& parts) {
  auto& values = need_part(parts, ".values");
  if (pair_component(shape.dtype) != DType::kNone) {
    decode_pairs(shape.dtype, values);
  } else {
    expect(values, stored_dtype(shape.dtype), values.sizes);
    values.dtype = shape.dtype;
  }
  const bool by_row = find_part(parts, ".crow_indices") != nullptr && find_part(parts, ".col_indices") != nullptr;
  const bool by_column = find_part(parts, ".ccol_indices") != nullptr && find_part(parts, ".row_indices") != nullptr;
  if (!by_row && !by_column) need_part(parts, ".indices");
}

}  // namespace

std::span<const std::string_view> part_suffixes() { return kSuffixes; }

TensorKind kind_of(PayloadEncoding encoding) {
  switch (encoding) {
    case PayloadEncoding::kQuantised:
      return TensorKind::kQuantised;
    case PayloadEncoding::kSparse:
      return TensorKind::kSparse;
    case PayloadEncoding::kOpaque:
      return TensorKind::kOpaque;
    default:
      return TensorKind::kStrided;
  }
}

StoredPayload encode_payload(const TensorRef& tensor) {
  if (tensor.kind() == TensorKind::kOpaque) return {};
  auto parts = tensor.to_host();
  if (parts.empty()) return {};
  if (tensor.kind() == TensorKind::kStrided) {
    TL_CHECK(parts.size() == 1 && parts[0].suffix.empty(), "a strided tensor has one part without a suffix");
    return encode_strided(std::move(parts[0].tensor));
  }
  StoredPayload stored;
  stored.encoding = tensor.kind() == TensorKind::kQuantised ? PayloadEncoding::kQuantised : PayloadEncoding::kSparse;
  for (const auto suffix : kSuffixes) {
    if (auto* part = find_part(parts, suffix)) stored.parts.push_back({std::string(suffix), as_stored(*part)});
  }
  TL_CHECK(stored.parts.size() == parts.size(), "every part of a tensor has a known suffix");
  return stored;
}

std::vector<TensorPart> decode_payload(PayloadEncoding encoding, const PayloadShape& shape,
                                       std::vector<TensorPart> parts) {
  switch (encoding) {
    case PayloadEncoding::kDense: {
      auto& tensor = need_part(parts, "");
      expect(tensor, stored_dtype(shape.dtype), shape.sizes);
      tensor.dtype = shape.dtype;
      break;
    }
    case PayloadEncoding::kPairs: {
      auto& tensor = need_part(parts, "");
      decode_pairs(shape.dtype, tensor);
      expect(tensor, shape.dtype, shape.sizes);
      break;
    }
    case PayloadEncoding::kWindow:
      decode_window(shape, need_part(parts, ""));
      break;
    case PayloadEncoding::kQuantised:
      need_part(parts, "");
      need_part(parts, ".scale");
      need_part(parts, ".zero_point");
      break;
    case PayloadEncoding::kSparse:
      decode_sparse(shape, parts);
      break;
    case PayloadEncoding::kEmpty:
    case PayloadEncoding::kOpaque:
      break;
  }
  return parts;
}

}  // namespace tl
