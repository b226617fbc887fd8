#include "payload_glance.h"

#include <cmath>

#include "tensor/statistics.h"
#include "text_format.h"

namespace tl::cli {
namespace {

std::string stats_text(const HostTensor& tensor) {
  const auto stats = compute_stats(tensor);
  std::string text = " n=" + std::to_string(stats.numel);
  if (stats.has_finite()) {
    text += " [" + format_number(stats.min, 4) + " .. " + format_number(stats.max, 4) +
            "] mean=" + format_number(stats.mean(), 4) + " sd=" + format_number(stats.stddev(), 4);
  }
  if (stats.nan > 0) text += " nan=" + std::to_string(stats.nan);
  if (stats.posinf > 0) text += " inf=" + std::to_string(stats.posinf);
  if (stats.neginf > 0) text += " -inf=" + std::to_string(stats.neginf);
  return text;
}

}  // namespace

std::string payload_glance(const Trace& trace, OpId op) {
  const auto type =
      format_type(static_cast<DType>(trace.ops.dtype[op.index()]), trace.shapes[trace.ops.shape[op.index()]]);
  const auto payload = trace.ops.payload[op.index()];
  if (payload < 0 || trace.payload_source == nullptr) return type + " (not saved)";
  const auto encoding = static_cast<PayloadEncoding>(trace.payloads.encoding[static_cast<std::size_t>(payload)]);
  if (encoding == PayloadEncoding::kEmpty) return type + " (uninitialised memory)";
  const auto tensor = trace.payload_source->tensor(PayloadId{static_cast<std::uint32_t>(payload)});
  if (tensor == nullptr) return type + " (not saved)";
  if (tensor->kind() == TensorKind::kOpaque) return type + " (opaque)";
  const auto parts = tensor->to_host();
  if (tensor->kind() == TensorKind::kSparse) {
    for (const auto& part : parts) {
      if (part.suffix == ".values") return type + " sparse, of its values:" + stats_text(part.tensor);
    }
  }
  if (parts.empty()) return type + " (no bytes)";
  return type + (tensor->kind() == TensorKind::kQuantised ? " stored integers" : "") + stats_text(parts.front().tensor);
}

}  // namespace tl::cli
