#include "branch_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "trace/branches.h"

namespace tl::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostEdges = 20;  // of an arm that are listed

std::size_t index(std::int32_t row) { return static_cast<std::size_t>(row); }

std::string place_of(const Trace& trace, std::int32_t conditional) {
  const auto instruction = trace.conditionals.instruction[index(conditional)];
  const auto site = instruction < 0 ? -1 : trace.instructions.call_site[index(instruction)];
  const auto line = trace.conditionals.line[index(conditional)];
  if (site < 0) return "not stated";
  const auto file = std::string(trace.strings[trace.call_sites.file[index(site)]]);
  if (file.empty()) return "not stated";
  return file + ":" + std::to_string(line > 0 ? line : trace.call_sites.line[index(site)]);
}

std::string edge_text(const Trace& trace, const BranchEdge& edge) {
  const OpId parent{static_cast<std::uint32_t>(trace.edges.parent[index(edge.edge)])};
  return op_label(trace, parent) + " -> " + op_label(trace, OpId{static_cast<std::uint32_t>(edge.child)});
}

Json arm_json(const Trace& trace, std::int32_t arm, const std::vector<BranchEdge>& edges) {
  const auto& arms = trace.conditional_arms;
  const auto row = index(arm);
  Json item;
  item["kind"] = arm_name(trace, arm);
  if (arms.line[row] > 0) {
    item["lines"] = std::to_string(arms.line[row]) +
                    (arms.line_end[row] > arms.line[row] ? "-" + std::to_string(arms.line_end[row]) : "");
  }
  if (arms.test[row] >= 0) item["test"] = trace.strings[arms.test[row]];
  if (arms.test[row] >= 0 || arms.evaluated[row] > 0) item["evaluated"] = arms.evaluated[row];
  item["fired"] = arms.fired[row];
  if (arms.test_op[row] >= 0) item["test_op"] = op_label(trace, OpId{static_cast<std::uint32_t>(arms.test_op[row])});
  Json entry = Json::array();
  for (const auto& edge : edges) {
    if (edge.arm == arm && entry.size() < kMostEdges) entry.push_back(edge_text(trace, edge));
  }
  if (!entry.empty()) item["entry_edges"] = std::move(entry);
  return item;
}

}  // namespace

void add_branches(Json& record, const Trace& trace, OpId op) {
  const auto stack = branch_stack(trace, op);
  const auto position = static_cast<std::int32_t>(op.value);
  const auto asked = std::ranges::find(trace.bools.op, position);
  const auto decided = std::ranges::find(trace.branches.test_op, position);
  if (stack.empty() && asked == trace.bools.op.end() && decided == trace.branches.test_op.end()) return;
  const auto labels = conditional_labels(trace);
  if (!stack.empty()) {
    Json arms = Json::array();
    for (const auto row : stack) {
      const auto conditional = trace.branches.conditional[index(row)];
      arms.push_back({{"conditional", labels[index(conditional)]},
                      {"arm", arm_name(trace, trace.branches.conditional_arm[index(row)])},
                      {"at", place_of(trace, conditional)}});
    }
    record["branches"] = std::move(arms);
  }
  if (asked != trace.bools.op.end()) {
    const auto row = static_cast<std::size_t>(asked - trace.bools.op.begin());
    record["bool_value"] = trace.bools.value[row] != 0;
    record["conditional_context_kind"] = to_string(static_cast<BoolContext>(trace.bools.context[row]));
  }
  if (decided != trace.branches.test_op.end()) {
    const auto row = static_cast<std::size_t>(decided - trace.branches.test_op.begin());
    record["decides"] = labels[index(trace.branches.conditional[row])];
  }
}

Json conditional_record(const Trace& trace, std::uint32_t conditional) {
  const auto row = static_cast<std::int32_t>(conditional);
  const auto& conditionals = trace.conditionals;
  const auto labels = conditional_labels(trace);
  Json record;
  record["record"] = "conditional";
  record["label"] = labels[conditional];
  record["kind"] = to_string(static_cast<ConditionalKind>(conditionals.kind[conditional]));
  record["source"] = place_of(trace, row);
  const auto context = conditionals.site_context[conditional];
  if (context >= 0) {
    const auto module = trace.site_contexts.module[index(context)];
    record["module"] = trace.strings[trace.modules.address[index(module)]];
  }
  const auto range = arms_of(trace, row);
  const auto fired = fired_arm(trace, row);
  record["outcome"] = outcome(trace, row);
  record["fired_arm_kind"] = fired < 0 ? Json(nullptr) : Json(arm_name(trace, fired));
  record["num_arms"] = conditionals.num_arms[conditional];
  bool has_else = false;
  for (auto arm = range.first; arm < range.end; ++arm) {
    has_else = has_else || trace.conditional_arms.kind[index(arm)] == static_cast<std::uint8_t>(ArmKind::kElse);
  }
  record["has_else"] = has_else;
  if (const auto parent = conditionals.parent_arm[conditional]; parent >= 0) {
    record["stands_in"] =
        arm_name(trace, parent) + " of " + labels[index(trace.conditional_arms.conditional[index(parent)])];
  }
  std::vector<BranchEdge> edges;
  for (const auto& edge : branch_edges(trace)) {
    if (edge.conditional == row) edges.push_back(edge);
  }
  Json tests = Json::array();
  for (const auto& edge : edges) {
    if (edge.arm < 0 && tests.size() < kMostEdges) tests.push_back(edge_text(trace, edge));
  }
  if (!tests.empty()) record["test_edges"] = std::move(tests);
  Json arms = Json::array();
  for (auto arm = range.first; arm < range.end; ++arm) arms.push_back(arm_json(trace, arm, edges));
  record["arms"] = std::move(arms);
  return record;
}

}  // namespace tl::cli
