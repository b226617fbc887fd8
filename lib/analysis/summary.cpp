#include "analysis/summary.h"

#include <algorithm>

#include "analysis/summary_rows.h"
#include "analysis/summary_tree.h"

namespace tl {
namespace {

/// Goes down while a module does nothing but call one other, once, which has parts of its own.
std::size_t base_of(const SummaryTree& tree) {
  std::size_t base = 0;
  while (tree[base].children.size() == 1) {
    const auto only = tree[base].children.front();
    if (!tree[only].is_module() || tree[only].calls != 1) break;
    const auto& inner = tree[only].children;
    if (std::ranges::none_of(inner, [&](std::size_t child) { return tree[child].is_module(); })) break;
    base = only;
  }
  return base;
}

void count_layers(const Trace& trace, TraceSummary& summary) {
  for (const auto kind : trace.ops.kind) summary.num_ops += kind == static_cast<std::uint8_t>(OpKind::kOperation);
  for (std::size_t layer = 0; layer < trace.layers.num_passes.size(); ++layer) {
    if (trace.layers.total_num[layer] == 0) continue;
    ++summary.num_layers;
    const std::int64_t passes = trace.layers.num_passes[layer];
    if (passes < 2) continue;
    summary.min_passes = summary.num_recurrent == 0 ? passes : std::min(summary.min_passes, passes);
    summary.max_passes = std::max(summary.max_passes, passes);
    ++summary.num_recurrent;
  }
}

}  // namespace

std::int64_t params_below(const Trace& trace, ModuleId module) {
  const auto params = module_params(trace);
  return module.index() < params.size() ? params[module.index()].inclusive.elements : 0;
}

std::string display_name(const SummaryRow& row) {
  if (row.kind == SummaryRow::Kind::kElided) return "… " + std::to_string(row.modules) + " more";
  if (row.folded.empty()) return row.name + (row.calls > 1 ? " ×" + std::to_string(row.calls) : "");
  auto text = row.name;
  if (!text.empty()) text += row.numbers_apart ? "  " : ".";
  text += row.folded + " ×" + std::to_string(row.modules);
  if (row.calls > row.modules) text += " (" + std::to_string(row.calls) + " calls)";
  return text;
}

TraceSummary summarise(const Trace& trace, const SummaryOptions& options) {
  TraceSummary summary;
  const auto costs = op_costs(trace);
  SummaryTree tree(trace, costs, options.level == SummaryLevel::kOp);
  const auto base = base_of(tree);
  if (base != 0) summary.base = std::string(tree.address(base));
  summary.rows = SummaryRows(tree, options).make(base);
  count_layers(trace, summary);
  summary.params = param_totals(trace);
  summary.cost = cost_totals(trace, costs);
  for (const auto& row : summary.rows) summary.seconds += row.depth == 0 ? row.cost.seconds : 0;
  summary.saved_bytes = tree[0].cost.saved_bytes;
  if (options.memory) summary.memory = memory_timeline(trace);
  return summary;
}

}  // namespace tl
