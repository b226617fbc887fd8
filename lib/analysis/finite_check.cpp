#include "analysis/finite_check.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tensor/nonfinite.h"
#include "trace/finiteness.h"

namespace tl {
namespace {

constexpr auto kNoDType = static_cast<std::uint8_t>(DType::kNone);

bool can_be_nonfinite(DType dtype) { return is_floating(dtype) || is_complex(dtype); }

bool payload_holds_nonfinite(const TensorRef& tensor) {
  const auto parts = tensor.to_host();
  return std::ranges::any_of(parts, [](const auto& part) { return holds_nonfinite(part.tensor); });
}

/// What is known of the elements of every row of payloads.
std::vector<Finiteness> look_at_payloads(const Trace& trace,
                                         const std::function<std::optional<bool>(std::size_t row)>& seen) {
  std::vector<Finiteness> findings(trace.payloads.first_op.size(), Finiteness::kUnknown);
  for (std::size_t row = 0; row < findings.size(); ++row) {
    const auto encoding = static_cast<PayloadEncoding>(trace.payloads.encoding[row]);
    if (encoding == PayloadEncoding::kEmpty || encoding == PayloadEncoding::kOpaque) continue;
    const auto known = seen ? seen(row) : std::nullopt;
    const bool at_hand = !known && trace.payload_source != nullptr;
    const auto tensor = at_hand ? trace.payload_source->tensor(PayloadId{static_cast<std::uint32_t>(row)}) : nullptr;
    if (!known && tensor == nullptr) continue;
    const bool bad = known ? *known : payload_holds_nonfinite(*tensor);
    findings[row] = bad ? Finiteness::kNonFinite : Finiteness::kFinite;
  }
  return findings;
}

Finiteness by_statistics(const StatisticsTable& statistics, std::size_t op) {
  const auto row = statistics.find(op);
  if (!row) return Finiteness::kUnknown;
  const bool nan = (statistics.taken & kStatNan) != 0;
  const bool inf = (statistics.taken & kStatInf) != 0;
  if (nan && statistics.nan[*row] > 0) return Finiteness::kNonFinite;
  if (inf && (statistics.posinf[*row] > 0 || statistics.neginf[*row] > 0)) return Finiteness::kNonFinite;
  return nan && inf ? Finiteness::kFinite : Finiteness::kUnknown;
}

std::int64_t elements(const Trace& trace, std::int32_t shape) {
  std::int64_t count = 1;
  for (const auto size : trace.shapes[shape]) {
    if (__builtin_mul_overflow(count, size, &count)) return INT64_MAX;
  }
  return count;
}

class FiniteCheck {
 public:
  FiniteCheck(Trace& trace, const std::function<std::optional<bool>(std::size_t row)>& seen)
      : trace_(trace), payloads_(look_at_payloads(trace, seen)), flags_(trace.ops.flags.rows()) {}

  void run() {
    for (std::size_t op = 0; op < trace_.num_ops(); ++op) {
      if ((flags_[op] & kOpUninitialised) == 0) note(op, finding_of(op));
    }
    trace_.run.health.nonfinite_checked = !count_checked(trace_).nothing_checked();
  }

 private:
  DType dtype_of(std::size_t op) const { return static_cast<DType>(trace_.ops.dtype[op]); }

  Finiteness finding_of(std::size_t op) const {
    if (const auto payload = trace_.ops.payload[op]; payload >= 0) {
      const auto finding = payloads_[static_cast<std::size_t>(payload)];
      if (finding != Finiteness::kUnknown) return finding;
    }
    if (dtype_of(op) == DType::kNone) return Finiteness::kUnknown;
    if (!can_be_nonfinite(dtype_of(op))) return Finiteness::kFinite;
    const auto counted = by_statistics(trace_.statistics, op);
    return counted == Finiteness::kUnknown ? by_sample(op) : counted;
  }

  Finiteness by_sample(std::size_t op) const {
    const auto sample = trace_.ops.sample[op];
    if (sample < 0) return Finiteness::kUnknown;
    const auto row = static_cast<std::size_t>(sample);
    const bool whole = elements(trace_, trace_.payloads.shape[row]) == elements(trace_, trace_.ops.shape[op]);
    return payloads_[row] == Finiteness::kFinite && !whole ? Finiteness::kUnknown : payloads_[row];
  }

  void note(std::size_t op, Finiteness finding) {
    if (finding == Finiteness::kFinite) flags_[op] |= kOpFinite;
    if (finding != Finiteness::kNonFinite) return;
    flags_[op] |= kOpNonFinite;
    const OpId id{static_cast<std::uint32_t>(op)};
    const auto [begin, end] = edge_range(trace_, id);
    bool first = true;
    for (auto edge = begin; edge < end; ++edge) {
      first = first && (flags_[static_cast<std::size_t>(trace_.edges.parent[edge])] & kOpNonFinite) == 0;
    }
    if (first) trace_.run.health.nonfinite.push_back(op_label(trace_, id));
  }

  Trace& trace_;
  std::vector<Finiteness> payloads_;
  std::vector<std::uint32_t>& flags_;
};

}  // namespace

CheckedCounts count_checked(const Trace& trace) {
  CheckedCounts counts;
  for (std::size_t op = 0; op < trace.num_ops(); ++op) {
    const auto flags = trace.ops.flags[op];
    const bool holds_values = (flags & kOpUninitialised) == 0 && trace.ops.dtype[op] != kNoDType;
    counts.values += holds_values ? 1 : 0;
    if (!holds_values || !can_be_nonfinite(static_cast<DType>(trace.ops.dtype[op]))) continue;
    ++counts.checkable;
    if (finiteness_of(flags) != Finiteness::kUnknown) {
      ++counts.checked;
    } else if (trace.ops.sample[op] >= 0) {
      ++counts.sampled;
    }
  }
  return counts;
}

void check_finite(Trace& trace, const std::function<std::optional<bool>(std::size_t row)>& seen) {
  FiniteCheck(trace, seen).run();
}

}  // namespace tl
