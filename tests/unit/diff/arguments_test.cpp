#include "diff/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diff_fixtures.h"

namespace tl {
namespace {

/// One operation with this template, run-time arguments and output.
Trace one_op(const std::string& name, const std::string& arguments, const std::string& more = "",
             const std::string& out = "f32[2,4]") {
  const auto type = name.substr(name.find("::") + 2);
  return test::trace_of("module self\ncontext c0 module=self\ninstruction " + name + " func_name=" + type +
                        " layer_type=" + type + " arg_template=\"" + arguments +
                        "\"\ncall self:1 first_op=a end_op=end\n" + "op a input out=f32[2,4] address=input.x\nop b " +
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
