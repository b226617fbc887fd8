#include "io_finiteness.h"

namespace tl::cli {

std::optional<OpId> op_of_role(const Trace& trace, std::string_view role) {
  const auto code = trace.strings.find(role);
  if (code < 0) return std::nullopt;
  for (std::size_t op = 0; op < trace.num_ops(); ++op) {
    const auto kind = static_cast<OpKind>(trace.ops.kind[op]);
    const bool is_leaf = kind == OpKind::kInput || kind == OpKind::kOutput;
    if (is_leaf && trace.ops.address[op] == code) return OpId{static_cast<std::uint32_t>(op)};
  }
  return std::nullopt;
}

Finiteness finiteness_of_role(const Trace& trace, std::string_view role) {
  const auto op = op_of_role(trace, role);
  return op ? finiteness_of(trace.ops.flags[op->index()]) : Finiteness::kUnknown;
}

std::string nonfinite_of_role(const Trace& trace, std::string_view role) {
  const auto op = op_of_role(trace, role);
  if (!op || finiteness_of(trace.ops.flags[op->index()]) != Finiteness::kNonFinite) return {};
  const auto& statistics = trace.statistics;
  const auto row = statistics.find(op->index());
  std::string text;
  const auto add = [&](const char* name, std::int64_t count) {
    if (count > 0) text += (text.empty() ? "" : " ") + (name + std::to_string(count));
  };
  if (row && (statistics.taken & kStatNan) != 0) add("nan=", statistics.nan[*row]);
  if (row && (statistics.taken & kStatInf) != 0) {
    add("inf=", statistics.posinf[*row]);
    add("-inf=", statistics.neginf[*row]);
  }
  return text.empty() ? "NaN or Inf" : text;
}

}  // namespace tl::cli
