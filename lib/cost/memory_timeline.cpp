#include "cost/memory_timeline.h"

#include <algorithm>

#include "cost/counts.h"
#include "cost/op_costs.h"

namespace tl {
namespace {

std::size_t row(std::int32_t value) { return static_cast<std::size_t>(value); }

/// The Op whose memory an Op's value lies in: itself, or what it is a view of; kNoMemory for state of the model.
class Owners {
 public:
  static constexpr std::int32_t kNoMemory = -1;

  explicit Owners(const Trace& trace) : trace_(trace), owner_(trace.num_ops(), kNoMemory) {
    for (std::size_t op = 0; op < owner_.size(); ++op) owner_[op] = find(op);
  }
  std::int32_t operator[](std::size_t op) const { return owner_[op]; }

 private:
  std::int32_t find(std::size_t op) const {
    const auto kind = static_cast<OpKind>(trace_.ops.kind[op]);
    if (kind == OpKind::kBuffer) return kNoMemory;
    const bool shares = kind == OpKind::kOutput || (trace_.ops.flags[op] & (kOpView | kOpInPlace)) != 0;
    if (kind == OpKind::kInput || !shares) return static_cast<std::int32_t>(op);
    const auto [begin, end] = edge_range(trace_, OpId{static_cast<std::uint32_t>(op)});
    for (auto edge = begin; edge < end; ++edge) {
      const auto parent = trace_.edges.parent[edge];
      if (parent < 0 || row(parent) >= op || trace_.edges.arg[edge] > 0) continue;
      if (trace_.edges.arg[edge] == 0) return owner_[row(parent)];
    }
    return kNoMemory;  // a view of a parameter
  }

  const Trace& trace_;
  std::vector<std::int32_t> owner_;
};

}  // namespace

MemoryTimeline memory_timeline(const Trace& trace) {
  MemoryTimeline timeline;
  const auto ops = trace.num_ops();
  const Owners owners(trace);
  std::vector<std::size_t> last_reader(ops);
  std::vector<std::int64_t> freed_after(ops, 0);
  for (std::size_t op = 0; op < ops; ++op) {
    last_reader[op] = op;
    const auto owner = owners[op];
    if (owner >= 0) last_reader[row(owner)] = std::max(last_reader[row(owner)], op);
    const auto [begin, end] = edge_range(trace, OpId{static_cast<std::uint32_t>(op)});
    for (auto edge = begin; edge < end; ++edge) {
      const auto parent = trace.edges.parent[edge];
      if (parent < 0 || owners[row(parent)] < 0) continue;
      auto& last = last_reader[row(owners[row(parent)])];
      last = std::max(last, trace.ops.kind[op] == static_cast<std::uint8_t>(OpKind::kOutput) ? ops : op);
    }
  }
  timeline.live_bytes.resize(ops);
  std::int64_t live = 0;
  for (std::size_t op = 0; op < ops; ++op) {
    const auto bytes = activation_bytes(trace, OpId{static_cast<std::uint32_t>(op)});
    // An output row shows the value of the Op that made it once more.
    if (trace.ops.kind[op] != static_cast<std::uint8_t>(OpKind::kOutput))
      timeline.total_bytes = saturating_add(timeline.total_bytes, bytes);
    if (owners[op] == static_cast<std::int32_t>(op)) {
      const auto before = live;
      live = saturating_add(live, bytes);
      // What was cut off must not be given back.
      if (last_reader[op] < ops) freed_after[last_reader[op]] += live - before;
    }
    timeline.live_bytes[op] = live;
    if (live > timeline.peak_bytes || !timeline.peak_op.valid()) {
      timeline.peak_bytes = live;
      timeline.peak_op = OpId{static_cast<std::uint32_t>(op)};
    }
    live -= freed_after[op];
  }
  return timeline;
}

}  // namespace tl
