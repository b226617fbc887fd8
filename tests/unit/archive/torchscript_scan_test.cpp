#include "archive/torchscript_scan.h"

#include <gmock/gmock.h>

#include "archive/limits.h"
#include "archive/zip_directory.h"
#include "test_files.h"

namespace tl {
namespace {

using test::as_bytes;
using test::error_of;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

std::vector<std::string> names(const std::vector<ScriptUse>& uses) {
  std::vector<std::string> result;
  for (const ScriptUse& use : uses) result.push_back(use.name);
  return result;
}

TorchScriptScan scan(std::string_view source) { return scan_torchscript_source(source, "code/x.py"); }

TorchScriptScan scan_file(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  return scan_torchscript(ZipDirectory(file->bytes(), path.filename().string()));
}

TEST(TorchScriptScan, FindsOperatorsClassesAndMembers) {
  const TorchScriptScan found = scan(R"(class M(Module):
  foo : __torch__.torch.classes._TorchScriptTesting._Foo
  ops : List[Tensor]
  def forward(self: __torch__.zoo.M,
    x: Tensor) -> Tensor:
    _0 = torch.add(torch.relu(x), (self.foo).add_tensor(x, ), alpha=1)
    keep = ops.torchvision.nms(_0, x, 0.5)
    _1 = getattr(self, "0")
    _2 = __torch__.torch.nn.functional.dropout
    return torch.add(keep, 1.5e3)
)");
  EXPECT_THAT(names(found.operators), ElementsAre("aten::add", "aten::relu", "torchvision::nms"));
  EXPECT_THAT(names(found.classes), ElementsAre("__torch__.torch.classes._TorchScriptTesting._Foo"));
  EXPECT_THAT(names(found.members), UnorderedElementsAre("0", "M", "add_tensor", "dropout", "foo"));
  EXPECT_EQ(found.operators[0].line, 6u);
  EXPECT_EQ(found.operators[0].count, 2u);
  EXPECT_EQ(found.operators[0].file, "code/x.py");
  EXPECT_EQ(found.operators[2].line, 7u);
}

TEST(TorchScriptScan, IsNotFooledByStringsAndComments) {
  const TorchScriptScan found = scan(
      "def f(x):\n"
      "  a = \"torch.save(x)\"  # torch.save(x)\n"
      "  b = 'it\\'s torch.save'\n"
      "  c = \"\"\"two\nlines torch.save \\\"\"\" still\"\"\"\n"
      "  return torch.neg(x)\n");
  EXPECT_THAT(names(found.operators), ElementsAre("aten::neg"));
  EXPECT_EQ(found.operators[0].line, 6u);
  EXPECT_THAT(found.members, IsEmpty());
}

TEST(TorchScriptScan, SeesWhatIsWrittenToHide) {
  // White space, continued lines, type comments (LibTorch reads them as code), values without a call, the autograd
  // alias.
  EXPECT_THAT(names(scan("x = (torch\n  .\n save)\n").operators), ElementsAre("aten::save"));
  EXPECT_THAT(names(scan("x = torch \\\n . save(y)\n").operators), ElementsAre("aten::save"));
  EXPECT_THAT(names(scan("f = torch.save\n").operators), ElementsAre("aten::save"));
  EXPECT_THAT(names(scan("torch.autograd.save(x)\n").operators), ElementsAre("aten::save"));
  EXPECT_THAT(names(scan("ops.prim.autograd.save(x)\n").operators), ElementsAre("aten::save"));
  EXPECT_THAT(names(scan("# type: (Tensor) -> __torch__.torch.classes.c10d.Work\n").classes),
              ElementsAre("__torch__.torch.classes.c10d.Work"));
  EXPECT_THAT(names(scan("1..save(\"f\")\n").members), ElementsAre("save"));
  EXPECT_THAT(names(scan("1.5e3.save(\"f\")\n").members), ElementsAre("save"));
  EXPECT_THAT(names(scan(".5.save(\"f\")\n").members), ElementsAre("save"));
  EXPECT_THAT(names(scan("(x).save(\"f\")\n").members), ElementsAre("save"));
  EXPECT_THAT(names(scan("getattr(x, \"sa\\x76e\")(\"f\")\n").members), ElementsAre("save"));
  EXPECT_THAT(names(scan("x = ^Fn(3)(y)\n").operators), ElementsAre("^Fn"));
  EXPECT_THAT(scan("x = a ^ b\n").operators, IsEmpty());
}

TEST(TorchScriptScan, RefusesWaysToHideNames) {
  for (const char* source :
       {"t = torch\n", "(torch).save(x)\n", "getattr(torch, \"save\")(x)\n", "o = ops.aten\n", "f(ops)\n",
        "t = torch.autograd\n", "c = __torch__.torch.classes\n", "c = __torch__.torch.classes.c10d\n",
        "n = __torch__\n", "getattr(x, \"sa\" \"ve\")\n", "getattr(x, name)\n"}) {
    EXPECT_EQ(error_of([&] { scan(source); }).code, ErrorCode::kFileHostile) << source;
  }
}

TEST(TorchScriptScan, RefusesWhatLibTorchCannotReadSafely) {
  for (const std::string& source : {std::string("x = \"abc\ny\n"), std::string("x = (1\n"), std::string("x = 1)\n"),
                                    std::string("x = \x01\n"), std::string("x = \xc3\xa9\n")}) {
    EXPECT_EQ(error_of([&] { scan(source); }).code, ErrorCode::kFileDamaged) << source;
  }
}

std::string repeated(std::string_view text, std::size_t count) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

// LibTorch 2.13 overflows a stack of 8 MB between 2,000 and 8,000 brackets, levels or arms, 8,000 and 30,000 operators.
TEST(TorchScriptScan, BoundsNesting) {
  const auto indented = [](std::size_t levels) {
    std::string source;
    for (std::size_t i = 0; i < levels; ++i) source += std::string(2 * i, ' ') + "if b:\n";
    return source + std::string(2 * levels, ' ') + "pass\n";
  };
  const auto arms = [](std::size_t count) { return "if b:\n  pass\n" + repeated("elif b:\n  pass\n", count); };
  EXPECT_NO_THROW(scan("x = " + repeated("(", 200) + repeated(")", 200)));
  EXPECT_NO_THROW(scan("x = a" + repeated(" + a", 900) + "\n"));
  EXPECT_NO_THROW(scan("x = [" + repeated("-1, f(2).g, ", 20'000) + "]\n" + "y = 1\n"));
  EXPECT_NO_THROW(scan(indented(200)));
  EXPECT_NO_THROW(scan(repeated("if b:\n  pass\nelse:\n  pass\n", 10'000)));
  for (const std::string& source :
       {"x = " + repeated("(", 2'000), "x = " + repeated("torch.relu(", 2'000),
        "x = a" + repeated(" + a", 8'000) + "\n", "x = a" + repeated(".f()", 8'000) + "\n",
        "x = " + repeated("not ", 8'000) + "a\n", "x = " + repeated("a if b else ", 2'000) + "c\n", indented(2'000),
        arms(2'000), "x = " + repeated("[a + a + a + a + a + a + ", 250)}) {
    EXPECT_EQ(error_of([&] { scan(source); }).code, ErrorCode::kFileLimits) << source.substr(0, 40);
  }
}

TEST(TorchScriptScan, KnowsUnsafeNames) {
  for (const char* name : {"aten::save", "aten::from_file", "prim::PythonOp", "prim::rpc_async", "c10d::allreduce_",
                           "^Fn", "_c10d_functional::all_reduce"}) {
    EXPECT_TRUE(is_unsafe_operator(name)) << name;
  }
  for (const char* name : {"aten::add", "aten::saved", "aten::tensor", "prim::Print", "torchvision::nms"}) {
    EXPECT_FALSE(is_unsafe_operator(name)) << name;
  }
  EXPECT_TRUE(is_unsafe_class("__torch__.torch.classes.c10d.ProcessGroup"));
  EXPECT_FALSE(is_unsafe_class("__torch__.torch.classes.quantized.LinearPackedParamsBase"));
  EXPECT_THAT(names(unsafe_uses(scan("torch.save(x)\n(y).to_here()\n(self).from_file(1)\n"))),
              UnorderedElementsAre("aten::save", "aten::to_here"));
}

TEST(TorchScriptScan, TakesSourcesWithoutRegardToCaseAsLibTorchDoes) {
  const std::string hidden = test::make_zip({test::stored("m/CODE/__torch__/X.PY", "torch.save(x)\n")});
  EXPECT_THAT(names(scan_torchscript(ZipDirectory(as_bytes(hidden), "m.pt")).operators), ElementsAre("aten::save"));
  const std::string twice =
      test::make_zip({test::stored("m/code/x.py", "a = 1\n"), test::stored("m/code/X.py", "torch.save(x)\n")});
  EXPECT_EQ(error_of([&] { scan_torchscript(ZipDirectory(as_bytes(twice), "m.pt")); }).code, ErrorCode::kFileHostile);
}

TEST(TorchScriptScan, FindsWhatTheZooNeeds) {
  const auto zoo = test::shared_dir() / "zoo";
  TL_NEEDS_SHARED(zoo);
  const TorchScriptScan nms = scan_file(zoo / "nms_head.ts.pt");
  EXPECT_THAT(names(nms.operators), ElementsAre("aten::add", "aten::cat", "aten::div", "aten::index", "aten::split",
                                                "aten::sub", "torchvision::nms"));
  EXPECT_EQ(nms.source_files, 1u);
  EXPECT_THAT(names(scan_file(zoo / "torchbind.ts.pt").classes),
              ElementsAre("__torch__.torch.classes._TorchScriptTesting._Foo"));
  EXPECT_THAT(names(scan_file(zoo / "custom_op.trace.pt").operators), Contains("zoo::fused_scale"));
  EXPECT_THAT(names(scan_file(zoo / "fasterrcnn_mini.ts.pt").operators), Contains("torchvision::nms"));
  EXPECT_THAT(names(scan_file(zoo / "quant_dynamic.ts.pt").classes),
              Contains("__torch__.torch.classes.quantized.LinearPackedParamsBase"));
}

TEST(TorchScriptScan, RefusesNoFileOfTheZoo) {
  TL_NEEDS_SHARED(test::shared_dir() / "zoo");
  std::size_t files = 0;
  for (const auto& [folder, ending] :
       std::vector<std::pair<std::string, std::string>>{{"zoo", ".ts.pt"},
                                                        {"zoo", ".trace.pt"},
                                                        {"reference/artifacts", ".script.pt"},
                                                        {"reference/artifacts", ".trace.pt"}}) {
    for (const auto& path : test::shared_files(folder, ending)) {
      if (path.filename() == "neg_truncated.ts.pt") continue;
      SCOPED_TRACE(path.filename().string());
      TorchScriptScan found;
      EXPECT_NO_THROW(found = scan_file(path));
      EXPECT_FALSE(found.operators.empty());
      EXPECT_THAT(names(unsafe_uses(found)), IsEmpty());
      ++files;
    }
  }
  EXPECT_GT(files, 100u);
}

}  // namespace
}  // namespace tl
