#include "diff/align.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "diff/map_rules.h"
#include "diff_fixtures.h"

namespace tl {
namespace {

/// A row of blocks: linear with its own weight, then an activation; module names and weights as given.
std::string net(const std::vector<std::string>& modules, const std::vector<std::string>& digests,
                const std::string& activation = "relu") {
  std::string text = "module self\n";
  for (const auto& name : modules) text += "module " + name + " class_name=Block parent=self\n";
  text += "context c0 module=self\n";
  for (std::size_t i = 0; i < modules.size(); ++i)
    text += "context c" + std::to_string(i + 1) + " module=" + modules[i] + "\n";
  text += "instruction lin func_name=linear layer_type=linear arg_template=\"input=%0, weight=%1\"\n";
  text += "instruction act func_name=" + activation + " layer_type=" + activation + "\n";
  for (std::size_t i = 0; i < modules.size(); ++i) {
    text += "param " + modules[i] + ".weight module=" + modules[i] +
            " dtype=f32 shape=[4,4] bytes=64 digest=" + digests[i] + "\n";
  }
  text += "call self:1 first_op=x end_op=end\n";
  std::string ops = "op x input out=f32[2,4] address=input.x\n";
  std::string before = "x";
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const auto n = std::to_string(i);
    const auto next = i + 1 < modules.size() ? "l" + std::to_string(i + 1) : "y";
    text +=
        "call " + modules[i] + ":1 parent_call=self:1 first_op=l" + n + " end_op=" + next + " output_op=a" + n + "\n";
    const auto where = " call=" + modules[i] + ":1 context=c" + std::to_string(i + 1);
    ops += "op l" + n + " lin out=f32[2,4] parents=" + before + "@0" + where + " params=" + modules[i] + ".weight@1\n";
    ops += "op a" + n + " act out=f32[2,4] parents=l" + n + "@0" + where + "\n";
    before = "a" + n;
  }
  return text + ops + "op y output out=f32[2,4] parents=" + before + "@0 address=output\n";
}

Alignment aligned(const Trace& a, const Trace& b, const Renamer& rename = {}) {
  return align(make_side(a, rename), make_side(b), {rename, false});
}

TEST(Align, ByNames) {
  const auto trace = test::trace_of(net({"p", "q"}, {"d1", "d2"}));
  const auto result = aligned(trace, trace);
  for (std::size_t row = 0; row < trace.num_ops(); ++row) {
    EXPECT_EQ(result.subject_of[row], static_cast<std::int32_t>(row));
    EXPECT_EQ(result.reordered[row], 0);
  }
  EXPECT_EQ(result.basis[1], MatchBasis::kSiteKey);
}

TEST(Align, ByWeightsWhereNamesAreOthers) {
  const auto a = test::trace_of(net({"p", "q", "r"}, {"d1", "d2", "d3"}));
  const auto b = test::trace_of(net({"layer0", "layer1", "layer2"}, {"d1", "d2", "d3"}));
  const auto result = aligned(a, b);
  for (std::size_t row = 0; row < a.num_ops(); ++row) EXPECT_EQ(result.subject_of[row], static_cast<std::int32_t>(row));
  EXPECT_EQ(result.basis[1], MatchBasis::kParameters);
  EXPECT_EQ(result.basis[2], MatchBasis::kModule);
  EXPECT_THAT(result.renamed, testing::ElementsAre(testing::Pair("p", "layer0"), testing::Pair("q", "layer1"),
                                                   testing::Pair("r", "layer2")));
}

/// A convolution with a weight of that content, and behind it a batch norm or not.
std::string convolution(const std::string& digest, bool norm) {
  const std::string last = norm ? "n" : "c";
  return "module self\ncontext c0 module=self\n"
         "instruction conv func_name=conv2d layer_type=conv2d arg_template=\"input=%0, weight=%1\"\n"
         "instruction norm func_name=batch_norm layer_type=batchnorm\ninstruction act func_name=relu layer_type=relu\n"
         "param w module=self dtype=f32 shape=[4,4,1,1] bytes=64 digest=" +
         digest +
         "\ncall self:1 first_op=x end_op=end\nop x input out=f32[2,4,3,3] address=input.x\n"
         "op c conv out=f32[2,4,3,3] parents=x@0 params=w@1\n" +
         (norm ? "op n norm out=f32[2,4,3,3] parents=c@0\n" : "") + "op a act out=f32[2,4,3,3] parents=" + last +
         "@0\nop y output out=f32[2,4,3,3] parents=a@0 address=output\n";
}

TEST(Align, AFoldedBatchNormStandsForTheConvolutionBeforeIt) {
  const auto apart = test::trace_of(convolution("d1", true));
  const auto folded = test::trace_of(convolution("d2", false));
  EXPECT_THAT(aligned(apart, folded).subject_of, testing::ElementsAre(0, -1, 1, 2, 3));
  EXPECT_THAT(aligned(folded, apart).subject_of, testing::ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(aligned(folded, apart).reference_of, testing::ElementsAre(0, -1, 1, 2, 3));
}

TEST(Align, ADroppedBatchNormIsNotFolded) {
  const auto apart = test::trace_of(convolution("d1", true));
  const auto dropped = test::trace_of(convolution("d1", false));
  EXPECT_THAT(aligned(apart, dropped).subject_of, testing::ElementsAre(0, 1, -1, 2, 3));
}

TEST(Align, NamesThatMovedAreNotBelieved) {
  // The same blocks in the same order, but each has the name of another.
  const auto a = test::trace_of(net({"p", "q", "r"}, {"d1", "d2", "d3"}));
  const auto b = test::trace_of(net({"q", "r", "p"}, {"d1", "d2", "d3"}));
  const auto result = aligned(a, b);
  EXPECT_FALSE(result.names_trusted);
  for (std::size_t row = 0; row < a.num_ops(); ++row) EXPECT_EQ(result.subject_of[row], static_cast<std::int32_t>(row));
}

TEST(Align, ByRules) {
  const auto a = test::trace_of(net({"p0", "p1"}, {"d1", "d2"}));
  const auto b = test::trace_of(net({"layer0", "layer1"}, {"e1", "e2"}));
  const auto result = aligned(a, b, parse_map_rules("# names\np(\\d) -> layer\\1\n", "map"));
  for (std::size_t row = 0; row < a.num_ops(); ++row) EXPECT_EQ(result.subject_of[row], static_cast<std::int32_t>(row));
  EXPECT_EQ(result.basis[1], MatchBasis::kMap);
}

TEST(Align, ExchangedWeightsAreReportedAsThat) {
  const auto a = test::trace_of(net({"p", "q", "r", "s", "t"}, {"d1", "d2", "d3", "d4", "d5"}));
  const auto b = test::trace_of(net({"p", "q", "r", "s", "t"}, {"d2", "d1", "d3", "d4", "d5"}));
  const auto report = test::diff_of(a, b, [] {
    DiffOptions options;
    options.values = false;
    return options;
  }());
  ASSERT_EQ(report.changes.size(), 1U);
  EXPECT_EQ(report.changes[0].kind, ChangeKind::kExchanged);
  EXPECT_TRUE(report.different);
}

TEST(Align, AnInsertedOperationIsReportedAsThat) {
  const auto text = net({"p", "q"}, {"d1", "d2"});
  auto more = text;
  more.insert(more.find("instruction act"), "instruction mul func_name=mul layer_type=mul\n");
  more.replace(more.find("op a0"), 5, "op m mul out=f32[2,4] parents=l0@0 call=p:1 context=c1\nop a0");
  more.replace(more.find("parents=l0@0 call=p:1 context=c1\nop l1"), 12, "parents=m@0");
  DiffOptions options;
  options.values = false;
  const auto report = test::diff_of(test::trace_of(text), test::trace_of(more), options);
  ASSERT_EQ(report.changes.size(), 1U);
  EXPECT_EQ(report.changes[0].kind, ChangeKind::kInserted);
  EXPECT_THAT(test::labels_of(report.changes[0].subject), testing::ElementsAre("mul_1_2"));
  EXPECT_EQ(report.coverage.matched, 4);
  EXPECT_EQ(report.coverage.total, 5);
}

TEST(Align, AReplacedOperatorIsMatchedByItsModule) {
  const auto a = test::trace_of(net({"p", "q"}, {"d1", "d2"}, "gelu"));
  const auto b = test::trace_of(net({"p", "q"}, {"d1", "d2"}, "silu"));
  const auto result = aligned(a, b);
  EXPECT_EQ(result.subject_of[2], 2);
  EXPECT_EQ(result.basis[2], MatchBasis::kModule);
}

TEST(Align, ARecordingIsItself) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const auto trace = run_pipeline(test::random_capture(seed, 200));
    const auto result = aligned(trace, trace);
    for (std::size_t row = 0; row < trace.num_ops(); ++row) {
      EXPECT_EQ(result.subject_of[row], static_cast<std::int32_t>(row)) << "seed " << seed;
    }
    DiffOptions options;
    options.values = false;
    const auto report = test::diff_of(trace, trace, options);
    EXPECT_FALSE(report.different) << "seed " << seed << ": " << report.verdict;
    EXPECT_TRUE(report.changes.empty()) << "seed " << seed;
  }
}

TEST(Align, WithoutValuesNothingIsClaimed) {
  const auto trace = test::trace_of(net({"p"}, {"d1"}));
  try {
    test::diff_of(trace, trace);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kActivationNotSaved);
  }
}

TEST(MapRules, WritesWhatItReads) {
  const auto rename = parse_map_rules(map_rules_text({{"a.b", "x"}, {"a", "y.z"}}), "map");
  EXPECT_EQ(rename("a.b"), "x");
  EXPECT_EQ(rename("a.b.c"), "x.c");
  EXPECT_EQ(rename("a.q"), "y.z.q");
  EXPECT_EQ(rename("ab"), "ab");
}

TEST(MapRules, RefusesWhatIsNoRule) {
  for (const auto* text : {"just words", "a( -> b", "a -> \\3"}) {
    try {
      parse_map_rules(text, "map");
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code, ErrorCode::kMapRules) << text;
      EXPECT_THAT(error.message, testing::StartsWith("map:1")) << text;
    }
  }
}

}  // namespace
}  // namespace tl
