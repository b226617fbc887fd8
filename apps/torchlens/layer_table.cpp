#include <nlohmann/json.hpp>

#include "core/text.h"
#include "cost/op_costs.h"
#include "json_output.h"
#include "screen.h"
#include "summary_table.h"
#include "table.h"
#include "text_format.h"

namespace tl::cli {
namespace {

using Json = nlohmann::ordered_json;

/// What all passes of a Layer come to.
struct LayerFacts {
  OpId first;
  std::int64_t passes = 0;
  double seconds = 0;
  std::int64_t saved = 0;
  std::int64_t flops = 0;
  std::int64_t macs = 0;
  std::int64_t uncounted = 0;  ///< passes without a count
};

LayerFacts facts_of(const Trace& trace, const std::vector<OpCost>& costs, std::size_t layer) {
  LayerFacts facts;
  facts.first = OpId{static_cast<std::uint32_t>(trace.layers.first_op[layer])};
  facts.passes = trace.layers.num_passes[layer];
  const auto begin = static_cast<std::size_t>(trace.layers.ops_begin[layer]);
  for (std::size_t pass = 0; pass < static_cast<std::size_t>(facts.passes); ++pass) {
    const auto op = static_cast<std::size_t>(trace.layer_ops.op[begin + pass]);
    if (op < trace.op_seconds.size()) facts.seconds += static_cast<double>(trace.op_seconds[op]);
    facts.flops = saturating_add(facts.flops, costs[op].flops.value_or(0));
    facts.macs = saturating_add(facts.macs, costs[op].macs.value_or(0));
    facts.uncounted += costs[op].flops ? 0 : 1;
    for (const auto payload : {trace.ops.payload[op], trace.ops.sample[op]}) {
      if (payload >= 0)
        facts.saved = saturating_add(facts.saved, trace.payloads.bytes[static_cast<std::size_t>(payload)]);
    }
  }
  return facts;
}

std::string module_of(const Trace& trace, OpId op) {
  const auto call = static_cast<std::size_t>(trace.ops.module_call[op.index()]);
  return std::string(trace.strings[trace.modules.address[static_cast<std::size_t>(trace.module_calls.module[call])]]);
}

bool is_operation(const Trace& trace, OpId op) {
  return trace.ops.kind[op.index()] == static_cast<std::uint8_t>(OpKind::kOperation);
}

}  // namespace

void print_layer_table(Output& out, const Trace& trace, bool stable) {
  std::vector<Table::ColumnSpec> columns = {
      {"layer", 28, false, 14}, {"passes", 0, true}, {"module", 28, false, 8}, {"output", 24, false, 10}};
  columns.push_back({"FLOPs", 0, true});
  if (!stable) columns.push_back({"time", 0, true});
  columns.push_back({"saved", 0, true});
  Table table(std::move(columns));
  const auto costs = op_costs(trace);
  for (std::size_t layer = 0; layer < trace.layers.first_op.size(); ++layer) {
    const auto facts = facts_of(trace, costs, layer);
    const auto op = facts.first;
    const auto where =
        is_operation(trace, op) ? module_of(trace, op) : std::string(trace.strings[trace.ops.address[op.index()]]);
    std::vector<std::string> cells = {
        layer_label(trace, LayerId{static_cast<std::uint32_t>(layer)}), std::to_string(facts.passes), where,
        format_type(static_cast<DType>(trace.ops.dtype[op.index()]), trace.shapes[trace.ops.shape[op.index()]]),
        format_flops(facts.flops, facts.uncounted)};
    if (!stable) cells.push_back(is_operation(trace, op) ? format_duration(facts.seconds) : "-");
    cells.push_back(facts.saved > 0 ? format_bytes(static_cast<std::uint64_t>(facts.saved)) : "-");
    table.add(std::move(cells));
  }
  table.print(out, "", out.width());
}

Json layer_table_json(const Trace& trace, bool stable) {
  Json layers = Json::array();
  const auto costs = op_costs(trace);
  for (std::size_t layer = 0; layer < trace.layers.first_op.size(); ++layer) {
    const auto facts = facts_of(trace, costs, layer);
    const auto op = facts.first;
    const auto sizes = trace.shapes[trace.ops.shape[op.index()]];
    layers.push_back({{"layer_label", layer_label(trace, LayerId{static_cast<std::uint32_t>(layer)})},
                      {"layer_type", layer_type(trace, op)},
                      {"func_name", func_name(trace, op)},
                      {"module", module_of(trace, op)},
                      {"num_passes", facts.passes},
                      {"shape", std::vector<std::int64_t>(sizes.begin(), sizes.end())},
                      {"dtype", short_name(static_cast<DType>(trace.ops.dtype[op.index()]))},
                      {"flops_forward", facts.uncounted > 0 ? Json() : Json(facts.flops)},
                      {"macs_forward", facts.uncounted > 0 ? Json() : Json(facts.macs)}});
    if (!stable) layers.back()["func_duration"] = facts.seconds;
    layers.back()["saved_bytes"] = facts.saved;
  }
  return layers;
}

}  // namespace tl::cli
