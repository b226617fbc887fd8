#include "analysis/finite_check.h"

#include <algorithm>
#include <cstring>

#include "tensor/strided_copy.h"

namespace tl {
namespace {

/// True if some word has all bits of `exponent` set: NaN or infinity in the IEEE formats. Written so that it
/// vectorises.
template <typename Word>
bool any_full_exponent(std::span<const std::byte> bytes, Word exponent) {
  constexpr std::size_t kStride = 1024;
  const auto count = bytes.size() / sizeof(Word);
  for (std::size_t begin = 0; begin < count; begin += kStride) {
    const auto end = std::min(count, begin + kStride);
    Word found = 0;
    for (std::size_t i = begin; i < end; ++i) {
      Word word;
      std::memcpy(&word, bytes.data() + i * sizeof(Word), sizeof(Word));
      found |= static_cast<Word>((word & exponent) == exponent ? 1 : 0);
    }
    if (found != 0) return true;
  }
  return false;
}

bool holds_nonfinite(DType dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case DType::kF32:
    case DType::kC64:
      return any_full_exponent<std::uint32_t>(bytes, 0x7f800000u);
    case DType::kF64:
    case DType::kC128:
      return any_full_exponent<std::uint64_t>(bytes, 0x7ff0000000000000u);
    case DType::kF16:
    case DType::kC32:
      return any_full_exponent<std::uint16_t>(bytes, 0x7c00u);
    case DType::kBF16:
      return any_full_exponent<std::uint16_t>(bytes, 0x7f80u);
    case DType::kF8E5M2:
      return any_full_exponent<std::uint8_t>(bytes, 0x7c);
    case DType::kF8E4M3:
      return any_full_exponent<std::uint8_t>(bytes, 0x7f);  // all ones is its only NaN
    case DType::kF8E8M0:
      return any_full_exponent<std::uint8_t>(bytes, 0xff);
    case DType::kF8E5M2FNUZ:
    case DType::kF8E4M3FNUZ:
      return std::ranges::find(bytes, std::byte{0x80}) != bytes.end();
    default:
      return false;  // integers
  }
}

bool payload_holds_nonfinite(const TensorRef& tensor) {
  for (const auto& part : tensor.to_host()) {
    bool found = false;
    for_each_packed_block(part.tensor, std::int64_t{1} << 16, [&](std::int64_t, std::span<const std::byte> bytes) {
      found = found || holds_nonfinite(part.tensor.dtype, bytes);
    });
    if (found) return true;
  }
  return false;
}

}  // namespace

void check_finite(Trace& trace) {
  if (!trace.payload_source) return;
  std::vector<bool> bad(trace.payloads.first_op.size(), false);
  for (std::size_t row = 0; row < bad.size(); ++row) {
    const auto encoding = static_cast<PayloadEncoding>(trace.payloads.encoding[row]);
    if (encoding == PayloadEncoding::kEmpty || encoding == PayloadEncoding::kOpaque) continue;
    const auto tensor = trace.payload_source->tensor(PayloadId{static_cast<std::uint32_t>(row)});
    bad[row] = tensor && payload_holds_nonfinite(*tensor);
  }
  auto& flags = trace.ops.flags.rows();
  for (std::size_t op = 0; op < trace.num_ops(); ++op) {
    const auto payload = trace.ops.payload[op];
    if (payload < 0 || !bad[static_cast<std::size_t>(payload)]) continue;
    flags[op] |= kOpNonFinite;
    const OpId id{static_cast<std::uint32_t>(op)};
    const auto [begin, end] = edge_range(trace, id);
    bool first = true;
    for (auto edge = begin; edge < end; ++edge) {
      first = first && (flags[static_cast<std::size_t>(trace.edges.parent[edge])] & kOpNonFinite) == 0;
    }
    if (first) trace.run.health.nonfinite.push_back(op_label(trace, id));
  }
  trace.run.health.nonfinite_checked = true;
}

}  // namespace tl
