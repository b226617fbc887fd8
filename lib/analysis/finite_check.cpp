#include "analysis/finite_check.h"

#include <algorithm>

#include "tensor/nonfinite.h"

namespace tl {
namespace {

bool payload_holds_nonfinite(const TensorRef& tensor) {
  const auto parts = tensor.to_host();
  return std::ranges::any_of(parts, [](const auto& part) { return holds_nonfinite(part.tensor); });
}

}  // namespace

void check_finite(Trace& trace, const std::function<std::optional<bool>(std::size_t row)>& seen) {
  if (!trace.payload_source) return;
  std::vector<bool> bad(trace.payloads.first_op.size(), false);
  for (std::size_t row = 0; row < bad.size(); ++row) {
    const auto encoding = static_cast<PayloadEncoding>(trace.payloads.encoding[row]);
    if (encoding == PayloadEncoding::kEmpty || encoding == PayloadEncoding::kOpaque) continue;
    if (const auto known = seen ? seen(row) : std::nullopt) {
      bad[row] = *known;
      continue;
    }
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
