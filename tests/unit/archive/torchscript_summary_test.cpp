#include "archive/torchscript_summary.h"

#include <gmock/gmock.h>

#include "archive/torchscript_refusal.h"
#include "archive/zip_directory.h"
#include "test_files.h"

namespace tl {
namespace {

using test::error_of;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TorchScriptSummary summary_of(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  return summarise_torchscript(ZipDirectory(file->bytes(), path.filename().string(), file));
}

std::filesystem::path model(const std::string& name) {
  return std::filesystem::path(TL_SOURCE_DIR) / "tests/models" / name;
}

std::filesystem::path zoo(const std::string& name) { return test::shared_dir() / "zoo" / name; }

std::vector<std::string> paths(const TorchScriptSummary& summary) {
  std::vector<std::string> result;
  for (const auto& module : summary.modules) result.push_back(module.path);
  return result;
}

// make_linear.py: Sequential(Linear(3, 2), ReLU).
TEST(TorchScriptSummary, DescribesAModule) {
  const auto summary = summary_of(model("linear.ts.pt"));
  EXPECT_FALSE(summary.traced);
  EXPECT_EQ(summary.mode, "eval");
  EXPECT_EQ(summary.dtype, "f32");
  EXPECT_THAT(paths(summary), ElementsAre("", "0", "1"));
  EXPECT_EQ(summary.modules[1].class_name, "torch.nn.modules.linear.Linear");
  EXPECT_EQ(summary.modules[1].depth, 1u);
  EXPECT_EQ(summary.modules[1].parameters.tensors, 2u);
  EXPECT_EQ(summary.parameters.elements, 3u * 2 + 2);
  EXPECT_EQ(summary.parameters.bytes, 4u * (3 * 2 + 2));
  EXPECT_EQ(summary.buffers.tensors, 0u);
  ASSERT_THAT(summary.methods, testing::SizeIs(2));
  EXPECT_EQ(summary.methods[0].signature(), "forward(Tensor input) -> Tensor");
  EXPECT_EQ(summary.methods[1].signature(), "__len__() -> int");
}

// make_models.py: figures of torch's own parameters() and buffers() of that class.
TEST(TorchScriptSummary, CountsParametersAndBuffersApart) {
  const auto summary = summary_of(model("small_resnet.ts.pt"));
  EXPECT_EQ(summary.parameters.tensors, 62u);
  EXPECT_EQ(summary.parameters.elements, 177'362u);
  EXPECT_EQ(summary.buffers.tensors, 60u);
  EXPECT_EQ(summary.buffers.elements, 1'220u);
}

TEST(TorchScriptSummary, SaysWhatIsRestoredWhileLoading) {
  const auto summary = summary_of(model("writing.ts.pt"));
  ASSERT_THAT(summary.modules, testing::SizeIs(1));
  EXPECT_TRUE(summary.modules[0].restored);
  EXPECT_EQ(summary.constants.elements, 3u);
  const auto unsafe = unsafe_uses(summary.scan);
  ASSERT_THAT(unsafe, testing::SizeIs(1));
  EXPECT_EQ(unsafe[0].name, "aten::save");
  EXPECT_EQ(unsafe[0].function, "Writing.__setstate__");
  EXPECT_TRUE(unsafe[0].in_setstate);
}

TEST(TorchScriptSummary, CountsTiedTensorsOnce) {
  TL_NEEDS_SHARED(zoo("shared_modules.ts.pt"));
  const auto shared = summary_of(zoo("shared_modules.ts.pt"));
  EXPECT_THAT(shared.tied, Contains(ElementsAre("emb.weight", "out.weight")).Times(1));
  const auto tied = summary_of(zoo("gpt2_tiny.trace.pt"));
  EXPECT_EQ(tied.tied.size(), 1u);
}

TEST(TorchScriptSummary, ReadsTheInputsOfATrace) {
  TL_NEEDS_SHARED(zoo("smallconv.trace.pt"));
  const auto summary = summary_of(zoo("smallconv.trace.pt"));
  EXPECT_TRUE(summary.traced);
  EXPECT_EQ(summary.mode, "baked");
  ASSERT_THAT(summary.inputs, testing::SizeIs(1));
  EXPECT_EQ(summary.inputs[0].method, "forward");
  EXPECT_EQ(summary.inputs[0].name, "x");
  EXPECT_EQ(summary.inputs[0].dtype, DType::kF32);
  EXPECT_EQ(summary.inputs[0].sizes.size(), 4u);
}

TEST(TorchScriptSummary, CountsTheConstantsOfAFrozenModel) {
  TL_NEEDS_SHARED(zoo("smallconv.frozen.ts.pt"));
  const auto summary = summary_of(zoo("smallconv.frozen.ts.pt"));
  EXPECT_EQ(summary.parameters.tensors, 0u);
  EXPECT_EQ(summary.constants.tensors, 6u);
  EXPECT_EQ(summary.dtype, "f32");
}

/// A class name that this pickle's reader does not take; the rest is still shown.
TEST(TorchScriptSummary, SaysWhyThereIsNoTree) {
  const std::string pickle =
      "\x80\x02"
      "cos\nsystem\nX" +
      test::little_endian(2, 4) + "ls\x85R.";
  const std::string bytes =
      test::make_zip({test::stored("m/data.pkl", pickle), test::stored("m/code/__torch__/m.py", "x = torch.relu(y)\n"),
                      test::stored("m/constants.pkl", "")});
  const auto summary = summarise_torchscript(ZipDirectory(test::as_bytes(bytes), "m.pt"));
  EXPECT_THAT(summary.modules, IsEmpty());
  EXPECT_THAT(summary.tree_error, HasSubstr("os.system"));
  EXPECT_THAT(summary.scan.operators, testing::SizeIs(1));
}

TorchScriptScan scan_of(std::string_view source) { return scan_torchscript_source(source, "code/__torch__/m.py"); }

TEST(TorchScriptRefusal, NamesAllThatIsMissingAtOnce) {
  const auto scan = scan_of(
      "x = torch.relu(torch.brand_new(y))\n"
      "z = ops.torchvision.nms(ops.torchvision.roi_align(x), ops.zoo.fuse(x))\n"
      "c = __torch__.torch.classes.tensorrt.Engine(x)\n");
  const auto knows = [](const std::string& name) { return name == "aten::relu"; };
  const auto missing = missing_names(scan, knows, [](const std::string&) { return false; });
  const auto refusal = missing_refusal(missing, "m.pt");
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code, ErrorCode::kMissingOperators);
  EXPECT_EQ(refusal->message,
            "m.pt: no loaded library registers aten::brand_new (code/__torch__/m.py:1), torchvision::nms "
            "(code/__torch__/m.py:2), torchvision::roi_align (code/__torch__/m.py:2), zoo::fuse "
            "(code/__torch__/m.py:2), nor the class __torch__.torch.classes.tensorrt.Engine (code/__torch__/m.py:3)");
  for (const char* text : {"--load-library", "torchvision", "registers zoo", "Torch-TensorRT", "newer LibTorch"}) {
    EXPECT_THAT(refusal->hint, HasSubstr(text));
  }
  EXPECT_FALSE(missing_refusal({}, "m.pt"));
}

TEST(TorchScriptRefusal, OfClassesAlone) {
  const auto scan = scan_of("c : __torch__.torch.classes._Own.Thing\n");
  const auto missing = missing_names(
      scan, [](const std::string&) { return true; }, [](const std::string&) { return false; });
  const auto refusal = missing_refusal(missing, "m.pt");
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code, ErrorCode::kMissingClasses);
  EXPECT_THAT(refusal->hint, HasSubstr("registers _Own"));
}

TEST(TorchScriptRefusal, ListsOnlyTheFirstOfHundreds) {
  std::string source;
  for (int i = 100; i < 300; ++i) source += "x = ops.zoo.op" + std::to_string(i) + "(y)\n";
  const auto missing = missing_names(
      scan_of(source), [](const std::string&) { return false; }, [](const std::string&) { return true; });
  const auto refusal = missing_refusal(missing, "m.pt");
  ASSERT_TRUE(refusal);
  EXPECT_THAT(refusal->message, HasSubstr("zoo::op149 "));
  EXPECT_THAT(refusal->message, Not(HasSubstr("zoo::op150 ")));
  EXPECT_THAT(refusal->message, HasSubstr("and 150 more (torchlens show --json lists them)"));
}

TEST(TorchScriptRefusal, OfUnsafeNamesSaysHowToAllowThem) {
  const auto scan = scan_of(
      "class W(Module):\n"
      "  def __setstate__(self: __torch__.m.W, s: Tensor) -> NoneType:\n"
      "    torch.save(s, \"f\")\n"
      "def f(x):\n"
      "  torch.from_file(x)\n"
      "  return ^Fn(1)(x)\n");
  const auto refusal = unsafe_refusal(scan, {}, "m.pt");
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code, ErrorCode::kUnsafeOperator);
  EXPECT_THAT(refusal->message,
              HasSubstr("aten::save (code/__torch__/m.py:3, in W.__setstate__, which runs while the file is loaded)"));
  EXPECT_THAT(refusal->message, HasSubstr("aten::from_file (code/__torch__/m.py:5)"));
  EXPECT_THAT(refusal->hint, HasSubstr("--allow-op aten::from_file --allow-op aten::save"));
  EXPECT_THAT(refusal->hint, HasSubstr("--allow-op '^Fn'"));
  const std::vector<std::string> some = {"aten::save", "^Fn"};
  EXPECT_THAT(unsafe_refusal(scan, some, "m.pt")->message, Not(HasSubstr("aten::save")));
  const std::vector<std::string> all = {"aten::save", "aten::from_file", "^Fn"};
  EXPECT_FALSE(unsafe_refusal(scan, all, "m.pt"));
}

}  // namespace
}  // namespace tl
