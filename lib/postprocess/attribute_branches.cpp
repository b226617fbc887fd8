// Before: branches holds every executed arm and conditionals every `if` that ran, ranges counting the Ops that stayed.
// After: conditionals are the chains, ternaries and torch.conds of the source, conditional_arms their arms, and
// branches say which arm ran; only those are left that some Op hangs on, or whose condition is the value of an Op;
// ops.branch is the innermost arm an Op stands in by the source; bools says what asked a tensor for its truth value.
// Without source texts a conditional keeps its two sides, which are not called then and else. After remove-orphans,
// because what hangs on an arm is decided by the Ops that are left.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "postprocess/branch_arms.h"
#include "postprocess/classify_bools.h"
#include "postprocess/source_places.h"
#include "postprocess/step.h"

namespace tl {
namespace {

/// Keeps the marked rows of every column of a table, by its generated visitor.
template <typename T>
void keep_rows(Column<T>& column, const std::vector<bool>& kept) {
  auto& rows = column.rows();
  std::size_t to = 0;
  for (std::size_t row = 0; row < kept.size(); ++row) {
    if (kept[row]) rows[to++] = rows[row];
  }
  rows.resize(to);
  column.refresh();
}

std::vector<std::int32_t> new_rows(const std::vector<bool>& kept) {
  std::vector<std::int32_t> rows(kept.size(), -1);
  std::int32_t next = 0;
  for (std::size_t row = 0; row < kept.size(); ++row) {
    if (kept[row]) rows[row] = next++;
  }
  return rows;
}

void keep_branches(Trace& trace) {
  auto& branches = trace.branches;
  std::vector<bool> kept(branches.conditional.size());
  std::vector<std::int32_t> kept_ancestor(kept.size(), -1);  // nearest, in old rows
  for (std::size_t row = 0; row < kept.size(); ++row) {
    kept[row] = branches.first_op[row] < branches.end_op[row] || branches.test_op[row] >= 0;
    const auto parent = branches.parent[row];
    if (parent < 0) continue;
    const auto up = static_cast<std::size_t>(parent);
    kept_ancestor[row] = kept[up] ? parent : kept_ancestor[up];
  }
  const auto rows = new_rows(kept);
  for (std::size_t row = 0; row < kept.size(); ++row) {
    const auto ancestor = kept_ancestor[row];
    branches.parent.mut(row) = ancestor < 0 ? -1 : rows[static_cast<std::size_t>(ancestor)];
  }
  visit_branches(branches,
                 [&](std::string_view, auto& column, std::string_view, std::string_view) { keep_rows(column, kept); });
}

void keep_conditionals(Trace& trace) {
  auto& conditionals = trace.conditionals;
  auto& branches = trace.branches;
  auto& arms = trace.conditional_arms;
  std::vector<bool> kept(conditionals.instruction.size(), false);
  for (const auto conditional : branches.conditional) kept[static_cast<std::size_t>(conditional)] = true;
  std::vector<bool> kept_arms(arms.conditional.size());
  for (std::size_t row = 0; row < kept_arms.size(); ++row) {
    kept_arms[row] = kept[static_cast<std::size_t>(arms.conditional[row])];
  }
  for (auto& arm : conditionals.parent_arm.rows()) {
    while (arm >= 0 && !kept_arms[static_cast<std::size_t>(arm)]) {
      const auto owner = static_cast<std::size_t>(arms.conditional[static_cast<std::size_t>(arm)]);
      arm = conditionals.parent_arm[owner];
    }
  }
  const auto rows = new_rows(kept);
  const auto arm_rows = new_rows(kept_arms);
  for (auto& arm : conditionals.parent_arm.rows()) arm = arm < 0 ? -1 : arm_rows[static_cast<std::size_t>(arm)];
  for (auto& conditional : branches.conditional.rows()) conditional = rows[static_cast<std::size_t>(conditional)];
  for (auto& conditional : arms.conditional.rows()) conditional = rows[static_cast<std::size_t>(conditional)];
  for (auto& arm : branches.conditional_arm.rows()) arm = arm < 0 ? -1 : arm_rows[static_cast<std::size_t>(arm)];
  visit_conditionals(conditionals, [&](std::string_view, auto& column, std::string_view, std::string_view) {
    keep_rows(column, kept);
  });
  visit_conditional_arms(
      arms, [&](std::string_view, auto& column, std::string_view, std::string_view) { keep_rows(column, kept_arms); });
}

void hang_ops(Trace& trace) {
  const auto& branches = trace.branches;
  auto& branch_of = trace.ops.branch.rows();
  std::vector<std::int32_t> open;
  std::size_t next = 0;
  for (std::size_t op = 0; op < branch_of.size(); ++op) {
    const auto position = static_cast<std::int64_t>(op);
    while (!open.empty() && branches.end_op[static_cast<std::size_t>(open.back())] <= position) open.pop_back();
    for (; next < branches.first_op.size() && branches.first_op[next] <= position; ++next) {
      if (branches.end_op[next] > position) open.push_back(static_cast<std::int32_t>(next));
    }
    branch_of[op] = open.empty() ? -1 : open.back();
  }
}

}  // namespace

void attribute_branches(StepContext& context) {
  auto& trace = context.trace;
  SourcePlaces places(context.sources, trace);
  if (!trace.branches.arm.empty()) {
    name_arms(trace, places);
    keep_branches(trace);
    keep_conditionals(trace);
    hang_ops(trace);
  } else {
    std::ranges::fill(trace.ops.branch.rows(), -1);
  }
  classify_bools(trace, places);
}

}  // namespace tl
