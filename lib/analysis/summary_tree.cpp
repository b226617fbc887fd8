#include "analysis/summary_tree.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace tl {
namespace {

std::size_t row(std::int32_t value) { return static_cast<std::size_t>(value); }

std::uint64_t pair_key(std::size_t node, std::int32_t number) {
  return static_cast<std::uint64_t>(node) << 32 | static_cast<std::uint32_t>(number);
}

void add_params(ParamCount& sum, const ParamCount& other) {
  sum.elements = saturating_add(sum.elements, other.elements);
  sum.trainable = saturating_add(sum.trainable, other.trainable);
  sum.bytes = saturating_add(sum.bytes, other.bytes);
  sum.tensors += other.tensors;
}

}  // namespace

/// Walks Ops and calls in the order they happened.
class SummaryTreeBuilder {
 public:
  SummaryTreeBuilder(SummaryTree& tree, const std::vector<OpCost>& costs, bool by_layer)
      : trace_(tree.trace_), nodes_(tree.nodes_), costs_(costs), by_layer_(by_layer), params_(module_params(trace_)) {}

  void build() {
    const auto& calls = trace_.module_calls;
    node_of_call_.assign(calls.module.size(), kNone);
    nodes_.emplace_back();
    runs_.emplace_back();
    if (!trace_.modules.address.empty()) nodes_[0].modules.push_back(0);
    for (std::size_t op = 0; op < trace_.num_ops(); ++op) {
      while (next_call_ < calls.module.size() && row(calls.first_op[next_call_]) <= op) enter(next_call_++);
      add(OpId{static_cast<std::uint32_t>(op)});
    }
    while (next_call_ < calls.module.size()) enter(next_call_++);
    add_up();
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  /// The loose operations that a node is in the middle of.
  struct Run {
    std::size_t node = kNone;
    std::int32_t call = -1;
    bool first = false;  ///< the first run of that node
    std::int64_t length = 0;
  };

  /// The node of a call, made with those above it where the order of the file has not brought them yet.
  std::size_t enter(std::size_t call) {
    if (node_of_call_[call] != kNone) return node_of_call_[call];
    std::vector<std::size_t> missing;
    std::size_t above = 0;
    for (auto at = static_cast<std::int32_t>(call); at > 0; at = trace_.module_calls.parent_call[row(at)]) {
      above = node_of_call_[row(at)] == kNone ? 0 : node_of_call_[row(at)];
      if (node_of_call_[row(at)] != kNone) break;
      missing.push_back(row(at));
    }
    for (auto at = missing.rbegin(); at != missing.rend(); ++at) {
      above = child_for(above, *at);
      node_of_call_[*at] = above;
    }
    if (call == 0) {
      node_of_call_[0] = 0;
      ++nodes_[0].calls;
      set_output(nodes_[0], 0);
    }
    return node_of_call_[call];
  }

  std::size_t child_for(std::size_t parent, std::size_t call) {
    const auto module = trace_.module_calls.module[call];
    runs_[parent].node = kNone;
    const auto [found, fresh] = module_nodes_.try_emplace(pair_key(parent, module), nodes_.size());
    if (fresh) {
      nodes_.emplace_back().modules.push_back(module);
      runs_.emplace_back();
      nodes_[parent].children.push_back(found->second);
      if (row(module) < params_.size()) nodes_.back().params = params_[row(module)];
    }
    auto& node = nodes_[found->second];
    if (node.calls++ == 0) set_output(node, call);
    if (call < trace_.module_call_seconds.size()) node.cost.seconds += trace_.module_call_seconds[call];
    return found->second;
  }

  void set_output(SummaryNode& node, std::size_t call) {
    if (const auto output = trace_.module_calls.output_op[call]; output >= 0) {
      node.output = OpId{static_cast<std::uint32_t>(output)};
    }
  }

  void add(OpId op) {
    const auto call = trace_.ops.module_call[op.index()];
    const auto node = call < 0 || row(call) >= node_of_call_.size() ? 0 : enter(row(call));
    // Inputs and buffers are no part of the model's work: the rows would not add up to a total that has them.
    if (trace_.ops.kind[op.index()] != static_cast<std::uint8_t>(OpKind::kOperation)) return;
    nodes_[loose_for(node, call, op)].cost += cost_of_op(trace_, costs_, op);
  }

  std::size_t loose_for(std::size_t node, std::int32_t call, OpId op) {
    auto& run = runs_[node];
    const bool goes_on = run.node != kNone && run.call == call && !by_layer_ &&
                         (run.first || run.length < nodes_[run.node].num_loose);  // a later run is no longer
    if (!goes_on) {
      const auto layer = trace_.ops.layer[op.index()];
      const auto [found, fresh] = loose_nodes_.try_emplace(pair_key(node, layer), nodes_.size());
      if (fresh) {
        nodes_.emplace_back().layer = layer;
        runs_.emplace_back();
        nodes_[node].children.push_back(found->second);
      }
      ++nodes_[found->second].calls;
      runs_[node] = {found->second, call, fresh, 0};
    }
    auto& current = runs_[node];
    ++current.length;
    auto& loose = nodes_[current.node];
    if (current.first || by_layer_) loose.output = op;
    if (current.first) {
      const auto instruction = trace_.ops.instruction[op.index()];
      if (row(static_cast<std::int32_t>(loose.num_loose)) < SummaryNode::kNamesKept && instruction >= 0) {
        loose.names[row(static_cast<std::int32_t>(loose.num_loose))] = trace_.instructions.func_name[row(instruction)];
      }
      if (instruction >= 0) note_name(loose, trace_.instructions.func_name[row(instruction)]);
      ++loose.num_loose;
    }
    return current.node;
  }

  static void note_name(SummaryNode& loose, std::int32_t name) {
    for (auto& known : loose.distinct) {
      if (known == name) return;
      if (known >= 0) continue;
      known = name;
      return;
    }
    loose.has_more_names = true;
  }

  /// Inclusive costs; times measured around calls stay, others are added up.
  void add_up() {
    const bool measured = trace_.module_call_seconds.size() == trace_.module_calls.module.size();
    for (auto node = nodes_.size(); node-- > 0;) {
      const auto seconds = nodes_[node].cost.seconds;
      for (const auto child : nodes_[node].children) nodes_[node].cost += nodes_[child].cost;
      if (measured && nodes_[node].is_module() && node != 0) nodes_[node].cost.seconds = seconds;
    }
    if (!params_.empty()) nodes_[0].params = params_[0];
  }

  const Trace& trace_;
  std::vector<SummaryNode>& nodes_;
  const std::vector<OpCost>& costs_;
  bool by_layer_;
  std::vector<ModuleParams> params_;
  std::vector<std::size_t> node_of_call_;
  std::vector<Run> runs_;  ///< a row a node
  std::size_t next_call_ = 0;
  std::unordered_map<std::uint64_t, std::size_t> module_nodes_;
  std::unordered_map<std::uint64_t, std::size_t> loose_nodes_;
};

SummaryTree::SummaryTree(const Trace& trace, const std::vector<OpCost>& costs, bool by_layer) : trace_(trace) {
  SummaryTreeBuilder(*this, costs, by_layer).build();
}

std::string_view SummaryTree::address(std::size_t node) const {
  const auto& modules = nodes_[node].modules;
  return modules.empty() ? std::string_view() : trace_.strings[trace_.modules.address[row(modules.front())]];
}

std::string_view SummaryTree::class_name(std::size_t node) const {
  const auto& modules = nodes_[node].modules;
  return modules.empty() ? std::string_view() : trace_.strings[trace_.modules.class_name[row(modules.front())]];
}

/// What makes two children of folded blocks the same: last part of the address and class, or the operations.
std::string SummaryTree::key_of(std::size_t node) const {
  const auto& of = nodes_[node];
  if (of.is_module()) {
    const auto full = address(node);
    const auto dot = full.rfind('.');
    return "m" + std::string(full.substr(dot == std::string_view::npos ? 0 : dot + 1)) + "\n" +
           std::string(class_name(node));
  }
  std::string key = "l" + std::to_string(of.num_loose);
  for (const auto name : of.names) key += "\n" + std::string(trace_.strings[name]);
  return key;
}

std::size_t SummaryTree::merge(std::span<const std::size_t> members, int levels) {
  SummaryNode merged;
  std::vector<std::vector<std::size_t>> groups;
  std::map<std::string, std::vector<std::size_t>> groups_of_key;
  for (const auto member : members) {
    const auto& node = nodes_[member];
    if (merged.calls == 0) {
      merged.output = node.output;
      merged.layer = node.layer;
      merged.num_loose = node.num_loose;
      merged.names = node.names;
      merged.distinct = node.distinct;
      merged.has_more_names = node.has_more_names;
    }
    merged.calls += node.calls;
    merged.modules.insert(merged.modules.end(), node.modules.begin(), node.modules.end());
    merged.cost += node.cost;
    add_params(merged.params.own, node.params.own);
    add_params(merged.params.inclusive, node.params.inclusive);
    merged.params.shares |= node.params.shares;
    if (levels == 0) continue;
    std::map<std::string, std::size_t> seen;  // equal children of one member stay apart
    for (const auto child : node.children) {
      const auto key = key_of(child);
      auto& of_key = groups_of_key[key];
      const auto nth = seen[key]++;
      if (nth == of_key.size()) {
        of_key.push_back(groups.size());
        groups.emplace_back();
      }
      groups[of_key[nth]].push_back(child);
    }
  }
  for (const auto& group : groups)
    merged.children.push_back(group.size() == 1 ? group.front() : merge(group, levels - 1));
  nodes_.push_back(std::move(merged));
  return nodes_.size() - 1;
}

}  // namespace tl
