#include "archive/script_outline.h"

#include <gmock/gmock.h>

#include "archive/torchscript_scan.h"
#include "test_files.h"

namespace tl {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ScriptClasses classes_of(std::string_view source, std::string_view file = "code/__torch__/m.py") {
  ScriptClasses classes;
  scan_torchscript_source(source, file, &classes);
  return classes;
}

constexpr std::string_view kSource = R"(class Net(Module):
  __parameters__ = ["weight", "bias", ]
  __buffers__ = ["mean", ]
  weight : Tensor
  __annotations__ = []
  __annotations__["0"] = Tensor
  k : Final[int] = 2
  def forward(self: __torch__.m.Net,
    xs: List[Tensor],
    named: Dict[str, Tensor],
    pair: Tuple[Tensor, int],
    mask: Optional[Tensor]=None,
    eps: float=0.10000000000000001,
    big: float=1.,
    mode: str='a\x62"',
    sizes: List[int]=[1, -2, ]) -> Tuple[Tensor, int]:
    if mask:
      y = torch.relu(xs[0])
    return (y, 1)
  def encode(self: __torch__.m.Net) -> NoneType:
    return None
class Point(NamedTuple):
  x : Tensor
class Plain:
  def f(self: __torch__.m.Plain) -> int: return 1
def free(x: Tensor) -> Tensor:
  return torch.neg(x)
)";

// Texts as LibTorch 2.13 prints the schema of the same source: annotation_str of types, values of defaults.
TEST(ScriptOutline, ReadsClassesAndHeadsOfMethods) {
  const ScriptClasses classes = classes_of(kSource);
  ASSERT_THAT(classes, testing::SizeIs(3));
  const ScriptClass& net = classes.at("__torch__.m.Net");
  EXPECT_EQ(net.base, "Module");
  EXPECT_THAT(net.parameters, ElementsAre("weight", "bias"));
  EXPECT_THAT(net.buffers, ElementsAre("mean"));
  ASSERT_EQ(net.methods.size(), 2u);
  EXPECT_EQ(net.methods[0].line, 8u);
  EXPECT_EQ(net.methods[0].signature(),
            "forward(List[Tensor] xs, Dict[str, Tensor] named, Tuple[Tensor, int] pair, Optional[Tensor] mask=None, "
            "float eps=0.1, float big=1.0, str mode=\"ab\"\", List[int] sizes=[1, -2]) -> Tuple[Tensor, int]");
  EXPECT_EQ(net.methods[1].signature(), "encode() -> NoneType");
  EXPECT_EQ(net.method("nothing"), nullptr);
  EXPECT_EQ(classes.at("__torch__.m.Point").base, "NamedTuple");
  EXPECT_EQ(classes.at("__torch__.m.Plain").base, "");
  EXPECT_EQ(classes.at("__torch__.m.Plain").method("f")->returns, "int");
}

TEST(ScriptOutline, NamesClassesByTheirFile) {
  const auto classes = classes_of("class A(Module):\n  pass\n", "code/__torch__/a/b/___torch_mangle_3.py");
  EXPECT_TRUE(classes.contains("__torch__.a.b.___torch_mangle_3.A"));
  EXPECT_EQ(demangled_class("__torch__.a.b.___torch_mangle_3.A"), "a.b.A");
  EXPECT_EQ(demangled_class("A"), "A");
}

TEST(ScriptOutline, TellsWhereANameIsUsed) {
  const auto scan = scan_torchscript_source(
      "class Writer(Module):\n"
      "  def forward(self: __torch__.m.Writer, x: Tensor) -> Tensor:\n"
      "    torch.save(x, \"f\")\n"
      "    return torch.relu(x)\n"
      "  def __setstate__(self: __torch__.m.Writer, state: Tensor) -> NoneType:\n"
      "    if True:\n"
      "      torch.save(state, \"g\")\n"
      "    return None\n"
      "def helper(x: Tensor) -> Tensor:\n"
      "  return torch.neg(x)\n",
      "code/__torch__/m.py");
  const auto use = [&](std::string_view name) { return *std::ranges::find(scan.operators, name, &ScriptUse::name); };
  EXPECT_EQ(use("aten::save").line, 7u) << "the one that runs while the file is loaded";
  EXPECT_EQ(use("aten::save").count, 2u);
  EXPECT_EQ(use("aten::save").function, "Writer.__setstate__");
  EXPECT_TRUE(use("aten::save").in_setstate);
  EXPECT_EQ(use("aten::relu").function, "Writer.forward");
  EXPECT_FALSE(use("aten::relu").in_setstate);
  EXPECT_EQ(use("aten::neg").function, "helper");
}

// What is no head of a class or method is passed over; nothing here may crash or grow with repetition.
TEST(ScriptOutline, PassesOverWhatItDoesNotUnderstand) {
  EXPECT_THAT(classes_of("class\nclass 1:\ndef\ndef f\ndef f(\n)\n"), IsEmpty());
  EXPECT_THAT(classes_of("class A(Module):\n  def f\n  def (self)\n  def g(self, x, =, y:)\n  __parameters__\n"),
              testing::SizeIs(1));
  std::string many = "class A(Module):\n  def f(self";
  for (int i = 0; i < 20'000; ++i) many += ",a";
  const auto classes = classes_of(many + "):\n    return 1\n  def g(self):\n    return 2\n");
  EXPECT_EQ(classes.at("__torch__.m.A").method("f"), nullptr) << "no method has that many arguments";
  EXPECT_NE(classes.at("__torch__.m.A").method("g"), nullptr);
}

}  // namespace
}  // namespace tl
