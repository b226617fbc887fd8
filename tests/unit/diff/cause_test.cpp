#include "diff/cause.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/error.h"
#include "diff/tolerance.h"
#include "diff_fixtures.h"

namespace tl {
namespace {

using test::entry;
using test::ramp;

/// x → fc1 → act → fc2 → out, each with two numbers.
constexpr const char* kChain =
    "module self\nmodule fc1 class_name=Linear parent=self\nmodule act class_name=ReLU parent=self\n"
    "module fc2 class_name=Linear parent=self\n"
    "context c0 module=self\ncontext c1 module=fc1\ncontext c2 module=act\ncontext c3 module=fc2\n"
    "instruction aten::linear func_name=linear layer_type=linear\n"
    "instruction aten::linear/2 func_name=linear layer_type=linear\n"
    "instruction aten::relu func_name=relu layer_type=relu\n"
    "call self:1 first_op=a end_op=end\ncall fc1:1 parent_call=self:1 first_op=b end_op=c output_op=b\n"
    "call act:1 parent_call=self:1 first_op=c end_op=d output_op=c\n"
    "call fc2:1 parent_call=self:1 first_op=d end_op=e output_op=d\n"
    "op a input out=f32[2] address=input.x\nop b aten::linear out=f32[2] parents=a@0 call=fc1:1 context=c1\n"
    "op c aten::relu out=f32[2] parents=b@0 call=act:1 context=c2\n"
    "op d aten::linear/2 out=f32[2] parents=c@0 call=fc2:1 context=c3\n"
    "op e output out=f32[2] parents=d@0 address=output\n";

Trace chain(const std::vector<std::vector<float>>& values) {
  std::vector<HostTensor> tensors;
  for (const auto& value : values) tensors.push_back(test::floats(value));
  return test::trace_of(kChain, std::move(tensors));
}

std::vector<std::string> classes(const DiffReport& report) {
  std::vector<std::string> names;
  for (const auto& site : report.sites) names.emplace_back(to_string(site.site_class));
  return names;
}

const std::vector<std::vector<float>> kGood = {{1, 2}, {3, 4}, {3, 4}, {5, 6}};

TEST(Cause, TheSameIsTheSame) {
  const auto trace = chain(kGood);
  const auto report = test::diff_of(trace, trace);
  EXPECT_FALSE(report.different);
  EXPECT_THAT(classes(report), testing::Each("agrees"));
  EXPECT_EQ(report.coverage.compared, 3);
  EXPECT_EQ(report.coverage.total, 3);
  EXPECT_TRUE(report.changes.empty());
}

TEST(Cause, TellsTheSourceFromWhatInherits) {
  const auto report = test::diff_of(chain(kGood), chain({{1, 2}, {3, 4.5F}, {3, 4.5F}, {5, 7}}));
  EXPECT_TRUE(report.different);
  EXPECT_THAT(classes(report), testing::ElementsAre("agrees", "source", "inherited", "inherited", "inherited"));
  ASSERT_EQ(report.sources.size(), 1U);
  const auto& source = report.sites[static_cast<std::size_t>(report.sources[0])];
  EXPECT_EQ(source.subject.module, "fc1");
  // rel L2 by hand: 0.5 / max(5, sqrt(9 + 20.25)).
  EXPECT_NEAR(source.error, 0.5 / std::sqrt(29.25), 1e-12);
  EXPECT_EQ(source.worst_reference, "4");
  EXPECT_EQ(source.worst_subject, "4.5");
}

TEST(Cause, AnOperationThatCannotEnlargeIsASourceWhenItDoes) {
  // relu turned a difference of 0.01 into one of 2: it does something else itself.
  const auto report = test::diff_of(chain(kGood), chain({{1, 2}, {3, 4.01F}, {3, 2}, {5, 3}}));
  EXPECT_THAT(classes(report), testing::ElementsAre("agrees", "source", "source", "inherited", "inherited"));
}

// The reference transposes a square matrix before it multiplies; the subject does not, so that its shapes are the same.
TEST(Cause, NamesTheTranspositionThatOneSideLacks) {
  const auto trace = [](bool transposes, const std::vector<float>& product) {
    const std::string text =
        "module self\ncontext c0 module=self\ninstruction aten::tanh func_name=tanh layer_type=tanh\n"
        "instruction aten::transpose func_name=transpose layer_type=transpose arg_template=\"self=%0, dim0=0, "
        "dim1=1\"\n"
        "instruction aten::matmul func_name=matmul layer_type=matmul\ncall self:1 first_op=a end_op=end\n"
        "op a input out=f32[2,2] address=input.x\nop b aten::tanh out=f32[2,2] parents=a@0\n" +
        std::string(transposes ? "op t aten::transpose out=f32[2,2] parents=b@0\n" : "") +
        "op m aten::matmul out=f32[2,2] parents=" + (transposes ? "t@0" : "b@0") +
        ",b@1\nop o output out=f32[2,2] parents=m@0 address=output\n";
    const auto square = [](const std::vector<float>& values) { return test::tensor_of(DType::kF32, {2, 2}, values); };
    std::vector<HostTensor> tensors = {square({1, 2, 3, 4}), square({1, 2, 3, 4})};
    if (transposes) tensors.push_back(square({1, 3, 2, 4}));
    tensors.push_back(square(product));
    tensors.push_back(square(product));
    return test::trace_of(text, std::move(tensors));
  };
  // [[1, 3], [2, 4]] [[1, 2], [3, 4]] and [[1, 2], [3, 4]] squared.
  const auto report = test::diff_of(trace(true, {10, 14, 14, 20}), trace(false, {7, 10, 15, 22}));
  ASSERT_EQ(report.sources.size(), 1U);
  const auto& source = report.sites[static_cast<std::size_t>(report.sources[0])];
  EXPECT_EQ(source.subject.func_name, "matmul");
  EXPECT_EQ(source.cause, "transpose_1_2 stands before it in the reference only");
}

// k and v are written to the halves of one cache; softmax reads that of k, but hangs on the later write.
TEST(Cause, AnEarlierWriteToTheSameStorageExplainsWhatReadsIt) {
  const auto trace = [](const std::vector<float>& k, const std::vector<float>& softmax) {
    const std::string text =
        "module self\ncontext c0 module=self\ninstruction aten::linear func_name=linear layer_type=linear\n"
        "instruction aten::copy_ func_name=copy_ layer_type=copy\ninstruction aten::tanh func_name=tanh "
        "layer_type=tanh\n"
        "instruction aten::softmax func_name=softmax layer_type=softmax\ncall self:1 first_op=a end_op=end\n"
        "op a input out=f32[2] address=input.x\nop k aten::linear out=f32[2] parents=a@0\n"
        "op kc aten::copy_ out=f32[2] parents=k@1 flags=in_place\nop v aten::tanh out=f32[2] parents=a@0\n"
        "op vc aten::copy_ out=f32[2] parents=v@1,kc@-1 flags=in_place\n"
        "op s aten::softmax out=f32[2] parents=vc@0\nop o output out=f32[2] parents=s@0 address=output\n";
    return test::trace_of(text, {test::floats({1, 2}), test::floats(k), test::floats(k), test::floats({5, 6}),
                                 test::floats({5, 6}), test::floats(softmax), test::floats(softmax)});
  };
  const auto report = test::diff_of(trace({1, 2}, {0.25F, 0.75F}), trace({1, 2.5F}, {0.2F, 0.8F}));
  ASSERT_EQ(report.sources.size(), 1U);
  EXPECT_EQ(report.sites[static_cast<std::size_t>(report.sources[0])].subject.func_name, "linear");
}

// A bool has no noise floor; that another operand agrees must not hide that the mask does not.
TEST(Cause, WhatAnotherMaskFillsIsInherited) {
  const auto trace = [](const std::vector<std::uint8_t>& mask, const std::vector<float>& filled) {
    const std::string text =
        "module self\ncontext c0 module=self\ninstruction aten::tanh func_name=tanh layer_type=tanh\n"
        "instruction aten::masked_fill func_name=masked_fill layer_type=maskedfill\ncall self:1 first_op=m end_op=end\n"
        "op m input out=bool[2] address=input.mask\nop x input out=f32[2] address=input.x\n"
        "op t aten::tanh out=f32[2] parents=x@0\nop f aten::masked_fill out=f32[2] parents=t@0,m@1\n"
        "op o output out=f32[2] parents=f@0 address=output\n";
    return test::trace_of(text, {test::tensor_of(DType::kBool, {2}, mask), test::floats({1, 2}), test::floats({1, 2}),
                                 test::floats(filled), test::floats(filled)});
  };
  const float inf = std::numeric_limits<float>::infinity();
  const auto report = test::diff_of(trace({0, 1}, {1, -inf}), trace({1, 0}, {-inf, 2}));
  ASSERT_EQ(report.sources.size(), 1U);
  EXPECT_EQ(report.sites[static_cast<std::size_t>(report.sources[0])].cause, "the inputs differ");
  EXPECT_THAT(classes(report), testing::Contains("inherited").Times(2));
}

TEST(Cause, DifferentInputsAreTheSource) {
  const auto report = test::diff_of(chain(kGood), chain({{1, 3}, {3, 5}, {3, 5}, {5, 8}}));
  ASSERT_FALSE(report.sources.empty());
  EXPECT_EQ(report.sites[static_cast<std::size_t>(report.sources[0])].cause, "the inputs differ");
  EXPECT_EQ(report.sources.size(), 1U);
}

TEST(Cause, SmallStepsAreDrift) {
  // Each step adds less than 32 times what was handed in, which is above its floor but passes.
  const auto report = test::diff_of(chain({{1, 1}, {1, 1}, {1, 1}, {1, 1}}),
                                    chain({{1, 1}, {1, 1.00001F}, {1, 1.00001F}, {1, 1.0001F}}));
  EXPECT_THAT(classes(report), testing::ElementsAre("agrees", "agrees", "agrees", "drift", "drift"));
  EXPECT_TRUE(report.sources.empty());
  EXPECT_TRUE(report.different);
}

TEST(Cause, WhatAgreesWithinItsFloorExplainsNothing) {
  const auto report = test::diff_of(chain({{1, 1}, {1, 1}, {1, 1}, {1, 1}}),
                                    chain({{1, 1}, {1, 1.0000012F}, {1, 1.0000012F}, {1, 1.00003F}}));
  EXPECT_THAT(classes(report), testing::ElementsAre("agrees", "agrees", "agrees", "source", "inherited"));
}

DiffReport judged(const Trace& reference, const Trace& subject, std::string_view gate, std::vector<bool> only = {}) {
  DiffOptions options;
  Tolerances tolerances;
  if (!gate.empty()) tolerances.add_gate(gate);
  options.tolerances = &tolerances;
  options.only = std::move(only);
  return compare_recordings(make_side(reference), make_side(subject), options).report;
}

TEST(Cause, ALoosenedSiteIsStillTheSourceOfWhatFails) {
  const auto good = chain(kGood);
  const auto bad = chain({{1, 2}, {3, 4.5F}, {3, 4.5F}, {5, 7}});
  const auto report = judged(good, bad, "fc1 error <= 1");
  EXPECT_THAT(classes(report), testing::ElementsAre("agrees", "source", "inherited", "inherited", "inherited"));
  ASSERT_EQ(report.sources, std::vector<std::int64_t>{1});
  EXPECT_TRUE(report.sites[1].within);
  EXPECT_TRUE(report.sites[1].explains);
  EXPECT_EQ(report.num_out_of_tolerance, 3);
  // Where nothing fails, a source that passes is none.
  const auto loose = judged(good, bad, "error <= 1");
  EXPECT_FALSE(loose.different);
  EXPECT_THAT(classes(loose), testing::Each("agrees"));
  EXPECT_TRUE(loose.sources.empty());
}

TEST(Cause, ASourceThatWasLeftOutIsNamed) {
  const auto report =
      judged(chain(kGood), chain({{1, 2}, {3, 4.5F}, {3, 4.5F}, {5, 7}}), "", {false, false, false, true, false});
  EXPECT_EQ(report.sources, std::vector<std::int64_t>{1});
  EXPECT_EQ(report.num_out_of_tolerance, 1);
  EXPECT_TRUE(report.different);
}

TEST(Cause, TheVerdictSaysHowManySitesItIsAbout) {
  const auto bad = chain({{1, 2}, {3, 4.5F}, {3, 4.5F}, {5, 7}});
  const auto report = judged(chain(kGood), bad, "", {true, false, false, false, false});
  EXPECT_THAT(report.verdict, testing::HasSubstr("1 site judged"));
  try {
    judged(chain(kGood), bad, "ignore");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kCoverageTooLow);
  }
}

// relu of `act` against relu of another module between the same neighbours: a pair by order alone.
TEST(Cause, WhatOrderPairedAndNothingInheritsFromWasNoPair) {
  std::string renamed = kChain;
  for (const std::string name : {"module act ", "call act:1 ", "call=act:1 ", "module=act\n"}) {
    const auto at = renamed.find(name);
    ASSERT_NE(at, std::string::npos);
    renamed.replace(at + name.find("act"), 3, "other");
  }
  const auto with = [](const std::string& text, const std::vector<std::vector<float>>& values) {
    std::vector<HostTensor> tensors;
    for (const auto& value : values) tensors.push_back(test::floats(value));
    return test::trace_of(text.c_str(), std::move(tensors));
  };
  const std::vector<std::vector<float>> other = {{1, 2}, {3, 4}, {9, 1}, {5, 6}};
  const auto report = test::diff_of(chain(kGood), with(renamed, other));
  EXPECT_EQ(report.sites[2].basis, MatchBasis::kSequence);
  EXPECT_THAT(classes(report), testing::ElementsAre("agrees", "agrees", "not compared", "agrees", "agrees"));
  EXPECT_FALSE(report.different);
  EXPECT_THAT(report.notes, testing::Contains(testing::HasSubstr("order alone")));
  // Under one name it is one place.
  EXPECT_TRUE(test::diff_of(chain(kGood), chain(other)).different);
}

// The constant of a mask is no scale: beside 1e9 the other elements' differences would vanish.
TEST(Cause, MasksDoNotHideADifference) {
  const std::vector<float> masked = {-1e9F, 4};
  const std::vector<float> other = {-1e9F, 4.5F};
  const auto report = test::diff_of(chain({{1, 2}, masked, masked, {5, 6}}), chain({{1, 2}, other, other, {5, 6.5F}}));
  EXPECT_NEAR(report.sites[1].error, 0.5 / 4.5, 1e-12);
  EXPECT_THAT(classes(report), testing::ElementsAre("agrees", "source", "inherited", "inherited", "inherited"));
}

TEST(Cause, NanOnOneSideIsInfinitelyFar) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto report = test::diff_of(chain(kGood), chain({{1, 2}, {3, nan}, {3, nan}, {5, nan}}));
  EXPECT_THAT(classes(report), testing::ElementsAre("agrees", "source", "inherited", "inherited", "inherited"));
  EXPECT_TRUE(std::isinf(report.sites[1].error));
}

TEST(Cause, WhatWasNotKeptIsLookedThrough) {
  const auto without_act = [&](const std::vector<std::vector<float>>& values) {
    auto copy = test::capture_from_text(std::string("trace 1\n") + kChain);
    std::vector<HostTensor> tensors;
    for (const auto& value : values) tensors.push_back(test::floats(value));
    for (std::uint32_t event = 0; event < 4; ++event)
      copy.events[event].payload = event == 2 ? PayloadId::kNone : event;
    copy.payloads = std::make_shared<test::Tensors>(std::move(tensors));
    return run_pipeline(std::move(copy));
  };
  const auto report = test::diff_of(without_act(kGood), without_act({{1, 2}, {3, 4}, {0, 0}, {5, 7}}));
  EXPECT_THAT(classes(report), testing::ElementsAre("agrees", "agrees", "not compared", "source", "inherited"));
  EXPECT_EQ(report.coverage.compared, 2);
}

TEST(Cause, NothingSharedIsAnError) {
  const auto other = test::trace_of(
      "module self\ncontext c0 module=self\ninstruction conv func_name=conv2d layer_type=conv2d\n"
      "call self:1 first_op=a end_op=end\nop a input out=f32[7] address=input.y\nop b conv out=f32[7] parents=a@0\n"
      "op c output out=f32[7] parents=b@0 address=output\n");
  try {
    test::diff_of(chain(kGood), other);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kNoSharedSites);
    EXPECT_EQ(exit_code_of(error.code), ExitCode::kRefused);
  }
}

TEST(Cause, ASideWithoutOperationsIsAnError) {
  const auto empty =
      test::trace_of("module self\ncall self:1 first_op=a end_op=end\nop a input out=f32[2] address=input.x\n");
  try {
    test::diff_of(chain(kGood), empty);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kEmptyRecording);
  }
}

TEST(Cause, AgainstADumpTheDataflowOfTheTraceIsUsed) {
  Dump dump;
  dump.kind = "recorder";
  dump.inputs = {entry("x", kGood[0])};
  dump.entries = {entry("fc1", kGood[1]), entry("act", kGood[2]), entry("fc2", kGood[3])};
  dump.outputs = {entry("output", kGood[3])};
  const auto good = chain(kGood);
  const auto bad = chain({{1, 2}, {3, 4.5F}, {3, 4.5F}, {5, 7}});
  DiffOptions options;
  const auto same = compare_recordings(make_side(dump), make_side(good), options).report;
  EXPECT_FALSE(same.different);
  EXPECT_EQ(same.coverage.compared, 3);
  EXPECT_EQ(same.coverage.total, 3);
  const std::vector<std::string> expected = {"agrees", "source", "inherited", "inherited", "inherited"};
  EXPECT_EQ(classes(compare_recordings(make_side(dump), make_side(bad), options).report), expected);
  // The same with the sides exchanged: the dataflow is the reference's then.
  EXPECT_EQ(classes(compare_recordings(make_side(bad), make_side(dump), options).report), expected);
}

TEST(Cause, RenamedEntriesOfADumpAreFoundByWeightsAndOrder) {
  Dump dump;
  dump.inputs = {entry("x", kGood[0])};
  dump.entries = {entry("first", kGood[1]), entry("nonlinearity", kGood[2]), entry("second", kGood[3])};
  dump.entries[0].class_name = dump.entries[2].class_name = "Linear";
  dump.entries[1].class_name = "ReLU";
  const auto good = chain(kGood);
  const auto report = compare_recordings(make_side(dump), make_side(good), {}).report;
  EXPECT_EQ(report.coverage.compared, 3);
  EXPECT_EQ(report.sites[1].basis, MatchBasis::kSequence);
}

TEST(Cause, WithoutDataflowTheFirstIsTheSourceAndLaterOnesAreNot) {
  // b is wrong; c and d are wrong by more than 32 times its error: they may stand below it, so they are not blamed.
  Dump reference;
  reference.entries = {entry("a", {1, 2}), entry("b", {1, 2}), entry("c", {1, 2}), entry("d", {1, 2}),
                       entry("e", {1, 2})};
  auto subject = reference;
  subject.entries[1] = entry("b", {1, 2.01F});
  subject.entries[2] = entry("c", {1, 7});
  subject.entries[3] = entry("d", {9, 7});
  const auto report = compare_recordings(make_side(reference), make_side(subject), {}).report;
  EXPECT_THAT(classes(report), testing::ElementsAre("agrees", "source", "inherited", "inherited", "agrees"));
  EXPECT_EQ(report.sources, std::vector<std::int64_t>{1});
}

/// x → k-fold doubling through pairs of unmatched ops, each read twice by the next → out.
Trace diamonds(int count, const std::string& op) {
  std::string text =
      "module self\ncontext c0 module=self\ninstruction lin func_name=linear layer_type=linear\n"
      "instruction mid func_name=" +
      op + " layer_type=" + op + "\ncall self:1 first_op=x end_op=end\n";
  std::string ops = "op x input out=f32[2] address=input.x\nop s lin out=f32[2] parents=x@0\n";
  std::string before = "s";
  for (int i = 0; i < count; ++i) {
    const auto name = "m" + std::to_string(i);
    ops += "op " + name + " mid out=f32[2] parents=" + before + "@0," + before + "@1\n";
    before = name;
  }
  ops += "op y output out=f32[2] parents=" + before + "@0 address=output\n";
  auto capture = test::capture_from_text("trace 1\n" + text + ops);
  const auto last = capture.events.size() - 1;
  for (std::size_t event = 0; event < last; ++event) capture.events[event].payload = PayloadId::kNone;
  std::vector<HostTensor> tensors = {test::floats({1, 2}), test::floats({3, 4}),
                                     test::floats({5, op == "add" ? 6.0F : 7.0F})};
  capture.events[0].payload = 0;
  capture.events[1].payload = 1;
  capture.events[last].payload = 2;
  capture.payloads = std::make_shared<test::Tensors>(std::move(tensors));
  return run_pipeline(std::move(capture));
}

TEST(Cause, OpsInBetweenCountOnceHoweverManyPathsLeadThroughThem) {
  // 80 ops that each read the one before twice: 2^79 paths to the last, which is a pair as the output reads it.
  const auto report = test::diff_of(diamonds(80, "add"), diamonds(80, "sub"));
  ASSERT_EQ(report.sources.size(), 1U);
  EXPECT_EQ(report.sites[static_cast<std::size_t>(report.sources[0])].unmatched_inputs, 79);
}

/// q → scale → o, where only q and o are modules.
constexpr const char* kFunctional =
    "module self\nmodule q class_name=Linear parent=self\nmodule o class_name=Linear parent=self\n"
    "context c0 module=self\ncontext c1 module=q\ncontext c2 module=o\n"
    "instruction lin func_name=linear layer_type=linear\ninstruction mul func_name=mul layer_type=mul\n"
    "instruction view func_name=view layer_type=view\n"
    "call self:1 first_op=a end_op=end\ncall q:1 parent_call=self:1 first_op=b end_op=c output_op=b\n"
    "call o:1 parent_call=self:1 first_op=e end_op=f output_op=e\n"
    "op a input out=f32[8] address=input.x\nop b lin out=f32[8] parents=a@0 call=q:1 context=c1\n"
    "op c mul out=f32[8] parents=b@0 context=c0\nop d view out=f32[8] parents=c@0 context=c0\n"
    "op e lin out=f32[8] parents=d@0 call=o:1 context=c2\nop f output out=f32[8] parents=e@0 address=output\n";

Trace functional(float scaled, float out) {
  std::vector<HostTensor> tensors;
  for (const float scale : {1.0F, 2.0F, scaled, scaled, out}) tensors.push_back(test::floats(ramp(scale)));
  return test::trace_of(kFunctional, std::move(tensors));
}

TEST(Cause, WhatStandsBetweenTwoModulesOfADumpIsNotTheNextModule) {
  Dump dump;
  dump.inputs = {entry("x", ramp(1))};
  dump.entries = {entry("q", ramp(2)), entry("o", ramp(5))};
  dump.outputs = {entry("output", ramp(5))};
  const auto bad = functional(4, 7);
  const auto report = compare_recordings(make_side(dump), make_side(bad), {}).report;
  ASSERT_EQ(report.sources.size(), 1U);
  const auto& source = report.sites[static_cast<std::size_t>(report.sources[0])];
  EXPECT_EQ(source.interval, "between q and o");
  EXPECT_THAT(test::labels_of(source.between), testing::ElementsAre("mul_1_2"));  // the view changes no value
  EXPECT_EQ(source.cause, "computed in between: mul_1_2");
  EXPECT_THAT(report.verdict, testing::HasSubstr("between q and o"));
}

TEST(Cause, ATapIsFoundByItsValueAndEndsTheInterval) {
  Dump dump;
  dump.inputs = {entry("x", ramp(1))};
  dump.entries = {entry("q", ramp(2)), entry("mid", ramp(3)), entry("o", ramp(5))};
  dump.entries[1].is_tap = true;
  dump.outputs = {entry("output", ramp(5))};
  const auto bad = functional(3, 7);  // the value of the tap is right
  const auto report = compare_recordings(make_side(dump), make_side(bad), {}).report;
  EXPECT_EQ(report.coverage.matched, 3);
  ASSERT_EQ(report.sources.size(), 1U);
  const auto& source = report.sites[static_cast<std::size_t>(report.sources[0])];
  EXPECT_TRUE(source.between.empty());
  EXPECT_EQ(source.subject.module, "o");
}

TEST(Cause, ATapThatAKernelRoundedOtherwiseIsFoundToo) {
  auto near = ramp(3);
  near[5] *= 1 + 0x1p-23F;
  Dump dump;
  dump.entries = {entry("q", ramp(2)), entry("mid", near), entry("o", ramp(5))};
  dump.entries[1].is_tap = true;
  const auto trace = functional(3, 5);
  EXPECT_EQ(compare_recordings(make_side(trace), make_side(dump), {}).report.coverage.matched, 3);
  near[5] *= 1.1F;
  dump.entries[1].value = entry("mid", near).value;
  EXPECT_EQ(compare_recordings(make_side(trace), make_side(dump), {}).report.coverage.matched, 2);
}

TEST(Cause, ATapIsNotTheModuleOfItsName) {
  Dump dump;
  dump.entries = {entry("q", ramp(2)), entry("o", ramp(3))};
  dump.entries[1].is_tap = true;
  const auto trace = functional(3, 5);
  const auto report = compare_recordings(make_side(dump), make_side(trace), {}).report;
  EXPECT_FALSE(report.different);
  EXPECT_EQ(report.coverage.compared, 2);
}

/// An LSTM whose states the model returns beside its last layer; the dump has every one under its path.
TEST(Cause, AllValuesOfACallAreMatchedByTheirPaths) {
  const std::string text =
      "module self\nmodule l class_name=LSTM parent=self\nmodule h class_name=Linear parent=self\n"
      "context c0 module=self\ncontext c1 module=l\ncontext c2 module=h\n"
      "instruction lstm func_name=lstm layer_type=lstm\ninstruction lin func_name=linear layer_type=linear\n"
      "call self:1 first_op=a end_op=end\ncall l:1 parent_call=self:1 first_op=b end_op=e output_op=b\n"
      "call h:1 parent_call=self:1 first_op=e end_op=f output_op=e\n"
      "op a input out=f32[8] address=input.x\nop b lstm out=f32[8] parents=a@0 call=l:1 context=c1\n"
      "op c lstm out=f32[2] parents=a@0 call=l:1 context=c1\nop d lstm out=f32[2] parents=a@0 call=l:1 context=c1\n"
      "op e lin out=f32[3] parents=b@0 call=h:1 context=c2\n"
      "op f output out=f32[3] parents=e@0 address=output.logits\nop g output out=f32[2] parents=c@0 address=output.h\n"
      "op i output out=f32[2] parents=d@0 address=output.c\n";
  const auto trace = test::trace_of(text, {test::floats(ramp(1)), test::floats(ramp(2)), test::floats({1, 2}),
                                           test::floats({3, 4}), test::floats({5, 6, 7})});
  const auto at = [](const std::string& name, const std::string& path, const std::vector<float>& values) {
    return entry(name, values, path);
  };
  Dump dump;
  dump.inputs = {entry("x", ramp(1))};
  dump.entries = {at("l", "0", ramp(2)),  at("l", "1.0", {1, 2}),          at("l", "1.1", {3, 4}),
                  at("h", "", {5, 6, 7}), at("self", "logits", {5, 6, 7}), at("self", "h", {1, 2}),
                  at("self", "c", {3, 4})};
  dump.outputs = {entry("output.logits", {5, 6, 7}), entry("output.h", {1, 2}), entry("output.c", {3, 4})};
  for (const bool dump_first : {true, false}) {
    const auto report = dump_first ? compare_recordings(make_side(dump), make_side(trace), {}).report
                                   : compare_recordings(make_side(trace), make_side(dump), {}).report;
    EXPECT_FALSE(report.different) << report.verdict;
    EXPECT_EQ(report.coverage.share(), 1) << dump_first;
    EXPECT_TRUE(report.changes.empty());
  }
}

TEST(Cause, DumpsOfOtherPrecisionAreJudgedByTheCoarser) {
  Dump reference;
  reference.entries = {entry("a", {1, 2}), entry("b", {3, 4})};
  auto subject = reference;
  const auto half = [](std::vector<std::uint16_t> bits) {
    DumpEntry made;
    made.dtype = DType::kF16;
    made.sizes = {static_cast<std::int64_t>(bits.size())};
    made.value = std::make_shared<test::Tensors::Ref>(test::tensor_of(DType::kF16, made.sizes, bits));
    return made;
  };
  subject.entries = {half({0x3c00, 0x4000}), half({0x4201, 0x4400})};  // 1, 2; 3 + 2^-9, 4: one rounding step off
  subject.entries[0].name = "a";
  subject.entries[1].name = "b";
  const auto report = compare_recordings(make_side(reference), make_side(subject), {}).report;
  EXPECT_FALSE(report.different) << report.verdict;
  EXPECT_THAT(report.notes, testing::Contains(testing::HasSubstr("f32 in reference, f16 in subject")));
  EXPECT_TRUE(report.sites[0].arguments.empty());
}

TEST(Cause, WhatEveryModelReturnsDoesNotMakeTwoTheSame) {
  Dump dump;
  dump.entries = {entry("somewhere", ramp(9)), entry("self", {1, 2, 3})};
  const auto trace = functional(3, 5);
  try {
    compare_recordings(make_side(trace), make_side(dump), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kNoSharedSites);
  }
}

TEST(Cause, TensorsOfFilesAreNotPairedByOrder) {
  Dump reference;
  reference.entries = {entry("a", {1, 2}), entry("l3", {1, 2})};
  auto subject = reference;
  subject.entries[1].name = "zz";
  const auto report = compare_recordings(make_side(reference), make_side(subject), {}).report;
  EXPECT_EQ(report.coverage.matched, 1);
}

TEST(MergeSamples, KeepsMeanAndWorst) {
  const auto good = chain(kGood);
  const auto first = test::diff_of(good, good);
  const auto second = test::diff_of(good, chain({{1, 2}, {3, 4.5F}, {3, 4.5F}, {5, 7}}));
  const auto merged = merge_samples({first, second}, {"one", "two"});
  EXPECT_TRUE(merged.different);
  ASSERT_EQ(merged.sources.size(), 1U);
  const auto& site = merged.sites[static_cast<std::size_t>(merged.sources[0])];
  EXPECT_EQ(site.samples, 2);
  EXPECT_EQ(site.worst_sample, 1);
  EXPECT_DOUBLE_EQ(site.worst_error, second.sites[1].error);
  EXPECT_DOUBLE_EQ(site.mean_error, second.sites[1].error / 2);
  EXPECT_THAT(merged.verdict, testing::HasSubstr("two"));
}

TEST(NoiseFloor, IsARandomWalk) {
  EXPECT_DOUBLE_EQ(noise_floor(0x1p-24, 100), 16 * 0x1p-24 * 10);
  EXPECT_DOUBLE_EQ(noise_floor(0x1p-8, 1), 0x1p-8);
  EXPECT_EQ(unit_roundoff(DType::kI64), 0);
}

}  // namespace
}  // namespace tl
