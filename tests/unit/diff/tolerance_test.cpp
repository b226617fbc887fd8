#include "diff/tolerance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "core/error.h"

namespace tl {
namespace {

using testing::HasSubstr;
using testing::Optional;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The site `blocks.7.norm2` with four elements, one of which is off by 0.25 at a reference of 2.
DiffSite site() {
  DiffSite site;
  site.subject.label = "layernorm_16_412";
  site.subject.module = "blocks.7.norm2";
  site.subject.func_name = "layer_norm";
  site.reference.label = "norm2";
  site.reference.module = "layers.7.norm2";
  site.evidence = Evidence::kFull;
  site.error = 0.05;
  site.noise_floor = 0.001;
  TensorComparison metrics;
  metrics.numel = metrics.compared = 4;
  metrics.differing = 1;
  metrics.mismatched = 1;
  metrics.max_abs = 0.25;
  metrics.rel_l2 = 0.05;
  metrics.cosine = 0.999;
  metrics.needed_atol = 0.25;
  metrics.needed_rtol = 0.125;
  site.metrics = metrics;
  return site;
}

std::optional<std::string> broken(std::string_view predicate, const DiffSite& of = site()) {
  return Predicate::parse(predicate).broken_by(of);
}

std::string message_of(auto action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kUsage);
    return error.message + " | " + error.hint;
  }
  return "none";
}

TEST(Predicate, ComparesMetricsWithNumbers) {
  EXPECT_EQ(broken("rel_l2 <= 0.05"), std::nullopt);
  EXPECT_EQ(broken("rel_l2<0.1 and max_abs<=2.5e-1"), std::nullopt);
  EXPECT_EQ(broken("cosine > 0.99"), std::nullopt);
  EXPECT_THAT(broken("rel_l2 <= 1e-3"), Optional(std::string("rel_l2 is 0.05, not <= 0.001")));
  EXPECT_THAT(broken("rel_l2 < 0.1 and max_abs < 0.1"), Optional(std::string("max_abs is 0.25, not < 0.1")));
  EXPECT_THAT(broken("cosine >= 0.9999"), Optional(std::string("cosine is 0.999, not >= 0.9999")));
  EXPECT_EQ(broken("mismatch <= 0.25"), std::nullopt);
  EXPECT_EQ(broken("error <= 0.05"), std::nullopt);
}

TEST(Predicate, CombinesWithAndOrNot) {
  EXPECT_EQ(broken("rel_l2 <= 1e-3 or max_abs < 1"), std::nullopt);
  EXPECT_EQ(broken("not rel_l2 <= 1e-3"), std::nullopt);
  // `and` binds tighter than `or`.
  EXPECT_EQ(broken("max_abs < 1 or rel_l2 < 0 and rel_l2 < 0"), std::nullopt);
  EXPECT_TRUE(broken("(max_abs < 1 or rel_l2 < 0) and rel_l2 < 0").has_value());
}

TEST(Predicate, KnowsTheNoiseFloor) {
  EXPECT_EQ(broken("rel_l2 <= 50 * floor"), std::nullopt);
  EXPECT_THAT(broken("rel_l2 <= 10 * floor"), Optional(std::string("rel_l2 is 0.05, not <= 10 * floor (0.01)")));
  EXPECT_TRUE(broken("error < floor").has_value());
}

TEST(Predicate, ExactAndIgnore) {
  EXPECT_THAT(broken("exact"), Optional(std::string("1 elements differ")));
  EXPECT_EQ(broken("ignore"), std::nullopt);
  DiffSite same = site();
  same.metrics = TensorComparison{};
  EXPECT_EQ(broken("exact", same), std::nullopt);
}

TEST(Predicate, DisagreeingNanBreaksWhatDoesNotSpeakOfIt) {
  DiffSite holed = site();
  holed.metrics->nonfinite_disagreements = 2;
  holed.metrics->nan_only_subject = 2;
  EXPECT_THAT(broken("max_abs < 1e9", holed), Optional(HasSubstr("NaN or infinities disagree in 2 elements")));
  EXPECT_EQ(broken("max_abs < 1e9 and nan_subject <= 2", holed), std::nullopt);
  EXPECT_EQ(broken("ignore", holed), std::nullopt);
}

TEST(Predicate, WhatIsNotKnownBreaksNothing) {
  DiffSite bounded = site();
  bounded.metrics.reset();
  bounded.evidence = Evidence::kStatistics;
  bounded.statistics = StatsComparison{.any = true, .rel_l2_at_least = 0.02};
  EXPECT_THAT(broken("rel_l2 <= 0.01", bounded), Optional(std::string("rel_l2 is at least 0.02, not <= 0.01")));
  EXPECT_EQ(broken("rel_l2 <= 0.03", bounded), std::nullopt) << "it may be greater than the bound";
  EXPECT_EQ(broken("not rel_l2 <= 0.03", bounded), std::nullopt);
  EXPECT_TRUE(broken("not rel_l2 > 0.01", bounded).has_value());
  EXPECT_EQ(broken("cosine > 0.99", bounded), std::nullopt);
  DiffSite ints = site();
  EXPECT_EQ(broken("max_ulp <= 1", ints), std::nullopt) << "no ULP distance between these dtypes";
}

TEST(Predicate, SaysWhatItCannotRead) {
  EXPECT_THAT(message_of([] { Predicate::parse("rel_l3 <= 1"); }),
              HasSubstr("no metric `rel_l3` | did you mean `rel_l2`"));
  EXPECT_THAT(message_of([] { Predicate::parse("rel_l2 = 1"); }), HasSubstr("has `= 1` where `<=`, `<`, `>=` or `>`"));
  EXPECT_THAT(message_of([] { Predicate::parse("rel_l2 <= "); }), HasSubstr("has ended where a number"));
  EXPECT_THAT(message_of([] { Predicate::parse("rel_l2 <= 1 max_abs < 1"); }), HasSubstr("`and`, `or` or the end"));
  EXPECT_THAT(message_of([] { Predicate::parse("(rel_l2 <= 1"); }), HasSubstr("`)` was expected"));
  EXPECT_THAT(message_of([] { Predicate::parse(""); }), HasSubstr("a metric was expected"));
  EXPECT_THAT(message_of([] { Predicate::parse(std::string(100000, '(')); }), HasSubstr("deeper than 100"));
}

TEST(Tolerances, NothingSaidDecidesNothing) {
  const Tolerances tolerances;
  EXPECT_TRUE(tolerances.empty());
  EXPECT_FALSE(tolerances.judge(site()).has_value());
  EXPECT_FALSE(tolerances.element_tolerance(site()).has_value());
}

TEST(Tolerances, ElementTolerancesByName) {
  Tolerances tolerances;
  tolerances.add_rtol("1e-3");
  tolerances.add_atol("blocks.7=0.5");
  tolerances.add_atol("blocks.70=9");
  const ElementTolerance found = tolerances.element_tolerance(site()).value();
  EXPECT_EQ(found.rtol, 1e-3);
  EXPECT_EQ(found.atol, 0.5);
  tolerances.add_rtol("norm2=0.25");  // the label of the reference
  EXPECT_EQ(tolerances.element_tolerance(site())->rtol, 0.25);
  tolerances.add_rtol("0.75");  // for all: the name still wins
  EXPECT_EQ(tolerances.element_tolerance(site())->rtol, 0.25);
  EXPECT_EQ(tolerances.description(),
            "|s - r| <= 0 + 0.75 |r|; norm2: rtol 0.25; blocks.7: atol 0.5; blocks.70: atol 9");
  const auto judged = tolerances.judge(site()).value();
  EXPECT_FALSE(judged.within);
  EXPECT_EQ(judged.failed_rule, "1 of 4 elements exceed 0.5 + 0.25 |r|; atol 0.25 or rtol 0.125 would pass");
}

TEST(Tolerances, RulesWinOverElementTolerancesAndTheFirstOneDecides) {
  Tolerances tolerances;
  tolerances.add_rtol("0");
  tolerances.add_rules("# comment\n\n^head rel_l2 < 0\n^blocks\\.\\d+\\.norm  rel_l2 <= 0.1\r\nnorm rel_l2 <= 0\n",
                       "tol.txt");
  EXPECT_TRUE(tolerances.judge(site())->within);
  tolerances.add_gate("layer_norm rel_l2 <= 1e-3");
  EXPECT_EQ(tolerances.judge(site())->failed_rule, "--gate: rel_l2 is 0.05, not <= 0.001");
  tolerances.set_exact();
  EXPECT_EQ(tolerances.judge(site())->failed_rule, "--exact: 1 element of 4 differ");
}

TEST(Tolerances, AGateWithoutAnExpressionIsForAllSites) {
  Tolerances tolerances;
  tolerances.add_gate("max_abs<=1 and cosine > 0.9");
  EXPECT_TRUE(tolerances.judge(site())->within);
  EXPECT_EQ(tolerances.description(), "max_abs<=1 and cosine > 0.9");
}

TEST(Tolerances, MessagesNameOptionFileAndLine) {
  Tolerances tolerances;
  EXPECT_THAT(message_of([&] { tolerances.add_rtol("x=abc"); }), HasSubstr("--rtol x=abc is no tolerance"));
  EXPECT_THAT(message_of([&] { tolerances.add_atol("-1"); }), HasSubstr("--atol -1 is no tolerance"));
  EXPECT_THAT(message_of([&] { tolerances.add_atol("inf"); }), HasSubstr("is no tolerance"));
  EXPECT_THAT(message_of([&] { tolerances.add_rules("a exact\n[ exact\n", "f"); }),
              HasSubstr("f:2: `[` is no regular expression"));
  EXPECT_THAT(message_of([&] { tolerances.add_rules("alone", "f"); }), HasSubstr("f:1: `alone` has no predicate"));
  EXPECT_THAT(message_of([&] { tolerances.add_rules("a max <= 1", "f"); }), HasSubstr("f:1: there is no metric `max`"));
}

TEST(NeededTolerances, AreThoseOfTheWorstSite) {
  DiffReport report;
  report.sites = {site(), site()};
  report.sites[0].site_class = report.sites[1].site_class = SiteClass::kSource;
  report.sites[1].metrics->needed_atol = 0.5;
  report.sites[1].error = 0.01;
  EXPECT_EQ(needed_tolerances(report).error, 0.05);
  EXPECT_EQ(needed_tolerances(report).atol, 0.5);
  EXPECT_EQ(needed_tolerances(report).rtol, 0.125);
  report.sites[0].metrics->nonfinite_disagreements = 1;
  EXPECT_EQ(needed_tolerances(report).rtol, kInfinity);
}

}  // namespace
}  // namespace tl
