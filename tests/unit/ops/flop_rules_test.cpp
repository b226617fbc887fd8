#include "ops/flop_rules.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace tl {
namespace {

std::vector<std::string> names_of(const FlopGroup& group) {
  std::vector<std::string> names;
  for (std::string_view rest = group.names; !rest.empty();) {
    const auto end = std::min(rest.find(' '), rest.size());
    names.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return names;
}

TEST(FlopRules, EveryOperatorStandsInOneGroupAndIsFound) {
  std::set<std::string> seen;
  for (const auto& group : flop_groups()) {
    for (const auto& name : names_of(group)) {
      EXPECT_FALSE(name.empty());
      EXPECT_TRUE(seen.insert(name).second) << name;
      const auto qualified = name.find("::") == std::string::npos ? "aten::" + name : name;
      const auto dot = qualified.find('.');
      const auto overload = dot == std::string::npos ? "" : qualified.substr(dot + 1);
      const auto rule = flop_rule(qualified.substr(0, dot), overload);
      EXPECT_EQ(rule.formula, group.rule.formula) << name;
      EXPECT_EQ(rule.factor, group.rule.factor) << name;
    }
  }
  EXPECT_GT(seen.size(), 500U);
}

TEST(FlopRules, InPlaceFormsHaveTheRuleOfTheirOperator) {
  EXPECT_EQ(flop_rule("aten::relu_", "").formula, FlopFormula::kPerOutput);
  EXPECT_EQ(flop_rule("aten::addcmul_", "").factor, 3);
  EXPECT_EQ(flop_rule("aten::copy_", "").formula, FlopFormula::kOverwrite);
  EXPECT_EQ(flop_rule("aten::copy", "").formula, FlopFormula::kZero);
}

TEST(FlopRules, AnOverloadMayBeAnotherOperation) {
  EXPECT_EQ(flop_rule("aten::max", "dim").formula, FlopFormula::kPerInput);
  EXPECT_EQ(flop_rule("aten::max", "").formula, FlopFormula::kPerInput);
  EXPECT_EQ(flop_rule("aten::max", "other").formula, FlopFormula::kPerOutput);
}

TEST(FlopRules, OthersHaveNone) {
  EXPECT_EQ(flop_rule("zoo::fused_scale", "").formula, FlopFormula::kUnknown);
  EXPECT_EQ(flop_rule("relu", "").formula, FlopFormula::kUnknown);
  EXPECT_EQ(flop_rule("_", "").formula, FlopFormula::kUnknown);
  EXPECT_EQ(flop_rule("", "").formula, FlopFormula::kUnknown);
}

}  // namespace
}  // namespace tl
