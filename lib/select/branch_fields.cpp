// Fields of conditionals, their arms and their executions, and what Ops say of them.
#include "select/branch_fields.h"

#include <algorithm>

#include "trace/branches.h"

namespace tl {
namespace {

using C = const FieldContext&;
using V = FieldValue&;

constexpr auto kBool = FieldType::kBool;
constexpr auto kInteger = FieldType::kInteger;
constexpr auto kString = FieldType::kString;
constexpr auto kStrings = FieldType::kStrings;

std::size_t at(std::int32_t row) { return static_cast<std::size_t>(row); }
std::int32_t number(std::size_t row) { return static_cast<std::int32_t>(row); }

void set_label(C c, std::int32_t conditional, V v) {
  if (conditional < 0) return v.set_none();
  v.set_text(c.branch_facts().labels[at(conditional)]);
}

void set_arm(C c, std::int32_t arm, V v) {
  if (arm < 0) return v.set_none();
  v.owned = arm_name(c.trace(), arm);
  v.set_owned();
}

/// arm of conditional
void set_arm_of(C c, std::int32_t arm, V v) {
  if (arm < 0) return v.set_none();
  const auto conditional = c.trace().conditional_arms.conditional[at(arm)];
  v.owned = arm_name(c.trace(), arm) + " of " + c.branch_facts().labels[at(conditional)];
  v.set_owned();
}

std::int32_t count_arms(C c, std::size_t conditional, ArmKind kind) {
  const auto range = arms_of(c.trace(), number(conditional));
  std::int32_t count = 0;
  for (auto arm = range.first; arm < range.end; ++arm) {
    if (c.trace().conditional_arms.kind[at(arm)] == static_cast<std::uint8_t>(kind)) ++count;
  }
  return count;
}

void set_source_file(C c, std::size_t row, V v) {
  const auto& trace = c.trace();
  const auto instruction = trace.conditionals.instruction[row];
  const auto site = instruction < 0 ? -1 : trace.instructions.call_site[at(instruction)];
  const auto file = site < 0 ? std::string_view() : trace.strings[trace.call_sites.file[at(site)]];
  if (file.empty()) return v.set_none();
  v.set_text(file);
}

void set_arms(C c, std::size_t row, V v) {
  v.kind = FieldValue::Kind::kStrings;
  v.strings.clear();
  const auto range = arms_of(c.trace(), number(row));
  for (auto arm = range.first; arm < range.end; ++arm) v.strings.push_back(arm_name(c.trace(), arm));
}

void set_module(C c, std::size_t row, V v) {
  const auto& trace = c.trace();
  const auto context = trace.conditionals.site_context[row];
  if (context < 0) return v.set_none();
  v.set_text(trace.strings[trace.modules.address[at(trace.site_contexts.module[at(context)])]]);
}

constexpr Field kConditionals[] = {
    {"label", kString, "", "cond_gt_1_2: by the Layer of the first Op that decided a test",
     [](C c, std::size_t r, V v) { set_label(c, number(r), v); }},
    {"outcome", kString, "", "the arm that ran; none, several, or not_attributed",
     [](C c, std::size_t r, V v) {
       v.owned = outcome(c.trace(), number(r));
       v.set_owned();
     }},
    {"fired_arm_kind", kString, "", "the one arm that ran; none if none did, or several",
     [](C c, std::size_t r, V v) { set_arm(c, fired_arm(c.trace(), number(r)), v); }},
    {"fired_arm_index", kInteger, "from 0", "its number among the arms",
     [](C c, std::size_t r, V v) {
       const auto arm = fired_arm(c.trace(), number(r));
       if (arm < 0) return v.set_none();
       v.set_integer(arm - arms_of(c.trace(), number(r)).first);
     }},
    {"arms", kStrings, "", "then, elif_1, else, fallthrough; a side where no source tells", set_arms},
    {"has_else", kBool, "", "the source has an else",
     [](C c, std::size_t r, V v) { v.set_bool(count_arms(c, r, ArmKind::kElse) > 0); }},
    {"has_elif", kBool, "", "the source has an elif",
     [](C c, std::size_t r, V v) { v.set_bool(count_arms(c, r, ArmKind::kElif) > 0); }},
    {"num_elifs", kInteger, "count", "elifs of the source",
     [](C c, std::size_t r, V v) { v.set_integer(count_arms(c, r, ArmKind::kElif)); }},
    {"source_file", kString, "", "file as the exporter saw it", set_source_file},
    {"source_line", kInteger, "from 1", "line of the if",
     [](C c, std::size_t r, V v) {
       const auto line = c.trace().conditionals.line[r];
       if (line <= 0) return v.set_none();
       v.set_integer(line);
     }},
    {"module", kString, "address", "the module instance that it stands in", set_module},
    {"parent_arm", kString, "", "the arm that it stood in when it first ran",
     [](C c, std::size_t r, V v) { set_arm_of(c, c.trace().conditionals.parent_arm[r], v); }},
};

constexpr Field kArms[] = {
    {"conditional", kString, "label", "the conditional that it is an arm of",
     [](C c, std::size_t r, V v) { set_label(c, c.trace().conditional_arms.conditional[r], v); }},
    {"arm", kString, "", "then, elif_1, else, fallthrough, true_side, false_side",
     [](C c, std::size_t r, V v) { set_arm(c, number(r), v); }},
};

constexpr Field kBranches[] = {
    {"conditional", kString, "label", "the conditional that ran",
     [](C c, std::size_t r, V v) { set_label(c, c.trace().branches.conditional[r], v); }},
    {"conditional_arm", kString, "", "the arm that ran; none where the next test decided, or nothing hung on it",
     [](C c, std::size_t r, V v) { set_arm(c, c.trace().branches.conditional_arm[r], v); }},
};

}  // namespace

BranchFacts make_branch_facts(const Trace& trace) {
  BranchFacts facts{conditional_labels(trace), std::vector<std::int32_t>(trace.num_ops(), -1)};
  for (std::size_t row = trace.bools.op.size(); row-- > 0;) facts.first_bool[at(trace.bools.op[row])] = number(row);
  return facts;
}

std::span<const Field> conditional_fields() { return kConditionals; }
std::span<const Field> conditional_arm_fields() { return kArms; }
std::span<const Field> branch_fields() { return kBranches; }

void set_branch_stack(C c, std::size_t row, V v) {
  v.kind = FieldValue::Kind::kStrings;
  v.strings.clear();
  const auto& branches = c.trace().branches;
  for (const auto branch : branch_stack(c.trace(), OpId{static_cast<std::uint32_t>(row)})) {
    v.strings.push_back(c.branch_facts().labels[at(branches.conditional[at(branch)])] + ":" +
                        arm_name(c.trace(), branches.conditional_arm[at(branch)]));
  }
}

void set_conditional_depth(C c, std::size_t row, V v) {
  v.set_integer(std::ssize(branch_stack(c.trace(), OpId{static_cast<std::uint32_t>(row)})));
}

void set_bool_value(C c, std::size_t row, V v) {
  const auto asked = c.branch_facts().first_bool[row];
  if (asked < 0) return v.set_none();
  v.set_bool(c.trace().bools.value[at(asked)] != 0);
}

void set_bool_context(C c, std::size_t row, V v) {
  const auto asked = c.branch_facts().first_bool[row];
  if (asked < 0) return v.set_none();
  v.set_text(to_string(static_cast<BoolContext>(c.trace().bools.context[at(asked)])));
}

}  // namespace tl
