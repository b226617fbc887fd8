#include "trace/branches.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <unordered_map>

namespace tl {
namespace {

std::size_t index(std::int32_t row) { return static_cast<std::size_t>(row); }

bool has_arms(ConditionalKind kind) { return kind <= ConditionalKind::kCond; }

/// Walks back from the Ops that decided tests to where their inputs leave what feeds an output.
class TestEdges {
 public:
  TestEdges(const Trace& trace, std::vector<BranchEdge>& out) : trace_(trace), out_(out) {}

  void add_all() {
    const auto& branches = trace_.branches;
    std::vector<std::vector<std::int32_t>> tests(trace_.conditionals.instruction.size());
    for (std::size_t row = 0; row < branches.conditional.size(); ++row) {
      const auto conditional = branches.conditional[row];
      const auto kind = static_cast<ConditionalKind>(trace_.conditionals.kind[index(conditional)]);
      const auto op = branches.test_op[row];
      if (has_arms(kind) && op >= 0 && only_tests(op)) tests[index(conditional)].push_back(op);
    }
    visited_by_.assign(trace_.num_ops(), -1);
    for (std::size_t row = 0; row < tests.size(); ++row) flood(static_cast<std::int32_t>(row), tests[row]);
  }

 private:
  /// Not so where the test asked for the shape of what is computed anyway.
  bool only_tests(std::int32_t op) const {
    return (trace_.ops.flags[index(op)] & (kOpScalarBool | kOpOutputAncestor)) != kOpOutputAncestor;
  }

  void flood(std::int32_t conditional, std::vector<std::int32_t> open) {
    while (!open.empty()) {
      const auto op = open.back();
      open.pop_back();
      if (visited_by_[index(op)] == conditional) continue;
      visited_by_[index(op)] = conditional;
      const auto [begin, end] = edge_range(trace_, OpId{static_cast<std::uint32_t>(op)});
      for (auto edge = begin; edge < end; ++edge) {
        const auto parent = trace_.edges.parent[edge];
        if ((trace_.ops.flags[index(parent)] & kOpOutputAncestor) == 0) {
          open.push_back(parent);
        } else {
          out_.push_back({static_cast<std::int32_t>(edge), op, conditional, -1});
        }
      }
    }
  }

  const Trace& trace_;
  std::vector<BranchEdge>& out_;
  std::vector<std::int32_t> visited_by_;
};

void add_entry_edges(const Trace& trace, std::vector<BranchEdge>& out) {
  const auto& branches = trace.branches;
  for (std::size_t op = 0; op < trace.num_ops(); ++op) {
    if (trace.ops.branch[op] < 0) continue;
    const auto [begin, end] = edge_range(trace, OpId{static_cast<std::uint32_t>(op)});
    for (auto row = trace.ops.branch[op]; row >= 0; row = branches.parent[index(row)]) {
      const auto arm = branches.conditional_arm[index(row)];
      if (arm < 0) continue;
      for (auto edge = begin; edge < end; ++edge) {
        const auto parent = trace.edges.parent[edge];
        if (parent >= branches.first_op[index(row)] && parent < branches.end_op[index(row)]) continue;
        out.push_back(
            {static_cast<std::int32_t>(edge), static_cast<std::int32_t>(op), branches.conditional[index(row)], arm});
      }
    }
  }
}

}  // namespace

std::string_view to_string(ConditionalKind kind) {
  constexpr std::array<std::string_view, 7> kNames = {"unknown", "if_chain", "ifexp",   "cond",
                                                      "bool_op", "assert",   "compiler"};
  return kNames.at(static_cast<std::size_t>(kind));
}

std::string_view to_string(BoolContext context) {
  constexpr std::array<std::string_view, 10> kNames = {"unknown",     "if_test", "elif_test", "ifexp",
                                                       "while",       "assert",  "bool_cast", "comprehension_filter",
                                                       "match_guard", "cond"};
  return kNames.at(static_cast<std::size_t>(context));
}

std::string arm_name(const Trace& trace, std::int32_t arm) {
  constexpr std::array<std::string_view, 6> kNames = {"then", "elif", "else", "fallthrough", "true_side", "false_side"};
  const auto kind = trace.conditional_arms.kind[index(arm)];
  auto name = std::string(kNames.at(kind));
  if (static_cast<ArmKind>(kind) == ArmKind::kElif) {
    name += "_" + std::to_string(trace.conditional_arms.elif_index[index(arm)]);
  }
  return name;
}

std::vector<std::string> conditional_labels(const Trace& trace) {
  const auto& branches = trace.branches;
  std::vector<std::int32_t> decided(trace.conditionals.instruction.size(), -1);
  for (std::size_t row = 0; row < branches.conditional.size(); ++row) {
    auto& op = decided[index(branches.conditional[row])];
    if (op < 0) op = branches.test_op[row];
  }
  std::vector<std::string> labels;
  std::unordered_map<std::string, int> uses;
  for (std::size_t row = 0; row < decided.size(); ++row) {
    const auto kind = static_cast<ConditionalKind>(trace.conditionals.kind[row]);
    auto label = has_arms(kind) ? std::string("cond_") : std::string(to_string(kind)) + "_";
    const auto layer = decided[row] < 0 ? -1 : trace.ops.layer[index(decided[row])];
    label +=
        layer < 0 ? "if_" + std::to_string(row + 1) : layer_label(trace, LayerId{static_cast<std::uint32_t>(layer)});
    const auto count = ++uses[label];
    if (count > 1) label += "." + std::to_string(count);
    labels.push_back(std::move(label));
  }
  return labels;
}

ArmRange arms_of(const Trace& trace, std::int32_t conditional) {
  const auto owners = trace.conditional_arms.conditional.view();
  const auto [first, end] = std::ranges::equal_range(owners, conditional);
  return {static_cast<std::int32_t>(first - owners.begin()), static_cast<std::int32_t>(end - owners.begin())};
}

std::int32_t fired_arm(const Trace& trace, std::int32_t conditional) {
  const auto range = arms_of(trace, conditional);
  std::int32_t fired = -1;
  for (auto arm = range.first; arm < range.end; ++arm) {
    if (trace.conditional_arms.fired[index(arm)] == 0) continue;
    if (fired >= 0) return -1;
    fired = arm;
  }
  return fired;
}

std::string outcome(const Trace& trace, std::int32_t conditional) {
  const auto range = arms_of(trace, conditional);
  if (range.first == range.end) return "not_attributed";
  if (const auto arm = fired_arm(trace, conditional); arm >= 0) return arm_name(trace, arm);
  const auto fired = trace.conditional_arms.fired.view().subspan(index(range.first), index(range.end - range.first));
  return std::ranges::any_of(fired, [](std::int32_t times) { return times > 0; }) ? "several" : "none";
}

std::vector<std::int32_t> branch_stack(const Trace& trace, OpId op) {
  std::vector<std::int32_t> stack;
  for (auto row = trace.ops.branch[op.index()]; row >= 0; row = trace.branches.parent[index(row)]) {
    if (trace.branches.conditional_arm[index(row)] >= 0) stack.push_back(row);
  }
  std::ranges::reverse(stack);
  return stack;
}

std::vector<BranchEdge> branch_edges(const Trace& trace) {
  std::vector<BranchEdge> edges;
  TestEdges(trace, edges).add_all();
  add_entry_edges(trace, edges);
  std::ranges::sort(edges, [](const BranchEdge& left, const BranchEdge& right) {
    return std::tie(left.edge, left.conditional, left.arm) < std::tie(right.edge, right.conditional, right.arm);
  });
  const auto same = [](const BranchEdge& left, const BranchEdge& right) {
    return left.edge == right.edge && left.conditional == right.conditional && left.arm == right.arm;
  };
  const auto repeated = std::ranges::unique(edges, same);
  edges.erase(repeated.begin(), repeated.end());
  return edges;
}

std::string branch_edge_label(const Trace& trace, const BranchEdge& edge) {
  if (edge.arm < 0) return "IF";
  auto name = arm_name(trace, edge.arm);
  for (auto& c : name) c = c == '_' ? ' ' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return name;
}

}  // namespace tl
