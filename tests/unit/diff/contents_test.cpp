#include "diff/contents.h"

#include <gmock/gmock.h>

#include "core/error.h"
#include "diff/weight_pairs.h"

namespace tl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = ModelTensor::Kind;

ModelTensor tensor(const std::string& name, const std::string& digest, Kind kind = Kind::kParameter,
                   std::vector<std::int64_t> sizes = {2, 3}, DType dtype = DType::kF32) {
  return {name, {}, kind, dtype, std::move(sizes), digest};
}

WeightComparison weights_of(const std::vector<ModelTensor>& reference, const std::vector<ModelTensor>& subject,
                            WeightOptions options = {{}, true, false, false}) {
  return compare_weights(reference, subject, options);
}

TEST(Weights, OfOneNameAreComparedByTypeAndContent) {
  const auto compared = weights_of({tensor("a", "1"), tensor("b", "2"), tensor("c", "3"), tensor("d", "4")},
                                   {tensor("a", "1"), tensor("b", "9"), tensor("c", "3", Kind::kParameter, {3, 2}),
                                    tensor("d", "4", Kind::kParameter, {2, 3}, DType::kBF16)});
  EXPECT_EQ(compared.weights.agreement, Agreement::kDifferent);
  EXPECT_EQ(compared.weights.same, 1);
  EXPECT_EQ(compared.weights.total, 4);
  EXPECT_THAT(compared.weights.details,
              ElementsAre("b: contents differ", "c: f32[2,3] in reference, f32[3,2] in subject",
                          "d: f32[2,3] in reference, bf16[2,3] in subject"));
  EXPECT_EQ(compared.buffers.agreement, Agreement::kUnknown);
}

TEST(Weights, OfOtherNamesAreFoundByContentOnceEach) {
  const auto compared = weights_of({tensor("a.w", "1"), tensor("a.b", "0"), tensor("b.b", "0"), tensor("x", "7")},
                                   {tensor("n.w", "1"), tensor("n.b", "0"), tensor("m.b", "0"), tensor("y", "8")});
  EXPECT_EQ(compared.weights.same, 3);
  EXPECT_EQ(compared.weights.total, 5);
  EXPECT_EQ(compared.by_content, 3);
  EXPECT_THAT(compared.weights.details,
              ElementsAre("x: only in the reference, f32[2,3]", "y: only in the subject, f32[2,3]",
                          "3 under other names: a.w is n.w"));
}

TEST(Weights, ExchangedOnesAreSaidToBeElsewhere) {
  const auto compared = weights_of({tensor("a", "1"), tensor("b", "2")}, {tensor("a", "2"), tensor("b", "1")});
  EXPECT_EQ(compared.weights.same, 0);
  EXPECT_THAT(compared.weights.details, ElementsAre("a: contents differ; the subject has them in b",
                                                    "b: contents differ; the subject has them in a"));
}

TEST(Weights, TiedOnesMayBeListedOnceOrTwice) {
  auto tied = tensor("embed.weight", "1");
  tied.other_names = {"head.weight"};
  const std::vector<ModelTensor> twice = {tensor("embed.weight", "1"), tensor("head.weight", "1")};
  for (const auto& compared : {weights_of({tied}, twice), weights_of(twice, {tied})}) {
    EXPECT_EQ(compared.weights.agreement, Agreement::kSame);
    EXPECT_EQ(compared.by_content, 0);
  }
  const auto untied = weights_of(twice, {tensor("embed.weight", "1"), tensor("head.weight", "2")});
  EXPECT_THAT(untied.weights.details,
              ElementsAre("head.weight: contents differ; the subject has them in embed.weight"));
}

TEST(Weights, WhatIsNotKnownIsNotCounted) {
  const auto compared = weights_of({tensor("a", ""), tensor("b", "1")}, {tensor("a", "1"), tensor("b", "1")});
  EXPECT_EQ(compared.weights.total, 1);
  EXPECT_EQ(compared.weights.agreement, Agreement::kSame);
}

TEST(Weights, RulesGiveNamesOfTheSubject) {
  const Renamer rename = [](std::string_view name) { return "model." + std::string(name); };
  const auto compared = weights_of({tensor("a", "1")}, {tensor("model.a", "2")}, {rename, true, false, false});
  EXPECT_THAT(compared.weights.details, ElementsAre("a: contents differ"));
}

TEST(Weights, OfAWrapperAreFoundWithoutItsName) {
  const std::vector<ModelTensor> plain = {tensor("a.w", "1"), tensor("a.b", "2"), tensor("c", "3")};
  const std::vector<ModelTensor> wrapped = {tensor("module.a.w", "1"), tensor("module.a.b", "9"), tensor("step", "4")};
  const auto compared = weights_of(plain, wrapped);
  EXPECT_EQ(compared.weights.same, 1);
  EXPECT_THAT(compared.weights.details,
              ElementsAre("names of the subject begin with module.", "a.b: contents differ",
                          "c: only in the reference, f32[2,3]", "step: only in the subject, f32[2,3]"));
  const auto reversed = weights_of(wrapped, plain);
  EXPECT_THAT(reversed.weights.details,
              ElementsAre("names of the reference begin with module.", "module.a.b: contents differ",
                          "step: only in the reference, f32[2,3]", "c: only in the subject, f32[2,3]"));
}

TEST(Weights, ACheckpointMayLackBuffersAndConstants) {
  const std::vector<ModelTensor> file = {tensor("a", "1"), tensor("ids", "2", Kind::kBuffer),
                                         tensor("CONSTANTS.c0", "3", Kind::kConstant)};
  const std::vector<ModelTensor> checkpoint = {tensor("a", "1", Kind::kUnknown)};
  const auto lenient = weights_of(checkpoint, file, {{}, true, false, true});
  EXPECT_EQ(lenient.weights.agreement, Agreement::kSame);
  EXPECT_EQ(lenient.buffers.agreement, Agreement::kUnknown);
  const auto strict = weights_of(checkpoint, file, {{}, true, true, false});
  EXPECT_EQ(strict.weights.total, 2);
  EXPECT_EQ(strict.buffers.agreement, Agreement::kDifferent);
}

TEST(Weights, LongListsAreCounted) {
  std::vector<ModelTensor> reference;
  std::vector<ModelTensor> subject;
  for (int i = 0; i < 130; ++i) {
    reference.push_back(tensor("p" + std::to_string(i), "a" + std::to_string(i)));
    subject.push_back(tensor("p" + std::to_string(i), "b" + std::to_string(i)));
  }
  const auto compared = weights_of(reference, subject);
  EXPECT_EQ(compared.weights.details.size(), 100u);
  EXPECT_EQ(compared.weights.more_details, 30);
}

ModelContents program(std::vector<ModelCall> calls) {
  ModelContents contents;
  contents.kind = "exported program";
  contents.operator_form = OperatorForm::kExportedGraph;
  contents.dialect = "TRAINING";
  contents.calls = std::move(calls);
  contents.tensors = {tensor("w", "1"), tensor("v", "2")};
  return contents;
}

ModelCall call(const std::string& label, const std::string& module, const std::string& name,
               std::vector<std::pair<std::string, std::string>> arguments = {}) {
  ModelCall call;
  call.label = label;
  call.module = module;
  call.target = "torch.ops.aten." + name + ".default";
  call.func_name = name;
  call.dtype = DType::kF32;
  call.sizes = {"2", "3"};
  call.arguments = std::move(arguments);
  return call;
}

DiffReport diff_of(const ModelContents& reference, const ModelContents& subject, DiffOptions options = {}) {
  options.reference_name = "a";
  options.subject_name = "b";
  return compare_contents(reference, subject, options);
}

const Precondition& condition(const DiffReport& report, const std::string& name) {
  const auto found = std::ranges::find(report.preconditions, name, &Precondition::name);
  EXPECT_NE(found, report.preconditions.end()) << name;
  return *found;
}

TEST(Contents, CallsOfTwoProgramsAreComparedByTheirArguments) {
  const auto ours = program({call("linear", "fc", "linear", {{"input", "tensor"}, {"weight", "weight w"}}),
                             call("norm", "norm", "layer_norm", {{"input", "tensor"}, {"eps", "1e-06"}}),
                             call("gelu", "act", "gelu", {{"self", "tensor"}})});
  auto theirs = program({call("linear_1", "fc", "linear", {{"input", "tensor"}, {"weight", "weight v"}}),
                         call("norm_1", "norm", "layer_norm", {{"input", "tensor"}}),
                         call("gelu_1", "act", "gelu", {{"self", "tensor"}, {"approximate", "\"tanh\""}})});
  const auto report = diff_of(ours, theirs);
  ASSERT_EQ(report.sites.size(), 3u);
  EXPECT_EQ(report.sites[0].arguments.at(0).subject, "weight v");
  EXPECT_EQ(report.sites[1].arguments.at(0).name, "eps");
  EXPECT_EQ(report.sites[1].arguments.at(0).subject, "left to its default");
  EXPECT_EQ(report.sites[2].arguments.at(0).reference, "left to its default");
  EXPECT_TRUE(report.different);
  EXPECT_THAT(report.verdict, HasSubstr("3 calls with other arguments"));
  EXPECT_EQ(report.coverage.matched, 3);
  // The weight that is read is the same one under another name.
  theirs.tensors = {tensor("v", "1"), tensor("w", "2")};
  EXPECT_THAT(diff_of(ours, theirs).sites[0].arguments, IsEmpty());
}

TEST(Contents, CallsThatOneProgramHasAreChanges) {
  const auto ours = program({call("a", "m", "relu"), call("b", "m", "view"), call("c", "n", "linear")});
  const auto more =
      program({call("a", "m", "relu"), call("t", "m", "tanh"), call("b", "m", "view"), call("c", "n", "linear")});
  const auto inserted = diff_of(ours, more);
  ASSERT_EQ(inserted.changes.size(), 1u);
  EXPECT_EQ(inserted.changes[0].kind, ChangeKind::kInserted);
  EXPECT_EQ(inserted.changes[0].subject.at(0).label, "t");
  EXPECT_TRUE(inserted.different);
  const auto removed = diff_of(more, ours);
  EXPECT_EQ(removed.changes.at(0).kind, ChangeKind::kRemoved);
  // A view more changes no value.
  auto views = ours;
  views.calls.push_back(call("d", "n", "view"));
  EXPECT_EQ(diff_of(ours, views).changes.size(), 1u);
  EXPECT_FALSE(diff_of(ours, views).different);
  const auto same = diff_of(ours, ours);
  EXPECT_FALSE(same.different);
  EXPECT_THAT(same.changes, IsEmpty());
  EXPECT_EQ(same.verdict, "SAME       weights 2/2, calls 3/3; nothing was run");
}

TEST(Contents, WhatOnlyARunKnowsIsNoDifference) {
  const auto ours = program({call("a", "m", "view", {{"size", "[2, 10, -1]"}}),
                             call("b", "m", "linear", {{"weight", "weight w"}, {"dims", "[1, 2]"}})});
  const auto theirs = program({call("a", "m", "view", {{"size", "[?, ?, -1]"}}),
                               call("b", "m", "linear", {{"weight", "tensor"}, {"dims", "[?, 3]"}})});
  const auto report = diff_of(ours, theirs);
  EXPECT_THAT(report.sites[0].arguments, IsEmpty());
  ASSERT_EQ(report.sites[1].arguments.size(), 1u);
  EXPECT_EQ(report.sites[1].arguments[0].name, "dims");
  auto sized = ours;
  sized.calls.insert(sized.calls.begin(), call("size", "", "sym_size"));
  sized.calls[0].dtype = DType::kNone;
  EXPECT_FALSE(diff_of(ours, sized).different);
}

TEST(Contents, RenamedModulesAreFollowedByOrder) {
  const auto ours = program({call("a", "x.fc", "linear", {{"bias", "None"}}), call("b", "x.act", "relu")});
  const auto theirs = program({call("a", "y.fc", "linear", {{"bias", "None"}}), call("b", "y.act", "relu")});
  const auto report = diff_of(ours, theirs);
  EXPECT_EQ(report.coverage.matched, 2);
  EXPECT_EQ(report.sites[0].basis, MatchBasis::kSequence);
  EXPECT_FALSE(report.different);
}

TEST(Contents, SymbolsOfInputsAreHeldAgainstEachOtherByRange) {
  auto ours = program({});
  ours.has_inputs = true;
  ours.inputs = {{"x", "Tensor", DType::kF32, {"s0", "4"}, true, false}};
  ours.ranges = {{"s0", "2..64"}};
  auto theirs = ours;
  EXPECT_EQ(condition(diff_of(ours, theirs), "signature").agreement, Agreement::kSame);
  theirs.ranges = {{"s0", "2..8"}};
  EXPECT_THAT(condition(diff_of(ours, theirs), "signature").details,
              ElementsAre("argument x: f32[s0,4] s0 in 2..64 in reference, f32[s0,4] s0 in 2..8 in subject"));
  theirs.inputs[0].dtype = DType::kBF16;
  theirs.inputs[0].has_sizes = false;
  theirs.inputs.push_back({"mask", "Tensor", DType::kBool, {}, false, false});
  const auto report = diff_of(ours, theirs);
  EXPECT_THAT(condition(report, "signature").details,
              ElementsAre("argument x: f32[s0,4] s0 in 2..64 in reference, bf16 in subject",
                          "argument mask is only in the subject"));
  EXPECT_TRUE(report.different);
}

TEST(Contents, ContainersAreHeldAgainstTheirLeaves) {
  auto ours = program({});
  ours.has_inputs = true;
  ours.operator_form = OperatorForm::kScriptSource;
  ours.inputs = {{"batch", "Dict[str, Tensor]", DType::kNone, {}, false, false},
                 {"scale", "Optional[Tensor]", DType::kNone, {}, false, true}};
  auto theirs = program({});
  theirs.has_inputs = true;
  theirs.inputs = {{"batch_ids", "Tensor", DType::kI64, {"4"}, true, false},
                   {"batch_mask", "Tensor", DType::kBool, {"4"}, true, false}};
  for (const auto& report : {diff_of(ours, theirs), diff_of(theirs, ours)}) {
    EXPECT_EQ(condition(report, "signature").agreement, Agreement::kSame);
    EXPECT_THAT(condition(report, "signature").details, IsEmpty());
  }
}

TEST(Contents, OperatorsOfOtherDialectsAreListedAndNotJudged) {
  auto ours = program({});
  ours.operators = {{"aten::linear", 2}, {"aten::relu", 1}};
  auto theirs = ours;
  theirs.operator_form = OperatorForm::kScriptSource;
  theirs.operators = {{"aten::linear", 5}, {"aten::batch_norm", 3}};
  const auto report = diff_of(ours, theirs);
  const auto& operators = condition(report, "operators");
  EXPECT_EQ(operators.agreement, Agreement::kUnknown);
  EXPECT_THAT(operators.details,
              ElementsAre("operators only in reference: aten::relu", "operators only in subject: aten::batch_norm ×3"));
  EXPECT_FALSE(report.different);
}

TEST(Contents, ModesOfModulesAreHeldAgainstEachOther) {
  ModelContents ours;
  ours.tensors = {tensor("w", "1")};
  ours.mode = "eval";
  ours.modules = {{"", "net.Net", false}, {"bn", "torch.nn.BatchNorm1d", false}};
  auto theirs = ours;
  theirs.mode = "mixed";
  theirs.modules[1].training = true;
  theirs.modules[0].class_name = "Other";
  const auto report = diff_of(ours, theirs);
  EXPECT_THAT(condition(report, "mode").details, ElementsAre("bn: eval in reference, train in subject"));
  EXPECT_THAT(condition(report, "modules").details, ElementsAre("the model: net.Net in reference, Other in subject"));
  EXPECT_EQ(report.verdict, "DIFFERENT  mode differs");
  DiffOptions only_weights;
  only_weights.fail_on = {FailOn::kWeights};
  EXPECT_EQ(diff_of(ours, theirs, only_weights).verdict, "ACCEPTED   weights 1/1; mode differs; nothing was run");
}

TEST(Contents, ModelsThatShareNothingAreRefused) {
  ModelContents ours;
  ours.tensors = {tensor("a", "1")};
  ModelContents theirs;
  theirs.tensors = {tensor("b", "2")};
  try {
    diff_of(ours, theirs);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kNoSharedSites);
    EXPECT_THAT(error.message, HasSubstr("none of the 1 tensor of the reference is one of the 1 of the subject"));
  }
}

}  // namespace
}  // namespace tl
