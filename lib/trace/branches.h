#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/trace.h"

namespace tl {

/// if_chain, ifexp, cond, bool_op, assert, compiler; unknown where the file holds no source text of it.
std::string_view to_string(ConditionalKind kind);
/// if_test, elif_test, ifexp, while, assert, bool_cast, comprehension_filter, match_guard, cond; unknown.
std::string_view to_string(BoolContext context);

/// then, elif_1, elif_2 …, else, fallthrough; true_side and false_side where no source tells.
std::string arm_name(const Trace& trace, std::int32_t arm);

/// Labels of all conditionals, unique: cond_gt_1_2 by the Layer of the first Op that decided a test of it, cond_if_3 by
/// its row, from 1, where host values decided; .2, .3 … behind the label where one Op decided several. Conditionals
/// without arms have their kind in front: bool_op_gt_1_2, assert_lt_1_4.
std::vector<std::string> conditional_labels(const Trace& trace);

/// Rows of conditional_arms of a conditional: first and one past the last.
struct ArmRange {
  std::int32_t first = 0;
  std::int32_t end = 0;
};
ArmRange arms_of(const Trace& trace, std::int32_t conditional);

/// Which arm ran, as a row of conditional_arms: -1 if none did, or several in different runs.
std::int32_t fired_arm(const Trace& trace, std::int32_t conditional);

/// Which way it went: the name of the one arm that ran; `none` if the tests were false and no arm stands for that;
/// `several` if different arms ran in different runs; `not_attributed` for what has no arms: and, or, assert, what the
/// compiler made.
std::string outcome(const Trace& trace, std::int32_t conditional);

/// The executed arms that an Op stands in, as rows of branches, outermost first.
std::vector<std::int32_t> branch_stack(const Trace& trace, OpId op);

/// An edge with a part in a conditional. `arm` is the arm that it enters: its child stands in an execution of it in
/// which its parent does not.
/// Without an arm it begins the evaluation of a test: what feeds an output hands to what only feeds the test.
struct BranchEdge {
  std::int32_t edge = -1;         ///< row of edges
  std::int32_t child = -1;        ///< row of ops
  std::int32_t conditional = -1;  ///< row of conditionals
  std::int32_t arm = -1;          ///< row of conditional_arms; -1 for a test
};

/// All of them by edge; inner arms after the outer ones. An edge may enter several arms. Time: edges times the depth of
/// the arms.
std::vector<BranchEdge> branch_edges(const Trace& trace);

/// IF, THEN, ELIF 1, ELSE, FALLTHROUGH, TRUE SIDE, FALSE SIDE.
std::string branch_edge_label(const Trace& trace, const BranchEdge& edge);

}  // namespace tl
