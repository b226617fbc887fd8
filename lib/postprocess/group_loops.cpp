// Before: every Op knows its instruction, output slot and site context. After: Ops that are the same code are passes of
// one Layer: same innermost module instance, same chain of calls inside its forward, same place in the source, same
// function name and same output slot. The instruction does not count: a traced module called k times has k methods that
// share their places. Where the file states columns they decide; where it does not, equal lines are one place, and the
// Layer says so (grouping_basis). An instruction without a place is a place of its own. Inputs, outputs and buffer rows
// are a Layer each. Layers come by first pass. Before labels, which count Layers.
#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/error.h"
#include "postprocess/row_map.h"
#include "postprocess/step.h"

namespace tl {
namespace {

/// Dense numbers for equal values, in order of first use.
template <typename Key>
class Numbering {
 public:
  std::int32_t operator()(const Key& key) {
    return numbers_.try_emplace(key, static_cast<std::int32_t>(numbers_.size())).first->second;
  }

 private:
  std::map<Key, std::int32_t> numbers_;
};

/// Places in the source, instructions and contexts reduced to numbers that are equal when the code is the same.
struct CodeClasses {
  std::vector<std::int32_t> of_instruction;
  std::vector<std::int32_t> of_context;
  std::vector<bool> instruction_by_line;  ///< no columns: equal lines are taken for one place
  std::vector<bool> context_by_line;
};

bool has_place(const Trace& trace, std::int32_t site) {
  return site >= 0 && trace.call_sites.line[static_cast<std::size_t>(site)] > 0;
}

bool by_line(const Trace& trace, std::int32_t site) {
  return has_place(trace, site) && trace.call_sites.column[static_cast<std::size_t>(site)] < 0;
}

/// Equal for call sites that are the same place; a row without a place is its own.
std::vector<std::int32_t> number_sites(const Trace& trace) {
  const auto& sites = trace.call_sites;
  Numbering<std::tuple<std::int32_t, std::int32_t, std::int32_t, std::int32_t, std::int32_t>> number;
  std::vector<std::int32_t> result;
  for (std::size_t row = 0; row < sites.file.size(); ++row) {
    const auto own = has_place(trace, static_cast<std::int32_t>(row)) ? -1 : static_cast<std::int32_t>(row);
    result.push_back(number({sites.file[row], sites.line[row], sites.column[row], sites.column_end[row], own}));
  }
  return result;
}

CodeClasses classify(const Trace& trace) {
  CodeClasses classes;
  const auto site_number = number_sites(trace);
  const auto number_of = [&](std::int32_t site) { return site < 0 ? -1 : site_number[static_cast<std::size_t>(site)]; };
  const auto& instructions = trace.instructions;
  Numbering<std::tuple<std::int32_t, std::int32_t, std::int32_t>> instruction_number;
  for (std::size_t row = 0; row < instructions.call_site.size(); ++row) {
    const auto site = instructions.call_site[row];
    const bool placed = has_place(trace, site);
    const auto own = placed ? -1 : static_cast<std::int32_t>(row);
    classes.of_instruction.push_back(
        instruction_number({placed ? number_of(site) : -1, instructions.func_name[row], own}));
    classes.instruction_by_line.push_back(by_line(trace, site));
  }
  const auto& contexts = trace.site_contexts;
  Numbering<std::tuple<std::int32_t, std::int32_t, std::int32_t>> context_number;
  for (std::size_t row = 0; row < contexts.module.size(); ++row) {
    const auto parent = contexts.parent[row];
    TL_CHECK(parent < static_cast<std::int64_t>(row), "a site context comes after the one that calls it");
    const auto up = static_cast<std::size_t>(parent < 0 ? 0 : parent);
    const auto chain = parent < 0 ? -1 : classes.of_context[up];
    classes.of_context.push_back(context_number({contexts.module[row], chain, number_of(contexts.call_site[row])}));
    classes.context_by_line.push_back(by_line(trace, contexts.call_site[row]) ||
                                      (parent >= 0 && classes.context_by_line[up]));
  }
  return classes;
}

struct LayerKey {
  std::int32_t context = 0;
  std::int32_t instruction = 0;
  std::uint16_t slot = 0;

  bool operator==(const LayerKey&) const = default;
  std::uint64_t hash() const {
    const auto pair =
        static_cast<std::uint64_t>(static_cast<std::uint32_t>(context)) << 32 | static_cast<std::uint32_t>(instruction);
    return mix(pair, slot);
  }
};

class Grouping {
 public:
  explicit Grouping(Trace& trace)
      : trace_(trace),
        classes_(classify(trace)),
        io_types_{-1, trace.strings.intern("input"), trace.strings.intern("buffer"), trace.strings.intern("output")} {}

  void run() {
    auto& ops = trace_.ops;
    auto& layers = trace_.layers;
    visit_layers(layers, [](std::string_view, auto& column, std::string_view, std::string_view) { column.assign({}); });
    auto& layer_of = ops.layer.rows();
    auto& pass_of = ops.pass_index.rows();
    for (std::size_t op = 0; op < trace_.num_ops(); ++op) {
      const auto layer = find_layer(op);
      layer_of[op] = layer;
      pass_of[op] = ++layers.num_passes.mut(static_cast<std::size_t>(layer));
    }
    list_passes();
  }

 private:
  std::int32_t find_layer(std::size_t op) {
    const auto next = static_cast<std::int32_t>(trace_.layers.num_passes.size());
    const auto instruction = trace_.ops.instruction[op];
    const auto context = trace_.ops.site_context[op];
    if (trace_.ops.kind[op] != 0 || instruction < 0) {
      append_layer(op, io_types_[trace_.ops.kind[op] & 3], false);
      return next;
    }
    const auto row = static_cast<std::size_t>(instruction);
    const auto context_row = static_cast<std::size_t>(context);
    const LayerKey key{context < 0 ? -1 : classes_.of_context[context_row], classes_.of_instruction[row],
                       trace_.ops.slot[op]};
    const auto layer = layers_.find_or_insert(key, next);
    if (layer == next) {
      append_layer(op, trace_.instructions.layer_type[row],
                   classes_.instruction_by_line[row] || (context >= 0 && classes_.context_by_line[context_row]));
    }
    return layer;
  }

  void append_layer(std::size_t op, std::int32_t layer_type, bool line) {
    auto& layers = trace_.layers;
    layers.layer_type.push_back(layer_type);
    layers.type_num.push_back(0);
    layers.total_num.push_back(0);
    layers.num_passes.push_back(0);
    layers.first_op.push_back(static_cast<std::int32_t>(op));
    layers.ops_begin.push_back(0);
    layers.grouping_basis.push_back(static_cast<std::uint8_t>(line ? GroupingBasis::kLine : GroupingBasis::kColumns));
  }

  void list_passes() {
    auto& layers = trace_.layers;
    std::int32_t begin = 0;
    for (std::size_t layer = 0; layer < layers.num_passes.size(); ++layer) {
      layers.ops_begin.mut(layer) = begin;
      begin += layers.num_passes[layer];
    }
    std::vector<std::int32_t> listed(trace_.num_ops());
    for (std::size_t op = 0; op < trace_.num_ops(); ++op) {
      const auto layer = static_cast<std::size_t>(trace_.ops.layer[op]);
      listed[static_cast<std::size_t>(layers.ops_begin[layer] + trace_.ops.pass_index[op] - 1)] =
          static_cast<std::int32_t>(op);
    }
    trace_.layer_ops.op.assign(std::move(listed));
  }

  Trace& trace_;
  CodeClasses classes_;
  std::int32_t io_types_[4];
  RowMap<LayerKey> layers_;
};

}  // namespace

void group_loops(StepContext& context) { Grouping(context.trace).run(); }

}  // namespace tl
