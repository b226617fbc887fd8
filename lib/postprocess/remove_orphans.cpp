// Before: ops hold everything that ran. After: only what is connected, along children and parents alike, with an input,
// an output or a written buffer; a dead end that an input reaches stays (an internal sink), an island goes, and so does
// a buffer that was read for nothing but islands. Outputs of one call stay or go together. Rows close up and every
// reference to an Op follows; where a host value was read from an Op that went, its raw label stays as text. A run that
// did not come to its end keeps everything: what would have joined the islands has not run. Before depths and grouping,
// so that neither sees islands.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "postprocess/step.h"
#include "trace/args.h"

namespace tl {
namespace {

/// Connected components over Ops; the representative is the earliest Op.
class Components {
 public:
  explicit Components(std::size_t ops) : parent_(ops) {
    for (std::size_t op = 0; op < ops; ++op) parent_[op] = static_cast<std::uint32_t>(op);
  }
  std::uint32_t find(std::uint32_t op) {
    while (parent_[op] != op) {
      parent_[op] = parent_[parent_[op]];
      op = parent_[op];
    }
    return op;
  }
  void join(std::size_t left, std::size_t right) {
    const auto a = find(static_cast<std::uint32_t>(left));
    const auto b = find(static_cast<std::uint32_t>(right));
    parent_[a < b ? b : a] = a < b ? a : b;
  }

 private:
  std::vector<std::uint32_t> parent_;
};

bool is_seed(const Trace& trace, std::size_t op, bool has_parent) {
  const auto kind = static_cast<OpKind>(trace.ops.kind[op]);
  if (kind == OpKind::kInput || kind == OpKind::kOutput) return true;
  return kind == OpKind::kBuffer && (has_parent || (trace.ops.flags[op] & kOpBufferWrite) != 0);
}

/// 1 for Ops that stay; bytes, since every column is closed up by it.
std::vector<std::uint8_t> find_kept(const Trace& trace) {
  const auto count = trace.num_ops();
  Components components(count);
  std::vector<std::uint8_t> seeds(count, 0);
  for (std::size_t op = 0; op < count; ++op) {
    const auto [begin, end] = edge_range(trace, OpId{static_cast<std::uint32_t>(op)});
    for (auto edge = begin; edge < end; ++edge) components.join(op, static_cast<std::size_t>(trace.edges.parent[edge]));
    const bool later_slot = op > 0 && trace.ops.slot[op] > 0 && trace.ops.slot[op - 1] < trace.ops.slot[op] &&
                            trace.ops.instruction[op - 1] == trace.ops.instruction[op];
    if (later_slot) components.join(op, op - 1);
    seeds[op] = is_seed(trace, op, begin < end) ? 1 : 0;
  }
  std::vector<std::uint8_t> kept(count, 0);
  for (std::size_t op = 0; op < count; ++op) {
    if (seeds[op] != 0) kept[components.find(static_cast<std::uint32_t>(op))] = 1;
  }
  // A representative is the earliest Op of its component, so it is settled before it is asked for.
  for (std::size_t op = 0; op < count; ++op) kept[op] = kept[components.find(static_cast<std::uint32_t>(op))];
  return kept;
}

/// Closes up the rows of all tables that count Ops.
class Compaction {
 public:
  Compaction(Trace& trace, const std::vector<std::uint8_t>& kept)
      : trace_(trace), kept_(kept), new_row_(kept.size() + 1, 0) {
    for (std::size_t op = 0; op < kept.size(); ++op) {
      new_row_[op + 1] = new_row_[op] + kept[op];
      if (kept[op] != 0) old_row_.push_back(static_cast<std::uint32_t>(op));
    }
  }

  void run() {
    move_args();
    move_edges();
    move_param_uses();
    move_ranges();
    visit_ops(trace_.ops,
              [&](std::string_view, auto& column, std::string_view, std::string_view) { close_up(column); });
    if (!trace_.op_seconds.empty()) close_up(trace_.op_seconds);
    move_statistics();
  }

 private:
  /// First kept Op at or after `op`: for begins and ends.
  std::int32_t boundary(std::int32_t op) const { return op < 0 ? op : new_row_[static_cast<std::size_t>(op)]; }
  /// The Op itself; -1 if it went.
  std::int32_t reference(std::int32_t op) const {
    return op >= 0 && kept_[static_cast<std::size_t>(op)] != 0 ? new_row_[static_cast<std::size_t>(op)] : -1;
  }

  template <typename T>
  void close_up(Column<T>& column) const {
    auto& rows = column.rows();
    for (std::size_t to = 0; to < old_row_.size(); ++to) rows[to] = rows[old_row_[to]];
    rows.resize(old_row_.size());
    column.refresh();
  }

  void move_edges() {
    auto& parent = trace_.edges.parent.rows();
    auto& arg = trace_.edges.arg.rows();
    auto& sub = trace_.edges.sub.rows();
    std::size_t to = 0;
    for (std::size_t op = 0; op < kept_.size(); ++op) {
      const auto [begin, end] = edge_range(trace_, OpId{static_cast<std::uint32_t>(op)});
      trace_.ops.edge_begin.mut(op) = static_cast<std::int32_t>(to);
      if (kept_[op] == 0) continue;
      for (auto edge = begin; edge < end; ++edge, ++to) {
        parent[to] = reference(parent[edge]);
        arg[to] = arg[edge];
        sub[to] = sub[edge];
      }
    }
    parent.resize(to);
    arg.resize(to);
    sub.resize(to);
    trace_.edges.parent.refresh();
    trace_.edges.arg.refresh();
    trace_.edges.sub.refresh();
  }

  void move_param_uses() {
    auto& op = trace_.param_uses.op.rows();
    auto& param = trace_.param_uses.param.rows();
    auto& arg = trace_.param_uses.arg.rows();
    std::size_t to = 0;
    for (std::size_t row = 0; row < op.size(); ++row) {
      const auto moved = reference(op[row]);
      if (moved < 0) continue;
      op[to] = moved;
      param[to] = param[row];
      arg[to] = arg[row];
      ++to;
    }
    op.resize(to);
    param.resize(to);
    arg.resize(to);
    trace_.param_uses.op.refresh();
    trace_.param_uses.param.refresh();
    trace_.param_uses.arg.refresh();
  }

  /// Statistics of the Ops that stay.
  void move_statistics() {
    StatisticsTable moved;
    moved.taken = trace_.statistics.taken;
    for (std::size_t row = 0; row < trace_.statistics.size(); ++row) {
      const auto op = reference(trace_.statistics.op[row]);
      if (op >= 0) moved.append_copy(static_cast<std::size_t>(op), trace_.statistics, row);
    }
    trace_.statistics = std::move(moved);
  }

  void move_ranges() {
    for (auto* column :
         {&trace_.module_calls.first_op, &trace_.module_calls.end_op, &trace_.branches.first_op,
          &trace_.branches.end_op, &trace_.loops.first_op, &trace_.loops.end_op, &trace_.flow.before_op}) {
      for (auto& op : column->rows()) op = boundary(op);
    }
    for (auto* column : {&trace_.module_calls.output_op, &trace_.branches.test_op}) {
      for (auto& op : column->rows()) op = reference(op);
    }
  }

  /// Lets arguments that read a host value from an Op follow it; their size stays.
  void redirect(std::span<std::int64_t> words) {
    std::size_t at = 0;
    for_each_arg(words, [&](ArgHeader header, std::span<const std::int64_t> payload) {
      const auto header_at = at;
      at += 1 + (is_list(header.tag) ? 1 : 0) + payload.size();
      if (header.tag != ArgTag::kOp) return;
      const OpId op{static_cast<std::uint32_t>(payload[0])};
      auto word = std::int64_t{reference(static_cast<std::int32_t>(payload[0]))};
      if (word < 0) {
        header.tag = ArgTag::kOther;
        word = trace_.strings.intern(raw_label(trace_, op));
        words[header_at] = header.pack();
      }
      words[header_at + 1] = word;
    });
  }

  void move_args() {
    auto& words = trace_.args.rows();
    std::size_t to = 0;
    for (std::size_t op = 0; op < kept_.size(); ++op) {
      const auto from = static_cast<std::size_t>(trace_.ops.args_begin[op]);
      const auto count = op_args(trace_, OpId{static_cast<std::uint32_t>(op)}).size();
      trace_.ops.args_begin.mut(op) = static_cast<std::int32_t>(to);
      if (kept_[op] == 0) continue;
      std::copy_n(words.begin() + static_cast<std::ptrdiff_t>(from), count,
                  words.begin() + static_cast<std::ptrdiff_t>(to));
      redirect(std::span(words).subspan(to, count));
      to += count;
    }
    words.resize(to);
    trace_.args.refresh();
    redirect(trace_.flow_args.rows());
  }

  Trace& trace_;
  const std::vector<std::uint8_t>& kept_;
  std::vector<std::int32_t> new_row_;   ///< by old row: kept Ops before it
  std::vector<std::uint32_t> old_row_;  ///< by new row
};

bool came_to_its_end(const Outcome& outcome) { return outcome.complete() || outcome.status == "halted"; }

}  // namespace

void remove_orphans(StepContext& context) {
  auto& trace = context.trace;
  if (!came_to_its_end(trace.run.outcome)) return;
  const auto kept = find_kept(trace);
  if (std::ranges::find(kept, 0) != kept.end()) Compaction(trace, kept).run();
}

}  // namespace tl
