#include "tensor/compare_side.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "core/error.h"
#include "tensor/decode.h"
#include "tensor/strided_copy.h"

namespace tl::compare {
namespace {

/// Elements copied at once out of a tensor with gaps.
constexpr std::int64_t kCopied = 32 * 1024;
/// Elements decoded at once on the way to exact values.
constexpr std::size_t kDecoded = 256;

void check_quantiser(const Quantiser& quantiser, const HostTensor& tensor) {
  const auto rank = static_cast<std::int64_t>(tensor.sizes.size());
  if (quantiser.axis < -1 || quantiser.axis >= rank) {
    throw Error(ErrorCode::kFileDamaged, "a quantiser's axis is " + std::to_string(quantiser.axis) +
                                             ", its tensor has " + std::to_string(rank) + " axes");
  }
  const std::int64_t channels = quantiser.axis < 0 ? 1 : tensor.sizes[static_cast<std::size_t>(quantiser.axis)];
  if (quantiser.scales.size() != static_cast<std::size_t>(channels) ||
      quantiser.zero_points.size() != static_cast<std::size_t>(channels)) {
    throw Error(ErrorCode::kFileDamaged, "a quantiser has " + std::to_string(quantiser.scales.size()) + " scales and " +
                                             std::to_string(quantiser.zero_points.size()) + " zero points for " +
                                             std::to_string(channels) + " channels");
  }
}

template <typename Stored, typename Convert>
void read_each(std::span<const std::byte> bytes, std::span<ExactValue> values, Convert convert) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    values[i] = convert(stored);
  }
}

template <typename Part>
void read_pairs(std::span<const std::byte> bytes, std::span<ExactValue> values) {
  read_each<std::array<Part, 2>>(bytes, values, [](const std::array<Part, 2>& pair) {
    return ExactValue{static_cast<Exact>(pair[0]), static_cast<Exact>(pair[1])};
  });
}

}  // namespace

Side::Side(const HostTensor& tensor, const Quantiser* quantiser)
    : tensor_(tensor), quantiser_(quantiser), packed_(tensor.is_contiguous()) {
  check_readable(tensor);
  if (quantiser == nullptr) return;
  TL_CHECK(!complex(), "complex tensors are not quantised");
  check_quantiser(*quantiser, tensor);
  if (quantiser->axis < 0) return;
  const auto axis = static_cast<std::size_t>(quantiser->axis);
  channels_ = tensor.sizes[axis];
  for (std::size_t i = axis + 1; i < tensor.sizes.size(); ++i) inner_ *= std::max<std::int64_t>(tensor.sizes[i], 1);
}

bool Side::narrow() const { return quantiser_ == nullptr && exact_in_float(tensor_.dtype); }

bool Side::wide_integers() const {
  return quantiser_ == nullptr && (tensor_.dtype == DType::kI64 || tensor_.dtype == DType::kU64);
}

std::span<const std::byte> Side::block(std::int64_t begin, std::size_t count) {
  const std::size_t item = item_bytes(tensor_.dtype);
  if (packed_) return tensor_.storage.subspan(static_cast<std::size_t>(tensor_.offset + begin) * item, count * item);
  const std::int64_t end = begin + static_cast<std::int64_t>(count);
  if (begin < copied_begin_ || end > copied_end_) {
    copied_begin_ = begin;
    copied_end_ = std::max(end, std::min(begin + kCopied, tensor_.numel()));
    copied_.resize(static_cast<std::size_t>(copied_end_ - copied_begin_) * item);
    copy_elements(tensor_, copied_begin_, copied_end_ - copied_begin_, copied_);
  }
  return std::span(copied_).subspan(static_cast<std::size_t>(begin - copied_begin_) * item, count * item);
}

void Side::decode(std::int64_t, std::span<const std::byte> bytes, std::span<float> values) const {
  decode_floats(tensor_.dtype, bytes, values);
}

void Side::decode(std::int64_t begin, std::span<const std::byte> bytes, std::span<double> values) const {
  decode_doubles(tensor_.dtype, bytes, values);
  if (quantiser_ != nullptr) dequantise(begin, values);
}

void Side::decode(std::int64_t begin, std::span<const std::byte> bytes, std::span<ExactValue> values) const {
  switch (tensor_.dtype) {
    case DType::kC32:
      return read_each<std::array<std::uint16_t, 2>>(bytes, values, [](const std::array<std::uint16_t, 2>& pair) {
        return ExactValue{float_from_f16(pair[0]), float_from_f16(pair[1])};
      });
    case DType::kC64:
      return read_pairs<float>(bytes, values);
    case DType::kC128:
      return read_pairs<double>(bytes, values);
    case DType::kI64:
    case DType::kU64:
      if (quantiser_ != nullptr) break;
      if (tensor_.dtype == DType::kI64) {
        return read_each<std::int64_t>(bytes, values, [](std::int64_t v) {
          return ExactValue{static_cast<Exact>(v), 0};
        });
      }
      return read_each<std::uint64_t>(bytes, values, [](std::uint64_t v) {
        return ExactValue{static_cast<Exact>(v), 0};
      });
    default:
      break;
  }
  const std::size_t item = item_bytes(tensor_.dtype);
  std::array<double, kDecoded> doubles;
  for (std::size_t done = 0; done < values.size(); done += kDecoded) {
    const auto part = std::span(doubles).first(std::min(kDecoded, values.size() - done));
    decode(begin + static_cast<std::int64_t>(done), bytes.subspan(done * item), part);
    std::ranges::transform(part, values.begin() + static_cast<std::ptrdiff_t>(done), [](double value) {
      return ExactValue{value, 0};
    });
  }
}

void Side::dequantise(std::int64_t begin, std::span<double> values) const {
  std::int64_t channel = begin / inner_ % channels_;
  std::int64_t left = inner_ - begin % inner_;  // elements of the channel still to come
  for (double& value : values) {
    const auto index = static_cast<std::size_t>(channel);
    value = (value - quantiser_->zero_points[index]) * quantiser_->scales[index];
    if (--left == 0) {
      left = inner_;
      channel = channel + 1 == channels_ ? 0 : channel + 1;
    }
  }
}

bool same_quantiser(const Quantiser* a, const Quantiser* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return a->axis == b->axis && a->scales == b->scales && a->zero_points == b->zero_points;
}

bool has_ulp(DType dtype) { return is_floating(dtype) && dtype != DType::kF4x2 && dtype != DType::kF8E8M0; }

}  // namespace tl::compare
