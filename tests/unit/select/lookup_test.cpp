#include "select/lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "postprocess/pipeline.h"
#include "support/trace_fixtures.h"

namespace tl {
namespace {

using testing::HasSubstr;
using Kind = Found::Kind;

// x -> block (relu, called twice) -> relu at the root in a loop of two; `Alias` is a second address of block.
Trace made() {
  return run_pipeline(
      test::capture_from_text("trace 1\n"
                              "call_site s0 file=m.py line=3 column=4 column_end=9\n"
                              "call_site s1 file=m.py line=7 column=4 column_end=9\n"
                              "module self class_name=Net\n"
                              "module block class_name=Block parent=self all_addresses=\"block,alias\"\n"
                              "context c0 module=self\n"
                              "context c1 module=block\n"
                              "instruction i0 op_name=aten::relu func_name=relu layer_type=relu call_site=s0\n"
                              "instruction i1 op_name=aten::tanh func_name=tanh layer_type=tanh call_site=s1\n"
                              "param block.weight module=block dtype=f32 shape=[2] bytes=8\n"
                              "buffer block.count module=block dtype=f32 shape=[] bytes=4\n"
                              "call self:1 first_op=a end_op=end\n"
                              "call block:1 parent_call=self:1 first_op=b end_op=c output_op=b\n"
                              "call block:2 parent_call=self:1 first_op=c end_op=d output_op=c\n"
                              "op a input out=f32[2] address=input.x\n"
                              "op b i0 out=f32[2] parents=a@0 call=block:1 context=c1\n"
                              "op c i0 out=f32[2] parents=b@0 call=block:2 context=c1\n"
                              "op d i1 out=f32[2] parents=c@0\n"
                              "op e output out=f32[2] parents=d@0 address=output\n"));
}

Found found(const std::string& key) {
  static const Trace trace = made();
  const auto result = look_up(trace, key);
  EXPECT_TRUE(result.ok()) << key << ": " << (result.ok() ? "" : result.error().message);
  return result.ok() ? result.value() : Found{};
}

Error missed(const std::string& key) {
  static const Trace trace = made();
  const auto result = look_up(trace, key);
  EXPECT_FALSE(result.ok()) << key;
  return result.ok() ? Error(ErrorCode::kInternal, "") : result.error();
}

TEST(Lookup, EveryKindOfKey) {
  EXPECT_EQ(found("relu_1_1"), (Found{Kind::kLayer, 1}));
  EXPECT_EQ(found("relu_1"), (Found{Kind::kLayer, 1}));
  EXPECT_EQ(found("tanh_1_2"), (Found{Kind::kLayer, 2}));
  EXPECT_EQ(found("input_1"), (Found{Kind::kLayer, 0}));
  EXPECT_EQ(found("output_1"), (Found{Kind::kLayer, 3}));
  EXPECT_EQ(found("relu_1_1:2"), (Found{Kind::kOp, 2}));
  EXPECT_EQ(found("relu_1_1:last"), (Found{Kind::kOp, 2}));
  EXPECT_EQ(found("relu_1_1:all"), (Found{Kind::kLayer, 1}));
  EXPECT_EQ(found("tanh_1_2:1"), (Found{Kind::kOp, 3}));
  EXPECT_EQ(found("relu_2_3_raw"), (Found{Kind::kOp, 2}));
  EXPECT_EQ(found("input.x"), (Found{Kind::kOp, 0}));
  EXPECT_EQ(found("output"), (Found{Kind::kOp, 4}));
  EXPECT_EQ(found("self"), (Found{Kind::kModule, 0}));
  EXPECT_EQ(found("block"), (Found{Kind::kModule, 1}));
  EXPECT_EQ(found("alias"), (Found{Kind::kModule, 1}));
  EXPECT_EQ(found("block:2"), (Found{Kind::kModuleCall, 2}));
  EXPECT_EQ(found("alias:last"), (Found{Kind::kModuleCall, 2}));
  EXPECT_EQ(found("block.weight"), (Found{Kind::kParam, 0}));
  EXPECT_EQ(found("block.count"), (Found{Kind::kBuffer, 0}));
}

TEST(Lookup, CaseAndSubstringsAreTheLastResort) {
  EXPECT_EQ(found("ReLU_1_1:2"), (Found{Kind::kOp, 2}));
  EXPECT_EQ(found("Block"), (Found{Kind::kModule, 1}));
  EXPECT_EQ(found("tanh"), (Found{Kind::kLayer, 2}));
  const auto ambiguous = missed("put_1");
  EXPECT_EQ(ambiguous.code, ErrorCode::kAmbiguousOpLookup);
  EXPECT_EQ(ambiguous.note, "input_1, output_1");
}

TEST(Lookup, Misses) {
  const auto miss = missed("blokc");
  EXPECT_EQ(miss.code, ErrorCode::kLookupNotFound);
  EXPECT_THAT(miss.hint, HasSubstr("did you mean block"));
  EXPECT_EQ(missed("").code, ErrorCode::kLookupNotFound);
  const auto pass = missed("relu_1_1:3");
  EXPECT_EQ(pass.code, ErrorCode::kPassOutOfRange);
  EXPECT_THAT(pass.message, HasSubstr("the layer has 2 passes"));
  EXPECT_EQ(missed("relu_1_1:0").code, ErrorCode::kPassOutOfRange);
  EXPECT_EQ(missed("block:3").code, ErrorCode::kPassOutOfRange);
  EXPECT_EQ(missed("relu_2").code, ErrorCode::kLookupNotFound);
}

TEST(Lookup, Collections) {
  EXPECT_EQ(found("ops[3]"), (Found{Kind::kOp, 3}));
  EXPECT_EQ(found("ops[-1]"), (Found{Kind::kOp, 4}));
  EXPECT_EQ(found("-1"), (Found{Kind::kOp, 4}));
  EXPECT_EQ(found("0"), (Found{Kind::kOp, 0}));
  EXPECT_EQ(found("ops[relu_1_1:2]"), (Found{Kind::kOp, 2}));
  EXPECT_EQ(found("ops[tanh_1_2]"), (Found{Kind::kOp, 3}));
  EXPECT_EQ(found("layers[-1]"), (Found{Kind::kLayer, 3}));
  EXPECT_EQ(found("layers['relu_1_1']"), (Found{Kind::kLayer, 1}));
  EXPECT_EQ(found("modules[alias]"), (Found{Kind::kModule, 1}));
  EXPECT_EQ(found("module_calls[block:2]"), (Found{Kind::kModuleCall, 2}));
  EXPECT_EQ(found("module-calls[0]"), (Found{Kind::kModuleCall, 0}));
  EXPECT_EQ(found("module_calls[self]"), (Found{Kind::kModuleCall, 0}));
  EXPECT_EQ(found("params[\"block.weight\"]"), (Found{Kind::kParam, 0}));
  EXPECT_EQ(found("buffers[0]"), (Found{Kind::kBuffer, 0}));
  EXPECT_EQ(missed("ops[5]").code, ErrorCode::kIndexOutOfRange);
  EXPECT_THAT(missed("-6").hint, HasSubstr("in the range -5 - 4"));
  EXPECT_EQ(missed("conditionals[0]").code, ErrorCode::kIndexOutOfRange);
  EXPECT_EQ(missed("ops[relu_1_1]").code, ErrorCode::kAmbiguousOpLookup);
  EXPECT_THAT(missed("ops[relu_1_1]").note, HasSubstr("relu_1_1:1, relu_1_1:2"));
  EXPECT_EQ(missed("module_calls[block]").code, ErrorCode::kModuleCallAmbiguous);
  EXPECT_EQ(missed("layers[block]").code, ErrorCode::kLookupNotFound);
  EXPECT_EQ(missed("ops[1:3]").code, ErrorCode::kAmbiguousOpLookup);
}

TEST(Lookup, CollectionsAndFiltersAreNoOneRecord) {
  EXPECT_EQ(missed("layers").code, ErrorCode::kAmbiguousOpLookup);
  EXPECT_EQ(missed("layers").hint, "torchlens query TRACE --table layers");
  EXPECT_EQ(missed("ops.compute").code, ErrorCode::kAmbiguousOpLookup);
  EXPECT_THAT(missed("ops.compute").message, HasSubstr("names 3 records"));
  EXPECT_EQ(missed("ops.compute").hint, "torchlens query TRACE ops.compute");
  EXPECT_EQ(missed("ops.savedd").code, ErrorCode::kUnknownField);
  EXPECT_THAT(missed("ops.savedd").hint, HasSubstr("did you mean ops.saved"));
  EXPECT_THAT(missed("layers.xyzzy").hint, HasSubstr("layers.recurrent"));
}

TEST(Lookup, AllCallsOfAModuleAreTheModule) {
  EXPECT_EQ(found("block:all"), (Found{Kind::kModule, 1}));
  EXPECT_EQ(found("alias:all"), (Found{Kind::kModule, 1}));
}

TEST(Lookup, APartOfALabelMustMeanOneOp) {
  EXPECT_EQ(missed("relu").code, ErrorCode::kAmbiguousOpLookup);
  EXPECT_THAT(missed("relu").note, HasSubstr("relu_1_1:1, relu_1_1:2"));
}

TEST(Lookup, WhereOneOpIsNeeded) {
  static const Trace trace = made();
  const auto op = [](const char* key) { return look_up_op(trace, key).value().value; };
  EXPECT_EQ(op("tanh_1_2"), 3u);
  EXPECT_EQ(op("relu_1_1:last"), 2u);
  EXPECT_EQ(op("block:1"), 1u);
  EXPECT_EQ(op("output"), 4u);
  EXPECT_EQ(look_up_op(trace, "block").error().code, ErrorCode::kModuleCallAmbiguous);
  EXPECT_EQ(look_up_op(trace, "block.weight").error().code, ErrorCode::kLookupNotFound);
  EXPECT_EQ(look_up_op(trace, "relu_1_1").error().code, ErrorCode::kAmbiguousOpLookup);
}

TEST(Lookup, SeveralRows) {
  static const Trace trace = made();
  const auto rows = [](const char* key) {
    std::vector<std::uint32_t> numbers;
    const auto records = look_up_rows(trace, key).value();
    for (const auto& record : records) numbers.push_back(record.row);
    return numbers;
  };
  EXPECT_EQ(rows("ops[1:3]"), (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(rows("ops[-2:]"), (std::vector<std::uint32_t>{3, 4}));
  EXPECT_EQ(rows("ops[9:]"), (std::vector<std::uint32_t>{}));
  EXPECT_EQ(rows("layers.recurrent"), (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(rows("layers.compute"), (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(rows("modules.called"), (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(rows("modules"), (std::vector<std::uint32_t>{0, 1})) << "a bare collection is all of it";
  EXPECT_FALSE(look_up_rows(trace, "layers.nonsense").ok());
}

TEST(Fields, AllHaveAMeaningAndNumbersAUnit) {
  for (const auto name : table_names()) {
    for (const auto& field : fields_of(*table_from_name(name))) {
      EXPECT_FALSE(field.meaning.empty()) << name << " " << field.name;
      const bool counts = field.type == FieldType::kInteger || field.type == FieldType::kReal;
      EXPECT_FALSE(counts && field.unit.empty()) << name << " " << field.name;
    }
  }
}

TEST(Lookup, AnEmptyTraceHasNothing) { EXPECT_FALSE(look_up(Trace{}, "x").ok()); }

}  // namespace
}  // namespace tl
