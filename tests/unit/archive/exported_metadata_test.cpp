#include "archive/exported_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "archive/exported_program_reader.h"
#include "archive/sympy_text.h"
#include "test_files.h"

namespace tl {
namespace {

using test::error_of;
using ::testing::ElementsAre;

struct Frame {
  std::string path;
  std::string class_name;
  int call;
};

void expect_stack(const std::string& text, const std::vector<Frame>& expected) {
  SCOPED_TRACE(text);
  const ExportedModuleStack stack = parse_module_stack(text);
  ASSERT_EQ(stack.size(), expected.size());
  for (std::size_t i = 0; i < stack.size(); ++i) {
    EXPECT_EQ(stack[i].path, expected[i].path);
    EXPECT_EQ(stack[i].class_name, expected[i].class_name);
    EXPECT_EQ(stack[i].call, expected[i].call);
  }
}

TEST(ModuleStack, OfNonStrictExports) {
  expect_stack("L__self__,,zoo.Net;L__self__blk@1,blk,zoo.Block;L__self__blk.fc@1,blk.fc,torch.nn.Linear",
               {{"", "zoo.Net", 0}, {"blk", "zoo.Block", 1}, {"blk.fc", "torch.nn.Linear", 1}});
}

TEST(ModuleStack, OfStrictExportsHasObjectIdsAsKeys) {
  expect_stack("L__self__,,zoo.Net;140136468411216@2,blk,zoo.Block;140136468406672,blk.fc,torch.nn.Linear",
               {{"", "zoo.Net", 0}, {"blk", "zoo.Block", 2}, {"blk.fc", "torch.nn.Linear", 0}});
  expect_stack("140136465201680,_export_root,zoo.Net;140136465201744,_export_root.a,torch.nn.Linear",
               {{"", "zoo.Net", 0}, {"a", "torch.nn.Linear", 0}});
}

TEST(ModuleStack, NamesWithCommasSemicolonsAndBracketsSurvive) {
  expect_stack("L__self__,,M;L__self__a,b,a,b,torch.nn.Sequential;L__self__a,b.0@1,a,b.0,torch.nn.ReLU",
               {{"", "M", 0}, {"a,b", "torch.nn.Sequential", 0}, {"a,b.0", "torch.nn.ReLU", 1}});
  expect_stack("L__self__,,M;L__self__a;b,a;b,torch.nn.ReLU", {{"", "M", 0}, {"a;b", "torch.nn.ReLU", 0}});
  expect_stack("L__self__,,M;L__self__a[0,a[0,torch.nn.ReLU", {{"", "M", 0}, {"a[0", "torch.nn.ReLU", 0}});
  expect_stack("L__self__,,M;L__self__a@1@2,a@1,torch.nn.ReLU", {{"", "M", 0}, {"a@1", "torch.nn.ReLU", 2}});
  expect_stack("L['self'],L['self'],M;L['self']._modules['a,b'],L['self']._modules['a,b'],torch.nn.ReLU",
               {{"", "M", 0}, {"a,b", "torch.nn.ReLU", 0}});
}

// As torch 2.13 writes them, strict=True, for modules with such names.
TEST(ModuleStack, OfStrictExportsQuotesNames) {
  expect_stack("L__self__,,M;140238046910224,_modules['e[0]'],m.S;140238046909648,_modules['e[0]'].0,m.Leaf",
               {{"", "M", 0}, {"e[0]", "m.S", 0}, {"e[0].0", "m.Leaf", 0}});
  expect_stack(R"(L__self__,,M;140238046649808,_modules['m\'n"o\\p'].0,m.S)",
               {{"", "M", 0}, {R"(m'n"o\p.0)", "m.S", 0}});
  expect_stack("L__self__,,M;140238046910096,i@1,m.S;140238046910416@3,f(1,2,m.S;140238046705808,q,r;s,m.S",
               {{"", "M", 0}, {"i@1", "m.S", 0}, {"f(1,2", "m.S", 3}, {"q,r;s", "m.S", 0}});
}

TEST(ModuleStack, LongTextsOfSeparatorsTakeLinearTime) {
  for (const char separator : {',', ';', '[', '.', '@', '\'', '\\'}) {
    const std::string long_text(1'000'000, separator);
    parse_module_stack("L__self__" + long_text);
    parse_module_stack("L['self']" + long_text + ",x" + long_text + ",y");
    parse_module_stack("140238046910224," + long_text + ",y");
    parse_stack_trace(long_text);
    sympy_text(long_text);
  }
}

TEST(ModuleStack, OfLocalClassesAndOfNone) {
  expect_stack("L__self__,,__main__.f.<locals>.Net", {{"", "__main__.f.<locals>.Net", 0}});
  const std::string none = "_empty_nn_module_stack_from_metadata_hook";
  expect_stack(none + ',' + none + ',' + none, {});
  expect_stack("", {});
}

TEST(ModuleAddress, OfSourceExpressions) {
  EXPECT_EQ(module_address("L['self'].blocks[0].fc"), "blocks.0.fc");
  EXPECT_EQ(module_address("L['self']._modules['a,b']._modules['0']"), "a,b.0");
  EXPECT_EQ(module_address("L['self'].heads['left']"), "heads.left");
  EXPECT_EQ(module_address("L['self']"), "");
  EXPECT_EQ(module_address("blocks.0"), "blocks.0");
  EXPECT_EQ(module_address("_export_root"), "");
  EXPECT_EQ(module_address("L['self'][").size(), 0u);
}

// As written by torch 2.13 on Python 3.11, strict=True.
TEST(StackTrace, OfStrictExportsHasColumns) {
  const ExportedSourceStack stack = parse_stack_trace(
      "  File \"/usr/lib/torch/_dynamo/functional_export.py\", line 232, in forward\n"
      "    res = self._export_root(*args, **kwargs)\n"
      "          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
      "  File \"/src/zoo models.py\", line 934, in forward\n"
      "    y = x @ self.table.t() * self.scalar\n"
      "            ^^^^^^^^^^^^^^\n");
  ASSERT_EQ(stack.size(), 2u);
  EXPECT_EQ(stack[1].file, "/src/zoo models.py");
  EXPECT_EQ(stack[1].line, 934u);
  EXPECT_EQ(stack[1].function, "forward");
  EXPECT_EQ(stack[1].code, "y = x @ self.table.t() * self.scalar");
  EXPECT_EQ(stack[1].column, 9u);
  EXPECT_EQ(stack[1].column_end, 23u);
  EXPECT_EQ(stack[0].column, 7u);
}

TEST(StackTrace, OfNonStrictExportsHasNone) {
  const ExportedSourceStack stack = parse_stack_trace(
      "File \"/src/m.py\", line 7, in forward\n    return self.l(x) + 1\n"
      "  File \"/usr/lib/linear.py\", line 134, in forward\n    return F.linear(input, self.weight)");
  ASSERT_EQ(stack.size(), 2u);
  EXPECT_EQ(stack[0].code, "return self.l(x) + 1");
  EXPECT_EQ(stack[0].column, 0u);
  EXPECT_EQ(stack[1].line, 134u);
}

TEST(StackTrace, WithoutSourceLinesOrFrames) {
  const ExportedSourceStack stack =
      parse_stack_trace("File \"<eval_with_key>.54\", line 6, in forward\nFile \"a\", line 1, in <lambda>");
  ASSERT_EQ(stack.size(), 2u);
  EXPECT_EQ(stack[0].file, "<eval_with_key>.54");
  EXPECT_EQ(stack[0].code, "");
  EXPECT_EQ(stack[1].function, "<lambda>");
  EXPECT_TRUE(parse_stack_trace("no frame at all\n^^^^").empty());
  EXPECT_TRUE(parse_stack_trace("File \"a\", line 99999999999999, in f").empty());
}

// Texts of sympy.srepr beside str() of the same expression, as sympy 1.13 gives them.
TEST(SympyText, IsInfix) {
  const std::string s = "Symbol('s27', positive=True, integer=True)";
  EXPECT_EQ(sympy_text(s), "s27");
  EXPECT_EQ(sympy_text("Mul(Integer(2), " + s + ")"), "2*s27");
  EXPECT_EQ(sympy_text("Add(Mul(Integer(2), " + s + "), Integer(1))"), "2*s27 + 1");
  EXPECT_EQ(sympy_text("Add(" + s + ", Integer(-1))"), "s27 - 1");
  EXPECT_EQ(sympy_text("Mul(Integer(-1), " + s + ")"), "-s27");
  EXPECT_EQ(sympy_text("Mul(Integer(3), Add(" + s + ", Integer(1)))"), "3*(s27 + 1)");
  EXPECT_EQ(sympy_text("FloorDiv(Add(" + s + ", Integer(1)), Integer(2))"), "(s27 + 1)//2");
  EXPECT_EQ(sympy_text("Mul(Integer(-1), FloorDiv(" + s + ", Integer(2)))"), "-(s27//2)");
  EXPECT_EQ(sympy_text("Add(Integer(1), Mul(Integer(-1), FloorDiv(" + s + ", Integer(2))))"), "1 - (s27//2)");
  EXPECT_EQ(sympy_text("Pow(" + s + ", Integer(2))"), "s27**2");
  EXPECT_EQ(sympy_text("Max(Integer(1), Symbol('u0', integer=True))"), "Max(1, u0)");
  EXPECT_EQ(sympy_text("GreaterThan(" + s + ", Integer(4))"), "s27 >= 4");
  EXPECT_EQ(sympy_text("ToFloat(" + s + ")"), "ToFloat(s27)");
}

TEST(SympyText, LeavesOtherTextsAlone) {
  EXPECT_EQ(sympy_text("2*s12"), "2*s12");
  EXPECT_EQ(sympy_text("Add(s, "), "Add(s, ");
  EXPECT_EQ(sympy_text(""), "");
  std::string deep;
  for (int i = 0; i < 5'000; ++i) deep += "Add(";
  EXPECT_EQ(sympy_text(deep), deep);
}

std::string leaf() { return R"({"type": null, "context": null, "children_spec": []})"; }
std::string spec(const std::string& type, const std::string& context, const std::string& children) {
  return "[1, {\"type\": \"" + type + "\", \"context\": " + context + ", \"children_spec\": [" + children + "]}]";
}

// Contexts as torch.utils._pytree.treespec_dumps (torch 2.13) writes them.
TEST(Pytree, KeysOfEveryContainer) {
  const auto keys = [](const std::string& text) { return parse_pytree_spec(text, "m").keys; };
  const std::string two = leaf() + ", " + leaf();
  EXPECT_THAT(keys(spec("builtins.dict", R"("[\"b\", 3]")", two)), ElementsAre("b", "3"));
  EXPECT_THAT(keys(spec("collections.OrderedDict", R"("[\"b\", \"a\"]")", two)), ElementsAre("b", "a"));
  EXPECT_THAT(
      keys(spec(
          "collections.defaultdict",
          R"("{\"default_factory_module\": \"builtins\", \"default_factory_name\": \"list\", \"dict_context\": [\"k\", \"l\"]}")",
          two)),
      ElementsAre("k", "l"));
  EXPECT_THAT(keys(spec("zoo_models.DCOut", R"("[[\"logits\", \"hidden\"], [\"none\"]]")", two)),
              ElementsAre("logits", "hidden"));
  EXPECT_THAT(keys(spec("transformers.modeling_outputs.BaseModelOutput", R"("[\"a\", \"b\"]")", two)),
              ElementsAre("a", "b"));
  EXPECT_THAT(keys(spec("builtins.dict", R"("[2.5, 1e+20]")", two)), ElementsAre("2.5", "1e+20"));
  EXPECT_THAT(keys(spec("my.Thing", R"("no json")", two)), ElementsAre());
}

TEST(Pytree, Kinds) {
  using Kind = PytreeSpec::Kind;
  const auto read = [](const std::string& text) { return parse_pytree_spec(text, "m"); };
  EXPECT_EQ(read("[1, " + leaf() + "]").kind, Kind::kLeaf);
  EXPECT_EQ(read("[1, " + leaf() + "]").num_leaves, 1u);
  EXPECT_EQ(read(spec("builtins.tuple", "\"null\"", leaf())).kind, Kind::kTuple);
  EXPECT_EQ(read(spec("builtins.list", "\"null\"", leaf())).kind, Kind::kList);
  const PytreeSpec named = read(spec("collections.namedtuple", "\"zoo_models.Pose\"", leaf()));
  EXPECT_EQ(named.kind, Kind::kNamedTuple);
  EXPECT_EQ(named.type, "zoo_models.Pose");
  EXPECT_EQ(read(spec("my.Thing", "null", leaf())).kind, Kind::kObject);
}

TEST(Pytree, RefusesWhatContradictsItself) {
  const auto code = [](const std::string& text) { return error_of([&] { parse_pytree_spec(text, "m"); }).code; };
  EXPECT_EQ(code("[2, " + leaf() + "]"), ErrorCode::kUnsupportedVersion);
  EXPECT_EQ(code("[1]"), ErrorCode::kFileDamaged);
  EXPECT_EQ(code("{}"), ErrorCode::kFileDamaged);
  EXPECT_EQ(code(spec("builtins.dict", R"("[\"a\"]")", "")), ErrorCode::kFileDamaged);
  EXPECT_EQ(code(spec("builtins.dict", R"("[")", leaf())), ErrorCode::kFileDamaged);
  EXPECT_EQ(code("[1, {\"type\": null, \"context\": null, \"children_spec\": [" + leaf() + "]}]"),
            ErrorCode::kFileDamaged);
  std::string deep = leaf();
  for (int i = 0; i < 300; ++i)
    deep = R"({"type": "builtins.list", "context": "null", "children_spec": [)" + deep + "]}";
  EXPECT_EQ(code("[1, " + deep + "]"), ErrorCode::kFileLimits);
}

}  // namespace
}  // namespace tl
