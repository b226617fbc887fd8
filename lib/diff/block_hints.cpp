#include "diff/block_hints.h"

#include <algorithm>
#include <cstdint>

#include "diff/side.h"

namespace tl {
namespace {

constexpr std::size_t kMostSteps = 32;

std::size_t row_of(std::int64_t row) { return static_cast<std::size_t>(row); }

/// Two neighbouring axes that `size` may have been cut into: (count, block), where a fused projection holds up to three
/// of them.
void add_heads(std::span<const std::int64_t> sizes, std::int64_t axis, std::int64_t size,
               std::vector<BlockHint>& hints) {
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    const auto heads = sizes[i];
    const auto width = sizes[i + 1];
    if (heads < 2 || width < 2 || heads > size || width > size || size % (heads * width) != 0) continue;
    if (size / (heads * width) > 3) continue;
    const BlockHint hint{axis, size / width, "heads"};
    const bool known = std::ranges::any_of(
        hints, [&](const BlockHint& each) { return each.axis == hint.axis && each.count == hint.count; });
    if (!known) hints.push_back(hint);
  }
}

}  // namespace

std::vector<BlockHint> BlockHints::of(std::size_t param) {
  std::vector<BlockHint> hints;
  const auto sizes = trace_.shapes[trace_.params.shape[param]];
  if (sizes.empty()) return hints;
  for (std::size_t use = 0; use < trace_.param_uses.op.size(); ++use) {
    if (trace_.param_uses.param[use] != static_cast<std::int32_t>(param)) continue;
    const OpId op{static_cast<std::uint32_t>(trace_.param_uses.op[use])};
    add_gates(op, hints);
    add_heads_below(op, sizes[0], hints);
    if (sizes.size() == 2) add_heads_above(op, sizes[1], hints);
  }
  return hints;
}

void BlockHints::add_gates(OpId op, std::vector<BlockHint>& hints) const {
  const auto type = layer_type(trace_, op);
  if (type.find("lstm") != std::string_view::npos) hints.push_back({0, 4, "gates"});
  if (type.find("gru") != std::string_view::npos) hints.push_back({0, 3, "gates"});
}

void BlockHints::add_heads_below(OpId op, std::int64_t rows, std::vector<BlockHint>& hints) {
  if (children_.begin.empty()) children_ = make_child_index(trace_);
  std::vector<std::size_t> todo = {op.index()};
  for (std::size_t at = 0; at < todo.size() && todo.size() < kMostSteps; ++at) {
    const auto begin = row_of(children_.begin[todo[at]]);
    const auto end = row_of(children_.begin[todo[at] + 1]);
    for (auto child = begin; child < end; ++child) {
      const auto row = row_of(children_.child[child]);
      if (trace_.ops.kind[row] != 0) continue;
      const bool is_view = (trace_.ops.flags[row] & kOpView) != 0 || is_neutral(trace_, row);
      if (!is_view || std::ranges::find(todo, row) != todo.end()) continue;
      add_heads(trace_.shapes[trace_.ops.shape[row]], 0, rows, hints);
      todo.push_back(row);
    }
  }
}

void BlockHints::add_heads_above(OpId op, std::int64_t columns, std::vector<BlockHint>& hints) const {
  auto row = op.index();
  for (std::size_t step = 0; step < kMostSteps; ++step) {
    const auto [begin, end] = edge_range(trace_, OpId{static_cast<std::uint32_t>(row)});
    if (begin == end) return;
    row = row_of(trace_.edges.parent[begin]);
    const auto sizes = trace_.shapes[trace_.ops.shape[row]];
    if (sizes.size() > 3) add_heads(sizes, 1, columns, hints);
    const bool is_view = (trace_.ops.flags[row] & kOpView) != 0 || is_neutral(trace_, row);
    if (trace_.ops.kind[row] != 0 || !is_view) return;
  }
}

}  // namespace tl
