#include "payload_glance.h"

#include <algorithm>
#include <cmath>

#include "select/op_facts.h"
#include "tensor/element.h"
#include "tensor/statistics.h"
#include "text_format.h"

namespace tl::cli {
namespace {

/// What stored numbers stand for: (stored - zero) * scale.
struct Quantiser {
  double scale = 1;
  double zero = 0;
};

std::string stats_text(const HostTensor& tensor, const Quantiser& quantiser = {}) {
  const auto stats = compute_stats(tensor);
  const auto number = [&](double stored) { return format_number((stored - quantiser.zero) * quantiser.scale, 4); };
  std::string text = " n=" + std::to_string(stats.numel);
  if (stats.has_finite()) {
    text += " [" + number(stats.min) + " .. " + number(stats.max) + "] mean=" + number(stats.mean()) +
            " sd=" + format_number(stats.stddev() * quantiser.scale, 4);
  }
  if (stats.nan > 0) text += " nan=" + std::to_string(stats.nan);
  if (stats.posinf > 0) text += " inf=" + std::to_string(stats.posinf);
  if (stats.neginf > 0) text += " -inf=" + std::to_string(stats.neginf);
  return text;
}

const HostTensor* part_of(const std::vector<TensorPart>& parts, std::string_view suffix) {
  const auto found = std::ranges::find(parts, suffix, &TensorPart::suffix);
  return found == parts.end() || found->tensor.numel() == 0 ? nullptr : &found->tensor;
}

/// Per tensor: scale, zero point, and the statistics of the values; per channel: those of the stored integers.
std::string quantised_text(const std::vector<TensorPart>& parts) {
  const auto* scale = part_of(parts, ".scale");
  const auto* zero = part_of(parts, ".zero_point");
  const auto* axis = part_of(parts, ".axis");
  if (scale == nullptr || zero == nullptr || axis != nullptr) {
    const auto where =
        axis == nullptr ? std::string() : " quantised along axis " + format_number(element_as_double(*axis, 0), 4);
    return where + " stored integers" + stats_text(parts.front().tensor);
  }
  const Quantiser quantiser{element_as_double(*scale, 0), element_as_double(*zero, 0)};
  return " scale " + format_number(quantiser.scale, 4) + " zero point " + format_number(quantiser.zero, 4) + " values" +
         stats_text(parts.front().tensor, quantiser);
}

/// The elements at fixed positions that stand for a value which was not kept.
std::string sample_glance(const Trace& trace, std::int32_t sample, const std::string& type,
                          std::span<const std::int64_t> sizes) {
  const auto tensor = trace.payload_source->tensor(PayloadId{static_cast<std::uint32_t>(sample)});
  if (tensor == nullptr) return type + " (not saved)";
  const auto kept = element_count(trace.shapes[trace.payloads.shape[static_cast<std::size_t>(sample)]]);
  return tensor_glance(type + " sampled, " + std::to_string(kept) + " of " + std::to_string(element_count(sizes)) + ":",
                       *tensor);
}

}  // namespace

std::string tensor_glance(const std::string& type, const TensorRef& tensor) {
  if (tensor.kind() == TensorKind::kOpaque) return type + " (opaque)";
  const auto parts = tensor.to_host();
  if (tensor.kind() == TensorKind::kSparse) {
    if (const auto* values = part_of(parts, ".values")) return type + " sparse, of its values:" + stats_text(*values);
  }
  if (parts.empty()) return type + " (no bytes)";
  if (tensor.kind() == TensorKind::kQuantised) return type + quantised_text(parts);
  return type + stats_text(parts.front().tensor);
}

std::string payload_glance(const Trace& trace, OpId op) {
  const auto sizes = trace.shapes[trace.ops.shape[op.index()]];
  const auto type = format_type(static_cast<DType>(trace.ops.dtype[op.index()]), sizes);
  const auto payload = trace.ops.payload[op.index()];
  if (trace.payload_source == nullptr) return type + " (not saved)";
  if (payload < 0) {
    const auto sample = trace.ops.sample[op.index()];
    return sample < 0 ? type + " (not saved)" : sample_glance(trace, sample, type, sizes);
  }
  const auto encoding = static_cast<PayloadEncoding>(trace.payloads.encoding[static_cast<std::size_t>(payload)]);
  if (encoding == PayloadEncoding::kEmpty) return type + " (uninitialised memory)";
  const auto tensor = trace.payload_source->tensor(PayloadId{static_cast<std::uint32_t>(payload)});
  if (tensor == nullptr) return type + " (not saved)";
  return tensor_glance(type, *tensor);
}

}  // namespace tl::cli
