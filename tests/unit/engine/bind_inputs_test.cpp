#include "engine/bind_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "core/error.h"
#include "signature_text.h"

namespace tl {
namespace {

using test::signature_from_text;
using testing::ElementsAre;
using testing::HasSubstr;

template <typename T>
HostTensor filled(DType dtype, std::vector<std::int64_t> sizes, std::vector<T> values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return make_host_tensor(dtype, std::move(sizes), std::move(bytes));
}

/// A one-element tensor that can be told from others by `mark`.
InputValue tensor(float mark) { return {filled<float>(DType::kF32, {1}, {mark}), "f"}; }

float mark_of(const InputValue& value) {
  const auto& held = std::get<HostTensor>(value.data);
  float mark = 0;
  std::memcpy(&mark, held.storage.data(), sizeof mark);
  return mark;
}

GivenSet file(std::vector<GivenInput> entries) { return {"x.safetensors", std::move(entries), {}, {}, false}; }
GivenSet option(std::string name, InputValue value) {
  return {"--input", {{std::move(name), std::move(value)}}, {}, {}, true};
}

Error misfit(const std::string& signature, const std::vector<GivenSet>& given) {
  try {
    bind_inputs(signature_from_text(signature), given);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no misfit";
  return Error(ErrorCode::kInternal, "");
}

TEST(BindInputs, ByName) {
  const std::vector<GivenSet> given = {file({{"y", tensor(2)}, {"x", tensor(1)}})};
  const auto bound = bind_inputs(signature_from_text("forward(Tensor x, Tensor y, int n=3)"), given);
  EXPECT_EQ(mark_of(bound.arguments[0]), 1);
  EXPECT_EQ(mark_of(bound.arguments[1]), 2);
  EXPECT_THAT(bound.given, ElementsAre(true, true, false));
}

TEST(BindInputs, ByNestedPath) {
  const auto signature = signature_from_text(
      "forward(Dict(str, Tensor) batch, Tensor[] states, (Tensor, int) pair, P(first: Tensor, second: Tensor) named)");
  const std::vector<GivenSet> given = {file({{"states.1", tensor(11)},
                                             {"states.0", tensor(10)},
                                             {"batch.mask", tensor(1)},
                                             {"batch.a.b", tensor(2)},
                                             {"pair.0", tensor(3)},
                                             {"named.second", tensor(5)},
                                             {"named.first", tensor(4)}}),
                                       option("pair.1", {std::int64_t{7}, "7"})};
  const auto bound = bind_inputs(signature, given);
  const auto& batch = std::get<InputValue::Dict>(bound.arguments[0].data);
  EXPECT_EQ(std::get<std::string>(batch[1].first.data), "a.b");
  EXPECT_EQ(mark_of(batch[0].second), 1);
  const auto& states = std::get<InputValue::List>(bound.arguments[1].data);
  EXPECT_EQ(mark_of(states[0]), 10);
  EXPECT_EQ(mark_of(states[1]), 11);
  EXPECT_EQ(std::get<std::int64_t>(std::get<InputValue::Tuple>(bound.arguments[2].data).elements[1].data), 7);
  EXPECT_EQ(mark_of(std::get<InputValue::Tuple>(bound.arguments[3].data).elements[0]), 4);
}

// Safetensors sorts by dtype, so file order means nothing.
TEST(BindInputs, ByNumber) {
  for (const auto* prefix : {"in.00", "arg_", ""}) {
    const std::string p = prefix;
    const std::vector<GivenSet> given = {file({{p + "2", tensor(2)}, {p + "0", tensor(0)}, {p + "1", tensor(1)}})};
    const auto bound = bind_inputs(signature_from_text("forward(Tensor a, Tensor b, Tensor c)"), given);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(mark_of(bound.arguments[i]), i) << p;
  }
}

TEST(BindInputs, NumbersCountLeavesOfContainersAndScalars) {
  const std::vector<GivenSet> given = {file({{"in.000", tensor(0)}, {"in.002", tensor(2)}, {"in.003", tensor(3)}}),
                                       option("pair.1", {std::int64_t{5}, "5"})};
  const auto bound = bind_inputs(signature_from_text("forward((Tensor, int) pair, Tensor b, Tensor? c=None)"), given);
  EXPECT_EQ(mark_of(std::get<InputValue::Tuple>(bound.arguments[0].data).elements[0]), 0);
  EXPECT_EQ(mark_of(bound.arguments[1]), 2);
  EXPECT_EQ(mark_of(bound.arguments[2]), 3);
}

TEST(BindInputs, TheLengthOfOneListFollowsFromTheNumbers) {
  const std::vector<GivenSet> given = {
      file({{"in.000", tensor(0)}, {"in.001", tensor(1)}, {"in.002", tensor(2)}, {"in.003", tensor(3)}})};
  const auto bound = bind_inputs(signature_from_text("forward(Tensor a, Tensor[] list, Tensor b)"), given);
  EXPECT_EQ(std::get<InputValue::List>(bound.arguments[1].data).size(), 2U);
  EXPECT_EQ(mark_of(bound.arguments[2]), 3);
}

TEST(BindInputs, TwoListsCannotBeToldApart) {
  const auto error = misfit("forward(Tensor[] a, Tensor[] b)", {file({{"in.0", tensor(0)}, {"in.1", tensor(1)}})});
  EXPECT_EQ(error.code, ErrorCode::kInputMismatch);
  EXPECT_THAT(error.note, HasSubstr("more than one way to split"));
}

TEST(BindInputs, DictKeysAreNotInNumbers) {
  const auto error = misfit("forward(Dict(str, Tensor) d)", {file({{"in.0", tensor(0)}, {"in.1", tensor(1)}})});
  EXPECT_THAT(error.note, HasSubstr("a dict has keys that numbers do not tell"));
}

TEST(BindInputs, OneTensorMeetsOneArgument) {
  for (const auto* name : {"", "image", "in.000", "7"}) {
    const std::vector<GivenSet> given = {file({{name, tensor(9)}})};
    const auto bound = bind_inputs(signature_from_text("forward(Tensor x)"), given);
    EXPECT_EQ(mark_of(bound.arguments[0]), 9) << name;
  }
  const std::vector<GivenSet> given = {file({{"", tensor(9)}}), option("flag", {true, "true"})};
  const auto bound = bind_inputs(signature_from_text("forward(Tensor x, bool flag, Tensor? mask=None)"), given);
  EXPECT_EQ(mark_of(bound.arguments[0]), 9);
}

TEST(BindInputs, AnUnnamedTensorIsRefusedWhereSeveralCouldTakeIt) {
  const auto error = misfit("forward(Tensor x, Tensor y)", {file({{"", tensor(9)}})});
  EXPECT_THAT(error.note, HasSubstr("x.safetensors: f32[1] has no name, and several arguments could take it"));
}

TEST(BindInputs, ZeroDimensionalTensorsBecomeScalarsIfExact) {
  const auto signature = signature_from_text("forward(int n, float f, bool b, Scalar s)");
  const std::vector<GivenSet> given = {file({{"n", {filled<std::int64_t>(DType::kI64, {}, {3}), ""}},
                                             {"f", {filled<float>(DType::kF32, {}, {0.5F}), ""}},
                                             {"b", {filled<std::uint8_t>(DType::kBool, {}, {1}), ""}},
                                             {"s", {filled<double>(DType::kF64, {}, {2.5}), ""}}})};
  const auto bound = bind_inputs(signature, given);
  EXPECT_EQ(std::get<std::int64_t>(bound.arguments[0].data), 3);
  EXPECT_EQ(std::get<double>(bound.arguments[1].data), 0.5);
  EXPECT_EQ(std::get<bool>(bound.arguments[2].data), true);
  EXPECT_EQ(std::get<double>(bound.arguments[3].data), 2.5);
}

TEST(BindInputs, InexactScalarsAreRefused) {
  const auto half = filled<float>(DType::kF32, {}, {0.5F});
  EXPECT_THAT(misfit("forward(int n)", {option("n", {half, ""})}).note,
              HasSubstr("n: f32[] given, int wanted; its value does not"));
  EXPECT_THAT(misfit("forward(int n)", {option("n", {0.5, ""})}).note, HasSubstr("n: 0.5 given, int wanted"));
  EXPECT_THAT(misfit("forward(int n)", {option("n", tensor(1))}).note, HasSubstr("only a 0-d tensor fits"));
  EXPECT_THAT(misfit("forward(int n)", {option("n", {true, ""})}).note, HasSubstr("n: true given, int wanted"));
  const std::int64_t large = (std::int64_t{1} << 53) + 1;  // the first integer that no double holds
  EXPECT_THAT(misfit("forward(float f)", {option("f", {large, ""})}).note,
              HasSubstr("9007199254740993 given, float wanted"));
}

TEST(BindInputs, ContainersTakeTheFormOfTheType) {
  const InputValue list{InputValue::List{{std::int64_t{1}, ""}, {std::int64_t{2}, ""}}, ""};
  const std::vector<GivenSet> given = {option("pair", list), option("scales", list)};
  const auto bound = bind_inputs(signature_from_text("forward((int, int) pair, float[] scales)"), given);
  EXPECT_TRUE(std::holds_alternative<InputValue::Tuple>(bound.arguments[0].data));
  EXPECT_EQ(std::get<double>(std::get<InputValue::List>(bound.arguments[1].data)[1].data), 2.0);
  const auto error = misfit("forward((int, int, int) t)", {option("t", list)});
  EXPECT_THAT(error.note, HasSubstr("t: list of 2 (1, …) given, (int, int, int) wanted; 2 elements against 3"));
}

TEST(BindInputs, NoneFitsOptionalsOnly) {
  const std::vector<GivenSet> given = {option("mask", {InputValue::None{}, "none"})};
  const auto bound = bind_inputs(signature_from_text("forward(Tensor? mask)"), given);
  EXPECT_TRUE(std::holds_alternative<InputValue::None>(bound.arguments[0].data));
  EXPECT_TRUE(bound.given[0]);
  EXPECT_THAT(misfit("forward(Tensor x)", {option("x", {InputValue::None{}, "none"})}).note,
              HasSubstr("x: none given, Tensor wanted"));
}

TEST(BindInputs, PositionalValuesAndKeywordsOfAPickle) {
  GivenSet set{"in.pt", {{"flag", {true, ""}}}, {tensor(1)}, {}, true};
  const std::vector<GivenSet> given = {set};
  const auto bound = bind_inputs(signature_from_text("forward(Tensor x, *, bool flag)"), given);
  EXPECT_EQ(mark_of(bound.arguments[0]), 1);
  EXPECT_TRUE(std::get<bool>(bound.arguments[1].data));
  set.positional.push_back(tensor(2));
  EXPECT_THAT(misfit("forward(Tensor x, *, bool flag)", {set}).note,
              HasSubstr("in.pt: 2 positional values, the model takes 2"));
}

TEST(BindInputs, AWholeDictMeetsTheOneDictArgument) {
  const InputValue dict{
      InputValue::Dict{{{std::string("image"), ""}, tensor(1)}, {{std::string("mask"), ""}, tensor(2)}}, ""};
  const GivenSet set{"in.pt", {{"image", tensor(1)}, {"mask", tensor(2)}}, {}, dict, false};
  const std::vector<GivenSet> given = {set};
  const auto bound = bind_inputs(signature_from_text("forward(Dict(str, Tensor) batch)"), given);
  EXPECT_EQ(std::get<InputValue::Dict>(bound.arguments[0].data).size(), 2U);
  const auto named = bind_inputs(signature_from_text("forward(Tensor mask, Tensor image)"), given);
  EXPECT_EQ(mark_of(named.arguments[0]), 2);
}

TEST(BindInputs, AllMisfitsStandInOneMessageWithBothSides) {
  auto signature = signature_from_text("forward(Tensor x, Tensor y, int n, float scale=1.0)");
  signature.arguments[0].expected = {DType::kF32, std::vector<std::int64_t>{-1, 3}};
  const std::vector<GivenSet> given = {
      file({{"x", {filled<double>(DType::kF64, {2, 3}, {1, 2, 3, 4, 5, 6}), ""}}, {"xs", tensor(1)}}),
      option("scal", {1.5, "1.5"}), option("n", {std::string("a"), ""})};
  try {
    bind_inputs(signature, given);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kInputMismatch);
    EXPECT_EQ(error.message, "the inputs do not fit forward: 5 misfits");
    EXPECT_EQ(error.note,
              "scal (--input, 1.5): no argument of that name, did you mean scale?\n"
              "xs (x.safetensors, f32[1]): no argument of that name, did you mean x?\n"
              "x: f64[2,3] given, the file states f32[*,3] (float64 against float32)\n"
              "y: nothing given (Tensor)\n"
              "n: \"a\" given, int wanted\n"
              "the model takes  x Tensor, y Tensor, n int, scale float = 1.0\n"
              "given  x f64[2,3] (x.safetensors), xs f32[1] (x.safetensors), scal 1.5 (--input), n \"a\" (--input)");
  }
}

TEST(BindInputs, TwiceAndInPartsAreMisfits) {
  EXPECT_THAT(misfit("forward(Tensor x)", {option("x", tensor(1)), option("x", tensor(2))}).note,
              HasSubstr("x: given twice"));
  EXPECT_THAT(misfit("forward(Tensor x)", {option("x.0", tensor(1))}).note,
              HasSubstr("x.0: x is Tensor and has no parts"));
  EXPECT_THAT(misfit("forward((Tensor, int) p)", {option("p.7", tensor(1))}).note,
              HasSubstr("p.7: no such part of (Tensor, int)"));
  EXPECT_THAT(misfit("forward(Tensor[] l)", {option("l.0", tensor(1)), option("l.2", tensor(1))}).note,
              HasSubstr("l.1: nothing given (Tensor)"));
  EXPECT_THAT(misfit("forward(Tensor[] l)", {option("l", {InputValue::List{}, ""}), option("l.0", tensor(1))}).note,
              HasSubstr("l: given as a whole and in parts"));
}

TEST(BindInputs, ANumberBeyondTheLeavesIsNamed) {
  const auto error = misfit("forward(Tensor x, Tensor y)", {file({{"in.000", tensor(0)}, {"in.005", tensor(1)}})});
  EXPECT_THAT(error.note, HasSubstr("in.005 of x.safetensors: number 5, the arguments have 2 leaves"));
}

TEST(BindInputs, NothingGivenShowsTheCompleteOptions) {
  auto signature =
      signature_from_text("forward(Tensor x, int n, Dict(str, Tensor) d, (bool, Tensor) p, Tensor? m=None)");
  signature.arguments[0].expected = {DType::kI64, std::vector<std::int64_t>{-1, 3}};
  try {
    bind_inputs(signature, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kInputMissing);
    EXPECT_EQ(
        error.hint,
        "--random 'x:i64[1,3]' --input n=INT --random 'd.KEY:f32[SIZES]' --input p.0=true --random 'p.1:f32[SIZES]'");
  }
}

TEST(BindInputs, NothingNeededNothingGiven) {
  EXPECT_TRUE(bind_inputs(signature_from_text("forward()"), {}).arguments.empty());
  EXPECT_THAT(bind_inputs(signature_from_text("forward(int n=3)"), {}).given, ElementsAre(false));
}

TEST(InputRecords, RolesSourcesAndRanges) {
  const auto signature = signature_from_text("forward(Dict(str, Tensor) batch, (Tensor, int) pair, Tensor? mask=None)");
  const std::vector<GivenSet> given = {
      file({{"batch.mask", {filled<float>(DType::kF32, {3}, {1, -2, 4}), "x.safetensors:batch.mask"}},
            {"pair.0", tensor(3)}}),
      option("pair.1", {std::int64_t{7}, "7"})};
  const auto records = input_records(signature, bind_inputs(signature, given));
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[0].role, "input.batch.mask");
  EXPECT_EQ(records[0].source, "x.safetensors:batch.mask");
  EXPECT_EQ(records[0].min, -2);
  EXPECT_EQ(records[0].max, 4);
  EXPECT_EQ(records[1].role, "input.pair.0");
  EXPECT_EQ(records[2].role, "input.pair.1");
  EXPECT_EQ(records[2].scalar, "7");
}

TEST(BindInputs, SpellingsOfANumberAreOnePlace) {
  const auto error = misfit("forward(Tensor[] s)", {option("s.0", tensor(1)), option("s.00", tensor(2))});
  EXPECT_THAT(error.note, HasSubstr("s.0: given twice"));
}

TEST(BindInputs, IntegerKeysMayBeNegative) {
  const std::vector<GivenSet> given = {option("d.-3", tensor(1)), option("d.4", tensor(2))};
  const auto bound = bind_inputs(signature_from_text("forward(Dict(int, Tensor) d)"), given);
  const auto& items = std::get<InputValue::Dict>(bound.arguments[0].data);
  EXPECT_EQ(std::get<std::int64_t>(items[0].first.data), -3);
  EXPECT_THAT(misfit("forward(Dict(int, Tensor) d)", {option("d.04", tensor(1))}).note,
              HasSubstr("d.04: the key must be an integer"));
}

TEST(BindInputs, FieldsAreSuggested) {
  const auto error = misfit("forward(P(first: Tensor, second: Tensor) p)", {option("p.secnd", tensor(1))});
  EXPECT_THAT(error.note, HasSubstr("second: Tensor), did you mean second?"));
}

TEST(BindInputs, TheSourcesOfAPlaceGivenTwiceAreNamed) {
  const auto error = misfit("forward(Tensor x)", {option("x", {filled<float>(DType::kF32, {1}, {1}), "a.npy"}),
                                                  option("x", {filled<float>(DType::kF32, {1}, {1}), "b.npy"})});
  EXPECT_THAT(error.note, HasSubstr("x: given twice, by a.npy and by b.npy"));
}

TEST(BindInputs, ATensorTooMuch) {
  EXPECT_THAT(misfit("forward()", {file({{"", tensor(1)}})}).note,
              HasSubstr("x.safetensors: f32[1] has no name, and no argument is left to take it"));
}

TEST(BindInputs, AFileWithoutTensorsIsNamed) {
  const auto error = misfit("forward(Tensor x)", {{"meta.safetensors", {}, {}, {}, false}});
  EXPECT_EQ(error.code, ErrorCode::kInputMissing);
  EXPECT_EQ(error.message, "forward takes inputs, and there are none in meta.safetensors");
  EXPECT_EQ(error.hint, "--random 'x:f32[SIZES]'");
}

TEST(BindInputs, AMessageListsAFewOfMany) {
  std::vector<GivenInput> entries;
  for (int i = 0; i < 150'000; ++i) entries.push_back({"w." + std::to_string(i), tensor(0)});
  const auto error = misfit("forward(Tensor x)", {file(std::move(entries))});
  EXPECT_EQ(error.message, "the inputs do not fit forward: 149999 misfits");
  EXPECT_THAT(error.note, HasSubstr("\nand 149979 more\n"));
  EXPECT_THAT(error.note, HasSubstr(" and 149980 more"));
  EXPECT_LT(error.note.size(), 10'000U);
}

// Quadratic work in any part of it would take minutes.
TEST(BindInputs, ManyTensorsMakeALongList) {
  constexpr int kCount = 50'000;
  const auto signature = signature_from_text("forward(Tensor a, Tensor[] list, Tensor b)");
  for (const bool named : {true, false}) {
    std::vector<GivenInput> entries;
    for (int i = kCount - 1; i >= 0; --i) {
      const bool inside = i > 0 && i < kCount - 1;
      const std::string name = inside ? "list." + std::to_string(i - 1) : i == 0 ? "a" : "b";
      entries.push_back({named ? name : "in." + std::to_string(i), tensor(static_cast<float>(i))});
    }
    const std::vector<GivenSet> given = {file(std::move(entries))};
    const auto bound = bind_inputs(signature, given);
    EXPECT_EQ(mark_of(bound.arguments[0]), 0);
    EXPECT_EQ(mark_of(bound.arguments[2]), kCount - 1);
    const auto& list = std::get<InputValue::List>(bound.arguments[1].data);
    ASSERT_EQ(list.size(), kCount - 2U);
    EXPECT_EQ(mark_of(list[77]), 78);
  }
}

TEST(BindInputs, NumbersAreNoKeysOfDictsInLists) {
  const auto error = misfit("forward(Dict(str, Tensor)[] l)", {file({{"in.0", tensor(0)}, {"in.1", tensor(1)}})});
  EXPECT_THAT(error.note, HasSubstr("there is no way to split"));
}

TEST(BindInputs, ElementTypesAndRanksThatTheFileStates) {
  const auto signature = signature_from_text("forward(Tensor x, Dict(str, Tensor) d, (Tensor, Tensor) t)");
  const std::vector<StatedInput> stated = {
      {"x", DType::kF32, {2}}, {"d.a", DType::kI64, {2}}, {"t.0", DType::kF32, {2, 3}}, {"t.1", DType::kF32, {}}};
  const auto f32 = [](std::vector<std::int64_t> sizes) {
    std::vector<float> values(static_cast<std::size_t>(checked_numel(sizes)));
    return InputValue{filled<float>(DType::kF32, std::move(sizes), values), "f"};
  };
  const InputValue i64{filled<std::int64_t>(DType::kI64, {5}, {1, 2, 3, 4, 5}), "f"};
  std::vector<GivenSet> given = {option("x", f32({7})), option("d.a", i64), option("d.b", f32({1, 1})),
                                 option("t.0", f32({1, 1})), option("t.1", f32({}))};
  EXPECT_EQ(bind_inputs(signature, given, stated).given.size(), 3U);
  given[0] = option("x", i64);
  given[1] = option("d.a", f32({2}));
  given[3] = option("t.0", f32({4}));
  try {
    bind_inputs(signature, given, stated);
    FAIL() << "no misfit";
  } catch (const Error& error) {
    EXPECT_THAT(error.message, HasSubstr("3 misfits"));
    EXPECT_THAT(error.note, HasSubstr("x: i64[5] given, the file states f32[*]"));
    EXPECT_THAT(error.note, HasSubstr("d.a: f32[2] given, the file states i64[*]"));
    EXPECT_THAT(error.note, HasSubstr("t.0: f32[4] given, the file states f32[*,*]"));
  }
}

TEST(BindInputs, WhatTheFileStatesCompletesTheExample) {
  const auto signature = signature_from_text("forward(Tensor x, Dict(str, Tensor) d, int n)");
  const std::vector<StatedInput> stated = {{"x", DType::kBF16, {1, 3}}, {"d.a", DType::kI64, {}}};
  EXPECT_EQ(example_options(signature, stated), "--random 'x:bf16[1,3]' --random 'd.a:i64[]' --input n=INT");
}

TEST(BindInputs, ADictOfNumbersIsNamedAsGiven) {
  InputValue::Dict dict = {{InputValue{std::int64_t{3}, ""}, tensor(1)}};
  EXPECT_THAT(misfit("forward(Tensor x)", {{"f.pt", {}, {}, InputValue{dict, ""}, false}}).note,
              HasSubstr("given  dict of 1 (f32[1]) (f.pt)"));
}

}  // namespace
}  // namespace tl
