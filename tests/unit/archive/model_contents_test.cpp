#include "archive/model_contents.h"

#include <gmock/gmock.h>

#include <fstream>
#include <map>

#include "support/temp_directory.h"
#include "tensor/safetensors.h"
#include "test_files.h"

namespace tl {
namespace {

using test::error_of;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using Kind = ModelTensor::Kind;

std::filesystem::path port(const std::string& name) {
  return std::filesystem::path(TL_SOURCE_DIR) / "tests/golden/inputs" / name;
}

std::map<std::string, ModelTensor> tensors_of(const ModelContents& contents) {
  std::map<std::string, ModelTensor> tensors;
  for (const auto& tensor : contents.tensors) tensors.emplace(tensor.name, tensor);
  return tensors;
}

/// XXH3-128 of the weights of port.* as the recorder's Python implementation gives them (torchlens_recorder.digest of
/// torch.load("port.state.pt")).
const std::map<std::string, std::string> kDigests = {
    {"fc1.weight", "80e4aa164f95bc704eda56688796ceae"},  {"fc1.bias", "d0859d17697aa92fc544d49e173e30f5"},
    {"norm.weight", "1d6b9c1fe413278708dc9e53416048a8"}, {"norm.bias", "e5189a9599e3f86205ea23ef06e28b2d"},
    {"bn.weight", "1d6b9c1fe413278708dc9e53416048a8"},   {"bn.bias", "e5189a9599e3f86205ea23ef06e28b2d"},
    {"fc2.weight", "d995ad11ae3e43759cd05034ab524e15"},  {"fc2.bias", "86945071adb89557b879cc2ac8508ff1"}};
const std::map<std::string, std::string> kBufferDigests = {
    {"bn.running_mean", "e5189a9599e3f86205ea23ef06e28b2d"},
    {"bn.running_var", "1d6b9c1fe413278708dc9e53416048a8"},
    {"bn.num_batches_tracked", "2c0a8a99dc147d5445c3b49d035665b2"}};

void expect_port_weights(const ModelContents& contents, bool kinds) {
  const auto tensors = tensors_of(contents);
  EXPECT_GE(tensors.size(), 11u);  // and, in a trace, a number of the code
  for (const auto& [name, digest] : kDigests) {
    ASSERT_TRUE(tensors.contains(name)) << name;
    EXPECT_EQ(tensors.at(name).digest, digest) << name;
    EXPECT_EQ(tensors.at(name).dtype, DType::kF32);
    EXPECT_EQ(tensors.at(name).kind, kinds ? Kind::kParameter : Kind::kUnknown) << name;
  }
  for (const auto& [name, digest] : kBufferDigests) {
    ASSERT_TRUE(tensors.contains(name)) << name;
    EXPECT_EQ(tensors.at(name).digest, digest) << name;
    EXPECT_EQ(tensors.at(name).kind, kinds ? Kind::kBuffer : Kind::kUnknown) << name;
  }
  EXPECT_THAT(tensors.at("fc2.weight").sizes, ElementsAre(2, 4));
  EXPECT_THAT(tensors.at("bn.num_batches_tracked").sizes, ElementsAre());
  EXPECT_EQ(contents.dtype, "f32");
}

TEST(ModelContents, EveryFormOfOneModelHoldsTheSameWeights) {
  for (const unsigned threads : {1u, 3u}) {
    expect_port_weights(read_model_contents(port("port.ts.pt"), threads), true);
    expect_port_weights(read_model_contents(port("port.trace.pt"), threads), true);
    expect_port_weights(read_model_contents(port("port.pt2"), threads), true);
    expect_port_weights(read_model_contents(port("port.state.pt"), threads), false);
  }
  const auto renamed = tensors_of(read_model_contents(port("port_renamed.safetensors"), 1));
  EXPECT_EQ(renamed.at("layers.0.weight").digest, kDigests.at("fc1.weight"));
  EXPECT_EQ(renamed.at("head.bias").digest, kDigests.at("fc2.bias"));
}

TEST(ModelContents, AScriptTellsModulesModeCodeAndAttributes) {
  const auto contents = read_model_contents(port("port_other.ts.pt"), 1);
  EXPECT_EQ(contents.kind, "TorchScript script");
  EXPECT_EQ(contents.mode, "mixed");
  std::map<std::string, ModelModule> modules;
  for (const auto& module : contents.modules) modules.emplace(module.path, module);
  ASSERT_EQ(modules.size(), 6u);
  EXPECT_EQ(modules.at("norm").class_name, "torch.nn.modules.normalization.LayerNorm");
  EXPECT_EQ(modules.at("bn").training, true);
  EXPECT_EQ(modules.at("norm").training, false);
  ASSERT_THAT(contents.inputs, testing::SizeIs(1));
  EXPECT_EQ(contents.inputs[0].name, "x");
  EXPECT_EQ(contents.inputs[0].type, "Tensor");
  EXPECT_THAT(contents.attributes, Contains(Pair("scale", "0.5")));
  const auto has_norm = [](const ScriptUnit& unit) { return unit.paths == std::vector<std::string>{"norm"}; };
  EXPECT_EQ(std::ranges::count_if(contents.code, has_norm), 1);
}

TEST(ModelContents, ATraceStatesWhatItWasTracedWithAndNoMode) {
  const auto contents = read_model_contents(port("port.trace.pt"), 1);
  EXPECT_EQ(contents.kind, "TorchScript trace");
  EXPECT_EQ(contents.mode, "");
  ASSERT_THAT(contents.inputs, testing::SizeIs(1));
  EXPECT_EQ(contents.inputs[0].dtype, DType::kF32);
  EXPECT_FALSE(contents.inputs[0].has_sizes);
}

TEST(ModelContents, AnExportedProgramTellsCallsAndRanges) {
  const auto contents = read_model_contents(port("port.pt2"), 1);
  ASSERT_THAT(contents.inputs, testing::SizeIs(1));
  EXPECT_THAT(contents.inputs[0].sizes, ElementsAre("s0", "4"));
  EXPECT_THAT(contents.ranges, ElementsAre(Pair("s0", "2..64")));
  const auto norm = std::ranges::find(contents.calls, "layer_norm", &ModelCall::func_name);
  ASSERT_NE(norm, contents.calls.end());
  EXPECT_EQ(norm->module, "norm");
  EXPECT_EQ(norm->class_name, "torch.nn.modules.normalization.LayerNorm");
  EXPECT_THAT(norm->arguments, Contains(Pair("weight", "weight norm.weight")));
  EXPECT_THAT(norm->arguments, Contains(Pair("normalized_shape", "[4]")));
  EXPECT_THAT(contents.operators, Contains(Pair("aten::linear", 2u)));
  const auto other = read_model_contents(port("port_other.pt2"), 1);
  EXPECT_THAT(other.inputs[0].sizes, ElementsAre("3", "4"));
  const auto other_norm = std::ranges::find(other.calls, "layer_norm", &ModelCall::func_name);
  ASSERT_NE(other_norm, other.calls.end());
  EXPECT_THAT(other_norm->arguments, Contains(Pair("eps", "1e-06")));
}

/// The bytes of fc1.weight as they lie in every one of the files.
std::string bytes_of_a_weight() {
  const auto file = SafetensorsFile::open(port("port_renamed.safetensors"));
  const auto* entry = file.find("layers.0.weight");
  const auto tensor = file.tensor(*entry);
  const auto begin = static_cast<std::size_t>(tensor.offset) * sizeof(float);
  return {reinterpret_cast<const char*>(tensor.storage.data()) + begin, tensor.nbytes()};
}

TEST(ModelContents, DamagedFilesAreRefused) {
  const TempDirectory directory;
  const auto weight = bytes_of_a_weight();
  ASSERT_EQ(weight.size(), 64u);
  for (const char* name : {"port.ts.pt", "port.pt2", "port.state.pt"}) {
    auto bytes = test::file_text(port(name));
    const auto path = directory / name;
    std::ofstream(path, std::ios::binary) << bytes.substr(0, bytes.size() / 2);
    EXPECT_EQ(error_of([&] { read_model_contents(path, 1); }).code, ErrorCode::kFileDamaged) << name;
    const auto at = bytes.find(weight);
    ASSERT_NE(at, std::string::npos) << name;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    std::ofstream(path, std::ios::binary) << bytes;
    EXPECT_EQ(error_of([&] { read_model_contents(path, 1); }).code, ErrorCode::kFileDamaged) << name;
  }
}

TEST(ModelContents, OtherFilesAreRefusedAsWhatTheyAre) {
  EXPECT_FALSE(has_model_contents(port("net.trace")));
  EXPECT_TRUE(has_model_contents(port("port.ts.pt")));
  EXPECT_EQ(error_of([] { read_model_contents(port("text.pt"), 1); }).code, ErrorCode::kNotAModel);
  const auto several = std::filesystem::path(TL_SOURCE_DIR) / "tests/models/exported/several.pt2";
  const auto error = error_of([&] { read_model_contents(several, 1); });
  EXPECT_EQ(error.code, ErrorCode::kUnsupportedKind);
  EXPECT_THAT(error.message,
              HasSubstr("holds 3 programs (decoder, encoder, heads/second), and one is compared with one"));
}

// A changed bit leaves a sparse tensor of the pickle without its parts: there is nothing to take a digest of.
TEST(ModelContents, TensorsWithoutTheirBytesHaveNoDigest) {
  const auto contents =
      read_model_contents(std::filesystem::path(TL_SOURCE_DIR) / "tests/unit/archive/data/sparse_without_data.pt", 1);
  ASSERT_FALSE(contents.tensors.empty());
  for (const auto& tensor : contents.tensors) EXPECT_EQ(tensor.digest, "") << tensor.name;
}

}  // namespace
}  // namespace tl
