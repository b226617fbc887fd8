#include "diff/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diff_fixtures.h"

namespace tl {
namespace {

/// One operation with this template, run-time arguments and output.
Trace one_op(const std::string& name, const std::string& arguments, const std::string& more = "",
             const std::string& out = "f32[2,4]", const std::string& in = "f32[2,4]") {
  const auto type = name.substr(name.find("::") + 2);
  return test::trace_of("module self\ncontext c0 module=self\ninstruction " + name + " func_name=" + type +
                        " layer_type=" + type + " arg_template=\"" + arguments +
                        "\"\ncall self:1 first_op=a end_op=end\n" + "op a input out=" + in + " address=input.x\nop b " +
                        name + " out=" + out + " parents=a@0 " + more + "\nop c output out=" + out +
                        " parents=b@0 address=output\n");
}

std::vector<std::string> differences(const Trace& a, const Trace& b) {
  std::vector<std::string> texts;
  for (const auto& found : argument_differences(a, OpId{1}, b, OpId{1})) {
    texts.push_back(found.name + ": " + found.reference + " | " + found.subject);
  }
  return texts;
}

TEST(SameLiteral, NumbersListsAndWords) {
  EXPECT_TRUE(same_literal("1e-05", "0.00001"));
  EXPECT_TRUE(same_literal("1e-05", "9.9999997473787516e-06"));  // 1e-5 rounded to single precision
  EXPECT_FALSE(same_literal("1e-05", "1e-06"));
  EXPECT_TRUE(same_literal("[1, 1]", "1"));
  EXPECT_TRUE(same_literal("[1, 1]", "[1]"));
  EXPECT_FALSE(same_literal("[1, 2]", "[1]"));
  EXPECT_TRUE(same_literal("True", "1"));
  EXPECT_FALSE(same_literal("\"none\"", "\"tanh\""));
  EXPECT_TRUE(same_literal("[]", "[]"));
  EXPECT_FALSE(same_literal("2654435761", "2654435769")) << "integers compare exactly";
  EXPECT_FALSE(same_literal("9007199254740992", "9007199254740993")) << "also beyond 2^53";
  EXPECT_FALSE(same_literal("-inf", "-1e+09")) << "infinity is no rounding";
  EXPECT_TRUE(same_literal("16777217", "16777216.0"));  // 2^24 + 1 in single precision
}

TEST(ArgumentDifferences, NamesConstants) {
  const auto a = one_op("aten::layer_norm", "input=%0, normalized_shape=[4], eps=1e-06, cudnn_enable=True");
  const auto b = one_op("aten::layer_norm", "input=%0, normalized_shape=[4], eps=1e-05, cudnn_enable=False");
  EXPECT_THAT(differences(a, b), testing::ElementsAre("eps: 1e-06 | 1e-05"));
  EXPECT_TRUE(differences(a, a).empty());
}

TEST(ArgumentDifferences, ReadsRunTimeScalars) {
  const auto a = one_op("aten::softmax", "self=%0, dim=$1, dtype=None", "args=[1:int(1)]");
  const auto b = one_op("aten::softmax", "self=%0, dim=-1, dtype=None");
  const auto c = one_op("aten::softmax", "self=%0, dim=$1, dtype=None", "args=[1:int(0)]");
  EXPECT_TRUE(differences(a, b).empty()) << "1 and -1 are the same axis of a matrix";
  EXPECT_THAT(differences(b, c), testing::ElementsAre("dim: -1 | 0"));
}

TEST(ArgumentDifferences, NamesTypesShapesAndOperators) {
  const auto a = one_op("aten::gelu", "self=%0, approximate=\\\"none\\\"");
  const auto b = one_op("aten::gelu", "self=%0, approximate=\\\"tanh\\\"", "", "bf16[2,4]");
  const auto c = one_op("aten::silu", "self=%0", "", "f32[2,3]");
  EXPECT_THAT(differences(a, b), testing::ElementsAre("dtype: f32 | bf16", "approximate: \"none\" | \"tanh\""));
  EXPECT_THAT(differences(a, c), testing::ElementsAre("shape: [2,4] | [2,3]", "operator: aten::gelu | aten::silu"));
}

// softmax and cumsum of f32[2,3,4] along the last axis but one, and along the last.
TEST(ArgumentDifferences, DimsAreCountedByTheRank) {
  const auto softmax = [](const std::string& dim) {
    return one_op("aten::softmax", "self=%0, dim=" + dim, "", "f32[2,3,4]", "f32[2,3,4]");
  };
  EXPECT_THAT(differences(softmax("-2"), softmax("2")), testing::ElementsAre("dim: -2 | 2"));
  EXPECT_TRUE(differences(softmax("-2"), softmax("1")).empty());
  const auto unsqueeze = [](const std::string& dim) {
    return one_op("aten::unsqueeze", "self=%0, dim=" + dim, "", "f32[2,3,1]", "f32[2,3]");
  };
  EXPECT_TRUE(differences(unsqueeze("-1"), unsqueeze("2")).empty()) << "an axis more than the input has";
  EXPECT_THAT(differences(unsqueeze("-1"), unsqueeze("1")), testing::ElementsAre("dim: -1 | 1"));
  const auto mean = [](const std::string& dim) {
    return one_op("aten::mean", "self=%0, dim=" + dim + ", keepdim=False", "", "f32[]", "f32[2,3]");
  };
  EXPECT_TRUE(differences(mean("None"), mean("[-1, 0]")).empty());
}

// Of f32[4,3], the axis of 3: 1 is its second element, -1 its third.
TEST(ArgumentDifferences, BoundsAreCountedByTheExtent) {
  const auto slice = [](const std::string& start, const std::string& end) {
    return one_op("aten::slice", "self=%0, dim=1, start=" + start + ", end=" + end + ", step=1", "", "f32[4,1]",
                  "f32[4,3]");
  };
  EXPECT_THAT(differences(slice("1", "2"), slice("-1", "3")), testing::ElementsAre("start: 1 | -1"));
  EXPECT_TRUE(differences(slice("1", "2"), slice("-2", "-1")).empty());
  EXPECT_TRUE(differences(slice("None", "1"), slice("0", "1")).empty());
  const auto select = [](const std::string& index) {
    return one_op("aten::select", "self=%0, dim=1, index=" + index, "", "f32[4]", "f32[4,3]");
  };
  EXPECT_TRUE(differences(select("-1"), select("2")).empty());
  EXPECT_THAT(differences(select("-1"), select("0")), testing::ElementsAre("index: -1 | 0"));
  const auto arange = [](const std::string& start) {
    return one_op("aten::arange", "start=" + start + ", end=9", "", "i64[8]", "f32[2]");
  };
  EXPECT_THAT(differences(arange("1"), arange("-1")), testing::ElementsAre("start: 1 | -1"));
}

TEST(ArgumentDifferences, NoneIsTheDefault) {
  const auto attention = [](const std::string& scale) {
    return one_op("aten::scaled_dot_product_attention", "query=%0, dropout_p=0.0, scale=" + scale, "", "f32[2,16]",
                  "f32[2,16]");
  };
  EXPECT_TRUE(differences(attention("None"), attention("0.25")).empty()) << "1/sqrt(16)";
  EXPECT_THAT(differences(attention("None"), attention("1.0")), testing::ElementsAre("scale: None (0.25) | 1.0"));
  const auto pool = [](const std::string& stride, const std::string& divisor) {
    return one_op("aten::avg_pool2d",
                  "self=%0, kernel_size=[2, 2], stride=" + stride +
                      ", padding=[0, 0], ceil_mode=False, count_include_pad=True, divisor_override=" + divisor,
                  "", "f32[1,1,2,2]", "f32[1,1,4,4]");
  };
  EXPECT_TRUE(differences(pool("[]", "None"), pool("[2, 2]", "4")).empty());
  EXPECT_THAT(differences(pool("[]", "None"), pool("[1, 1]", "3")),
              testing::ElementsAre("stride: [] ([2, 2]) | [1, 1]", "divisor_override: None (4) | 3"));
  const auto clamp = [](const std::string& min) { return one_op("aten::clamp", "self=%0, min=" + min + ", max=1.0"); };
  EXPECT_THAT(differences(clamp("None"), clamp("0")), testing::ElementsAre("min: None | 0"));
}

TEST(ArgumentDifferences, ElementTypesHaveNames) {
  const auto to = [](const std::string& dtype, const std::string& out) {
    return one_op("aten::to", "self=%0, dtype=" + dtype + ", copy=False", "", out);
  };
  EXPECT_THAT(differences(to("4", "i64[2,4]"), to("3", "i32[2,4]")), testing::ElementsAre("dtype: i64 | i32"));
  const auto softmax = [](const std::string& dtype) {
    return one_op("aten::softmax", "self=%0, dim=1, dtype=" + dtype);
  };
  EXPECT_TRUE(differences(softmax("None"), softmax("6")).empty());
  const auto quantise = [](const std::string& dtype) {
    return one_op("quantized_decomposed::dequantize_per_tensor", "input=%0, zero_point=3, dtype=" + dtype);
  };
  EXPECT_THAT(differences(quantise("0"), quantise("1")), testing::ElementsAre("dtype: u8 | i8"));
}

// A number in the place of a tensor: written out in exported programs, a constant in traces, a scalar in scripts.
TEST(ArgumentDifferences, NamesNumbersInThePlaceOfTensors) {
  const auto script = one_op("aten::mul", "self=%0, other=0.5");
  const auto constant = [](const std::string& number, const std::string& digest) {
    return test::trace_of(
        "module self\ncontext c0 module=self\ninstruction aten::mul func_name=mul layer_type=mul "
        "arg_template=\"self=%0, other=" +
        number + "\"\nparam CONSTANTS.c0 kind=constant dtype=f64 shape=[] bytes=8 digest=" + digest +
        "\ncall self:1 first_op=a end_op=end\nop a input out=f32[2,4] address=input.x\n"
        "op b aten::mul out=f32[2,4] parents=a@0 params=CONSTANTS.c0@1\nop c output out=f32[2,4] parents=b@0 "
        "address=output\n");
  };
  EXPECT_TRUE(differences(script, constant("0.5", "aa11")).empty());
  EXPECT_THAT(differences(script, constant("0.25", "bb22")), testing::ElementsAre("other: 0.5 | 0.25"));
  EXPECT_THAT(differences(constant("0.5", "aa11"), constant("0.25", "bb22")),
              testing::ElementsAre("other: 0.5 | 0.25"));
  EXPECT_THAT(differences(one_op("aten::add", "self=%0, other=3"), one_op("aten::add", "self=%0, other=4")),
              testing::ElementsAre("other: 3 | 4"));
}

TEST(DrawsRandom, OnlyWhereItsArgumentsSaySo) {
  const auto draws = [](const std::string& name, const std::string& arguments) {
    return draws_random(one_op(name, arguments, "flags=random"), OpId{1});
  };
  EXPECT_TRUE(draws("aten::bernoulli", "self=%0, generator=None"));
  EXPECT_TRUE(draws("aten::dropout", "input=%0, p=0.1, train=True"));
  EXPECT_FALSE(draws("aten::dropout", "input=%0, p=0.1, train=False"));
  EXPECT_FALSE(draws("aten::dropout", "input=%0, p=0.0, train=True"));
  EXPECT_TRUE(draws("aten::scaled_dot_product_attention", "query=%0, dropout_p=0.1"));
  EXPECT_FALSE(draws("aten::scaled_dot_product_attention", "query=%0, dropout_p=0.0"));
  EXPECT_FALSE(draws_random(one_op("aten::bernoulli", "self=%0, generator=None"), OpId{1}));
}

TEST(ArgumentDifferences, NamesATensorThatOneSideLacks) {
  const std::string with =
      "module self\nmodule fc parent=self\ncontext c0 module=self\ncontext c1 module=fc\n"
      "instruction lin func_name=linear layer_type=linear arg_template=\"input=%0, weight=%1, bias=%2\"\n"
      "param fc.weight module=fc dtype=f32 shape=[4,4] bytes=64 digest=aa11\n"
      "param fc.bias module=fc dtype=f32 shape=[4] bytes=16 digest=bb22\ncall self:1 first_op=a end_op=end\n"
      "op a input out=f32[2,4] address=input.x\nop b lin out=f32[2,4] parents=a@0 context=c1 params=";
  const std::string end = "\nop c output out=f32[2,4] parents=b@0 address=output\n";
  const auto a = test::trace_of(with + "fc.weight@1,fc.bias@2" + end);
  const auto b = test::trace_of(with + "fc.weight@1" + end);
  auto other = with + "fc.weight@1,fc.bias@2" + end;
  other.replace(other.find("aa11"), 4, "cc33");
  EXPECT_THAT(differences(a, b), testing::ElementsAre("bias: tensor | none"));
  EXPECT_THAT(differences(a, test::trace_of(other)), testing::ElementsAre("weight: fc.weight aa11 | fc.weight cc33"));
}

}  // namespace
}  // namespace tl
