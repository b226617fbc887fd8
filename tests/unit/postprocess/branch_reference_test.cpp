// Python TorchLens's recordings of the reference models with branches, against the steps over recordings of their
// scripted files (tests/steps/attribute-branches): arms, stacks, tests, edges. Where the design document goes beyond
// that version (the fall-through arm), the document is expected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "postprocess/pipeline.h"
#include "support/trace_fixtures.h"
#include "trace/branches.h"

namespace tl {
namespace {

using nlohmann::json;

struct Case {
  const char* recording;
  const char* model;
  const char* variant;
  const char* fallthrough;  ///< the Op that the document has in the fall-through arm
};

void PrintTo(const Case& which, std::ostream* out) { *out << which.recording; }

class BranchReference : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const auto path = test::shared_file(std::string("reference/") + GetParam().model + ".json");
    if (path.empty()) GTEST_SKIP() << "no reference/" << GetParam().model << ".json beside the project";
    std::ifstream file(path);
    reference_ = json::parse(file)["variants"][GetParam().variant];
    const auto base = std::string(TL_SOURCE_DIR) + "/tests/steps/attribute-branches/" + GetParam().recording;
    std::ifstream recording(base + ".in.trace");
    const std::string text{std::istreambuf_iterator<char>(recording), {}};
    const auto sources = test::source_texts(base + ".source");
    trace_ = run_pipeline(test::capture_from_text(text), {}, {.sources = sources});
  }

  OpId op(const std::string& label) const {
    for (std::uint32_t row = 0; row < trace_.num_ops(); ++row) {
      if (op_label(trace_, OpId{row}, true) == label) return OpId{row};
    }
    ADD_FAILURE() << "no Op is called " << label;
    return OpId{0};
  }

  static std::string bare(std::string label) { return label.substr(0, label.rfind(':')); }

  /// Labels of the children that an edge from `parent` with this label leads to.
  std::multiset<std::string> children(OpId parent, const std::string& label) const {
    std::multiset<std::string> found;
    for (const auto& edge : branch_edges(trace_)) {
      const auto from = trace_.edges.parent[static_cast<std::size_t>(edge.edge)];
      if (from != static_cast<std::int32_t>(parent.value) || branch_edge_label(trace_, edge) != label) continue;
      found.insert(op_label(trace_, OpId{static_cast<std::uint32_t>(edge.child)}));
    }
    return found;
  }

  json reference_;
  Trace trace_;
};

TEST_P(BranchReference, OpsStandInTheArms) {
  const bool falls_through = std::string(GetParam().fallthrough) != "";
  ASSERT_EQ(reference_["ops"].size(), trace_.num_ops());
  for (const auto& expected : reference_["ops"]) {
    const auto label = expected["label"].get<std::string>();
    std::vector<std::string> stack;
    for (const auto& entry : expected["conditional_branch_stack"]) stack.push_back(entry[1]);
    if (falls_through && bare(label) == GetParam().fallthrough) stack.push_back("fallthrough");
    std::vector<std::string> got;
    for (const auto row : branch_stack(trace_, op(label))) {
      got.push_back(arm_name(trace_, trace_.branches.conditional_arm[static_cast<std::size_t>(row)]));
    }
    EXPECT_EQ(got, stack) << label;
  }
}

TEST_P(BranchReference, EdgesAreLabelled) {
  for (const auto& expected : reference_["ops"]) {
    const auto parent = op(expected["label"]);
    const auto labels = [](const json& list) { return list.get<std::multiset<std::string>>(); };
    EXPECT_EQ(children(parent, "IF"), labels(expected["conditional_entry_children"])) << expected["label"];
    EXPECT_EQ(children(parent, "THEN"), labels(expected["conditional_then_children"])) << expected["label"];
    EXPECT_EQ(children(parent, "ELSE"), labels(expected["conditional_else_children"])) << expected["label"];
    for (const auto& [number, list] : expected["conditional_elif_children"].items()) {
      EXPECT_EQ(children(parent, "ELIF " + number), labels(list)) << expected["label"];
    }
  }
}

TEST_P(BranchReference, TheConditionalIsTheSame) {
  const auto& expected = reference_["conditionals"][0];
  const auto& record = reference_["conditional_records"][0];
  ASSERT_EQ(trace_.conditionals.kind.size(), 1U);
  EXPECT_EQ(conditional_labels(trace_)[0], expected["id"]);
  EXPECT_EQ(to_string(static_cast<ConditionalKind>(trace_.conditionals.kind[0])), record["kind"]);
  EXPECT_EQ(trace_.conditionals.line[0], record["if_stmt_span"][0]);
  EXPECT_EQ(trace_.conditionals.line_end[0], record["if_stmt_span"][1]);
  const auto fired = fired_arm(trace_, 0);
  ASSERT_GE(fired, 0);
  if (const auto& kind = expected["fired_arm_kind"]; kind.is_null()) {
    EXPECT_EQ(outcome(trace_, 0), "fallthrough");
  } else {
    EXPECT_THAT(outcome(trace_, 0), testing::StartsWith(kind.get<std::string>()));
    EXPECT_EQ(fired, expected["fired_arm_index"]);
  }
  std::map<std::string, json> arms;
  const auto& columns = trace_.conditional_arms;
  for (std::size_t arm = 0; arm < columns.kind.size(); ++arm) {
    const auto name = arm_name(trace_, static_cast<std::int32_t>(arm));
    if (name == "fallthrough") continue;  // not in that version
    arms[name] = {columns.line[arm], columns.line_end[arm]};
  }
  std::map<std::string, json> ranges;
  for (const auto& [name, range] : record["branch_ranges"].items()) ranges[name] = {range[0], range[2]};
  EXPECT_EQ(arms, ranges);
}

TEST_P(BranchReference, BoolsAreClassified) {
  for (const auto& expected : reference_["ops"]) {
    const auto asked = std::ranges::find(trace_.bools.op, static_cast<std::int32_t>(op(expected["label"]).value));
    ASSERT_EQ(asked != trace_.bools.op.end(), expected["is_terminal_bool"].get<bool>()) << expected["label"];
    if (asked == trace_.bools.op.end()) continue;
    const auto row = static_cast<std::size_t>(asked - trace_.bools.op.begin());
    EXPECT_EQ(trace_.bools.value[row] != 0, expected["bool_value"].get<bool>());
    EXPECT_EQ(to_string(static_cast<BoolContext>(trace_.bools.context[row])), expected["conditional_context_kind"]);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, BranchReference,
                         testing::Values(Case{"chain_then", "branch", "build/inputs", ""},
                                         Case{"chain_elif", "branch", "build/inputs_elif", ""},
                                         Case{"chain_else", "branch", "build/inputs_else", ""},
                                         Case{"early_return", "early_return", "build/inputs", "neg_1_3"},
                                         Case{"early_return_then", "early_return", "build/inputs_then", ""}));

}  // namespace
}  // namespace tl
