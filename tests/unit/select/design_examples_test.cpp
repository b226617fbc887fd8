// The worked examples of the design document, "Ops, Layers, Modules and passes" and "Lookups and the typed
// collections".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "postprocess/pipeline.h"
#include "select/lookup.h"
#include "select/selection.h"
#include "support/trace_fixtures.h"

namespace tl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// for _ in range(3): x = torch.tanh(x) * 0.5
const Trace& looped() {
  static const Trace trace = run_pipeline(test::capture_from_text(
      "trace 1\n"
      "call_site s0 file=loop_fn.py line=7 column=16 column_end=29 function=forward\n"
      "call_site s1 file=loop_fn.py line=7 column=16 column_end=35 function=forward\n"
      "module self class_name=Looped\n"
      "context c0 module=self\n"
      "instruction t op_name=aten::tanh func_name=tanh layer_type=tanh call_site=s0\n"
      "instruction m op_name=aten::mul overload=Tensor func_name=__mul__ layer_type=mul call_site=s1\n"
      "call self:1 first_op=a end_op=end\n"
      "op a input out=f32[2,4] address=input.x\n"
      "op b t out=f32[2,4] parents=a@0\nop c m out=f32[2,4] parents=b@0\n"
      "op d t out=f32[2,4] parents=c@0\nop e m out=f32[2,4] parents=d@0\n"
      "op f t out=f32[2,4] parents=e@0\nop g m out=f32[2,4] parents=f@0\n"
      "op h output out=f32[2,4] parents=g@0 address=output\n"));
  return trace;
}

// nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
const Trace& sequential() {
  static const Trace trace =
      run_pipeline(test::capture_from_text("trace 1\n"
                                           "module self class_name=Sequential\n"
                                           "module \"0\" class_name=Linear parent=self\n"
                                           "module \"1\" class_name=ReLU parent=self\n"
                                           "module \"2\" class_name=Linear parent=self\n"
                                           "context c0 module=\"0\"\ncontext c1 module=\"1\"\ncontext c2 module=\"2\"\n"
                                           "instruction l op_name=aten::linear func_name=linear layer_type=linear\n"
                                           "instruction r op_name=aten::relu func_name=relu layer_type=relu\n"
                                           "call self:1 first_op=a end_op=end\n"
                                           "call 0:1 parent_call=self:1 first_op=b end_op=c output_op=b\n"
                                           "call 1:1 parent_call=self:1 first_op=c end_op=d output_op=c\n"
                                           "call 2:1 parent_call=self:1 first_op=d end_op=e output_op=d\n"
                                           "op a input out=f32[3,4] address=input.input\n"
                                           "op b l out=f32[3,8] parents=a@0 call=0:1 context=c0\n"
                                           "op c r out=f32[3,8] parents=b@0 call=1:1 context=c1\n"
                                           "op d l out=f32[3,2] parents=c@0 call=2:1 context=c2\n"
                                           "op e output out=f32[3,2] parents=d@0 address=output\n"));
  return trace;
}

std::vector<std::string> keys(const Trace& trace, std::string_view source) {
  std::vector<std::string> labels;
  for (const auto& site : resolve(Selector::parse(source), trace).sites) labels.push_back(Selection::key(trace, site));
  return labels;
}

ErrorCode code_of(const Trace& trace, std::string_view source) {
  try {
    (void)resolve(Selector::parse(source), trace);
  } catch (const Error& error) {
    return error.code;
  }
  ADD_FAILURE() << source << " was resolved";
  return ErrorCode::kInternal;
}

TEST(DesignDocument, TheLoopIsOneLayerWithThreePasses) {
  const FieldContext context(looped());
  const auto layers = select_rows(Selector::parse("where(func_name == \"tanh\")"), context, TableId::k_layers);
  ASSERT_EQ(layers.size(), 1u);
  FieldValue value;
  find_field(TableId::k_layers, "num_passes")->get(context, layers[0].row, value);
  EXPECT_EQ(value.integer, 3);
}

TEST(DesignDocument, PassTokens) {
  EXPECT_THAT(keys(looped(), "tanh_1_1:2"), ElementsAre("tanh_1_1:2"));
  EXPECT_THAT(keys(looped(), "tanh_1_1:last"), ElementsAre("tanh_1_1:3"));
  EXPECT_THAT(keys(looped(), "tanh_1_1:all"), ElementsAre("tanh_1_1:1", "tanh_1_1:2", "tanh_1_1:3"));
}

TEST(DesignDocument, ABareLabelIsTheAggregateOrRefused) {
  EXPECT_EQ(look_up(looped(), "tanh_1_1").value(), (Found{Found::Kind::kLayer, 1}));
  EXPECT_EQ(code_of(looped(), "label(\"tanh_1_1\")"), ErrorCode::kMultipassBareLabel);
  EXPECT_EQ(code_of(looped(), "ops[\"tanh_1_1\"]"), ErrorCode::kAmbiguousOpLookup);
  EXPECT_EQ(look_up_op(looped(), "tanh_1_1").error().code, ErrorCode::kAmbiguousOpLookup);
  EXPECT_THAT(look_up_op(looped(), "tanh_1_1").error().note, HasSubstr("tanh_1_1:1, tanh_1_1:2, tanh_1_1:3"));
}

TEST(DesignDocument, APassThatDoesNotExistIsRefused) {
  for (const char* key : {"tanh_1_1:9", "tanh_1_1:0", "input_1:2"}) {
    EXPECT_EQ(look_up(looped(), key).error().code, ErrorCode::kPassOutOfRange) << key;
  }
}

TEST(DesignDocument, SitesOfModules) {
  EXPECT_THAT(keys(sequential(), "module(\"1\")"), ElementsAre("relu_1_2"));
  EXPECT_THAT(keys(sequential(), "module(\"2\")"), ElementsAre("linear_2_3"));
  EXPECT_THAT(keys(sequential(), "1"), ElementsAre("relu_1_2"));
  EXPECT_THAT(keys(sequential(), "module_calls[1]"), ElementsAre("linear_1_1"));
  EXPECT_THAT(keys(sequential(), "ops[1]"), ElementsAre("linear_1_1"));
}

}  // namespace
}  // namespace tl
