// Recordings that other tools made, and what is refused of them. references/make_references.py says how the files came
// about; the values are those of the grid 0, 0.25 … 1.25 of shape [2, 3] and simple functions of it.
#include "tlspec/foreign.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "core/error.h"
#include "sample_trace.h"
#include "support/temp_directory.h"
#include "tensor/element.h"
#include "tensor/safetensors_writer.h"
#include "tlspec/foreign_base64.h"
#include "tlspec/foreign_files.h"
#include "tlspec/foreign_json.h"
#include "tlspec/tensors_check.h"
#include "tlspec/writer.h"

namespace tl {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

fs::path references() { return fs::path(TL_SOURCE_DIR) / "tests/unit/tlspec/references"; }

std::vector<double> grid(const std::function<double(double)>& function = [](double x) { return x; }) {
  std::vector<double> values;
  for (int i = 0; i < 6; ++i) values.push_back(function(i / 4.0));
  return values;
}

std::vector<double> values_of(const DumpEntry& entry) {
  std::vector<double> values;
  EXPECT_TRUE(entry.value) << entry.name;
  if (!entry.value) return values;
  const auto parts = entry.value->to_host();
  EXPECT_EQ(parts.at(0).tensor.sizes, entry.sizes);
  for (std::int64_t i = 0; i < parts.at(0).tensor.numel(); ++i) {
    values.push_back(element_as_double(parts.at(0).tensor, i));
  }
  return values;
}

const DumpEntry& find(const std::vector<DumpEntry>& entries, const std::string& name, std::int64_t call = 1,
                      const std::string& path = {}) {
  for (const auto& entry : entries) {
    if (entry.name == name && entry.call == call && entry.path == path) return entry;
  }
  ADD_FAILURE() << "no entry " << name << ":" << call << " " << path;
  static const DumpEntry none;
  return none;
}

std::vector<std::string> names_of(const std::vector<DumpEntry>& entries) {
  std::vector<std::string> names;
  for (const auto& entry : entries) {
    names.push_back(entry.name + ":" + std::to_string(entry.call) + (entry.path.empty() ? "" : "/" + entry.path));
  }
  return names;
}

std::string all_notes(const Dump& dump) {
  std::string text;
  for (const auto& note : dump.notes) text += note + "\n";
  return text;
}

Error refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "accepted";
  return Error(ErrorCode::kInternal, "nothing thrown");
}

TEST(RecorderDump, HoldsWhatTheHooksSaw) {
  EXPECT_EQ(reference_format(references() / "nested.tlspec"), ReferenceFormat::kRecorderDump);
  const auto dump = read_reference(references() / "nested.tlspec");
  EXPECT_THAT(names_of(dump.entries), ElementsAre("odd:1/0", "odd:1/1", "odd:1/2", "cell.lin:1", "cell.tied:1",
                                                  "cell.tied:2", "sum:1", "cell:1/y", "cell:1/parts.0",
                                                  "cell:1/parts.1", "self:1/y", "self:1/parts.0", "self:1/parts.1"));
  EXPECT_EQ(values_of(find(dump.entries, "cell.lin")), grid([](double x) { return 2 * x; }));
  EXPECT_EQ(values_of(find(dump.entries, "cell.tied", 2)), grid([](double x) { return 8 * x; }));
  EXPECT_EQ(values_of(find(dump.entries, "cell", 1, "parts.0")), grid([](double x) { return 8 * x + 10; }));
  EXPECT_EQ(values_of(find(dump.entries, "cell", 1, "y")), grid([](double x) { return 16 * x; }));
  // element_as_double gives the absolute value of y - y·j.
  const auto absolute = values_of(find(dump.entries, "cell", 1, "parts.1"));
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(absolute[static_cast<std::size_t>(i)], 2 * i * std::sqrt(2.0), 1e-12);
  const auto& sum = find(dump.entries, "sum");
  EXPECT_TRUE(sum.is_tap);
  EXPECT_EQ(sum.dtype, DType::kBF16);
  EXPECT_EQ(values_of(sum), std::vector<double>{30});
}

TEST(RecorderDump, KeepsQuantisedAndSparseParts) {
  const auto dump = read_reference(references() / "nested.tlspec");
  const auto& quantised = find(dump.entries, "odd", 1, "0");
  EXPECT_EQ(quantised.dtype, DType::kQI8);
  EXPECT_EQ(quantised.value->kind(), TensorKind::kQuantised);
  EXPECT_EQ(quantised.value->to_host().size(), 3U);
  // x / 0.5 plus the zero point 1, rounded half to even, as LibTorch's kernel does
  EXPECT_EQ(values_of(quantised), (std::vector<double>{1, 2, 2, 2, 3, 4}));
  const auto& sparse = find(dump.entries, "odd", 1, "1");
  EXPECT_EQ(sparse.value->kind(), TensorKind::kSparse);
  EXPECT_EQ(sparse.value->to_host().size(), 2U);
  const auto& meta = find(dump.entries, "odd", 1, "2");
  EXPECT_EQ(meta.evidence, Evidence::kShape);
  EXPECT_FALSE(meta.value);
  EXPECT_THAT(all_notes(dump), HasSubstr("odd.2 has no value: a Tensor on the device meta has no values"));
}

TEST(RecorderDump, KeepsInputsOutputsAndFacts) {
  const auto dump = read_reference(references() / "nested.tlspec");
  EXPECT_THAT(names_of(dump.inputs), ElementsAre("x:1", "scale:1", "extra.0:1"));
  EXPECT_EQ(find(dump.inputs, "scale").scalar, "2");
  EXPECT_EQ(values_of(find(dump.inputs, "x")), grid());
  EXPECT_THAT(names_of(dump.outputs), ElementsAre("output.y:1", "output.parts.0:1", "output.parts.1:1"));
  ASSERT_EQ(dump.params.size(), 2U);
  EXPECT_EQ(dump.params[0].address, "cell.lin.weight");
  EXPECT_THAT(dump.params[0].other_addresses, ElementsAre("cell.tied.weight"));
  EXPECT_EQ(dump.params[0].digest, "35ad10c9db54f6bd543ab24cfdaebcee");  // xxh128sum of 2·eye(3) in f32
  EXPECT_TRUE(dump.params[1].is_buffer);
  EXPECT_EQ(dump.seed, 7);
  EXPECT_EQ(dump.mode, "eval");
  EXPECT_EQ(dump.engine, "PyTorch 2.13.0+cpu");
  EXPECT_EQ(dump.outcome, "complete");
  const auto& linear = find(dump.entries, "cell.lin");
  EXPECT_EQ(linear.class_name, "Linear");
  EXPECT_EQ(linear.file, "torch/nn/modules/linear.py");
  EXPECT_EQ(linear.line, 130);
}

TEST(PythonTorchLens, OpsAndModulesOfOneOp) {
  const auto path = references() / "python.tlspec";
  EXPECT_EQ(reference_format(path), ReferenceFormat::kPythonTorchLens);
  const auto dump = read_reference(path);
  EXPECT_EQ(dump.producer, "TorchLens 2.36.1");
  EXPECT_EQ(dump.model_class, "Model");
  const auto& op = find(dump.entries, "linear_1_3", 2);
  EXPECT_TRUE(op.is_op);
  EXPECT_EQ(op.operation, "linear");
  EXPECT_EQ(op.module, "cell.i2h:2");
  EXPECT_EQ(op.sizes, (std::vector<std::int64_t>{2, 4}));
  const auto& module = find(dump.entries, "cell.i2h", 2);
  EXPECT_FALSE(module.is_op);
  EXPECT_EQ(values_of(module), values_of(op));
  // cell has Ops of its own and of children, so which one it returned is not known.
  for (const auto& entry : dump.entries) EXPECT_NE(entry.name, "cell");
  // addition and tanh agree with what the recording says of their parents
  const auto left = values_of(find(dump.entries, "linear_1_3"));
  const auto right = values_of(find(dump.entries, "linear_2_4"));
  const auto sum = values_of(find(dump.entries, "add_1_5"));
  const auto tanh = values_of(find(dump.entries, "tanh_1_6"));
  for (std::size_t i = 0; i < sum.size(); ++i) {
    EXPECT_NEAR(sum[i], left[i] + right[i], 1e-6);
    EXPECT_NEAR(tanh[i], std::tanh(sum[i]), 1e-6);
  }
  EXPECT_THAT(names_of(dump.inputs), ElementsAre("0:1"));
  EXPECT_THAT(names_of(dump.outputs), ElementsAre("output:1"));
  EXPECT_THAT(all_notes(dump), HasSubstr("no edges"));
}

TEST(Polygraphy, FirstRunnerInTheOrderOfTheFile) {
  EXPECT_EQ(reference_format(references() / "polygraphy.json"), ReferenceFormat::kPolygraphy);
  const auto dump = read_reference(references() / "polygraphy.json");
  EXPECT_THAT(names_of(dump.entries), ElementsAre("zeta:1", "ids:1", "zeta:2", "ids:2"));
  EXPECT_EQ(values_of(find(dump.entries, "zeta", 2)), grid([](double x) { return 2 * x; }));
  EXPECT_EQ(values_of(find(dump.entries, "ids")), (std::vector<double>{1, 2, -3}));
  EXPECT_THAT(all_notes(dump), HasSubstr("trt-runner-N0 is read, not onnxrt-runner-N0"));
  const auto feeds = read_reference(references() / "feeds.json");
  EXPECT_THAT(names_of(feeds.inputs), ElementsAre("x:1", "mask:1"));
  EXPECT_EQ(values_of(find(feeds.inputs, "x")), grid());
}

TEST(Sglang, DumpedFilesOfOneRank) {
  EXPECT_EQ(reference_format(references() / "sglang"), ReferenceFormat::kTorchFiles);
  const auto dump = read_reference(references() / "sglang");
  EXPECT_THAT(names_of(dump.entries), ElementsAre("hidden[layer_id=0]:1", "hidden[layer_id=1]:1", "logits:1"));
  EXPECT_EQ(values_of(find(dump.entries, "hidden[layer_id=1]")), grid([](double x) { return x + 1; }));
  EXPECT_THAT(all_notes(dump), HasSubstr("2 files of others"));
}

TEST(Sglang, PassesOfForwardHooks) {
  const auto dump = read_reference(references() / "passes");
  EXPECT_THAT(names_of(dump.entries),
              ElementsAre("model.layers.0.mlp:1", "model.layers.0.attn:1/0", "model.layers.0.attn:1/1",
                          "model.layers.0.mlp:2", "model.layers.0.attn:2/0", "model.layers.0.attn:2/1"));
  EXPECT_EQ(values_of(find(dump.entries, "model.layers.0.mlp", 2)), grid([](double x) { return x + 1; }));
}

TEST(TorchFiles, ADictOfTensors) {
  const auto dump = read_reference(references() / "sparse.pt");
  EXPECT_THAT(names_of(dump.entries), ElementsAre("dense:1"));
  EXPECT_THAT(all_notes(dump), HasSubstr("sparse is a sparse or quantised tensor"));
}

TEST(TensorFiles, ADirectoryInNaturalOrder) {
  const auto dump = read_reference(references() / "tensors");
  EXPECT_THAT(names_of(dump.entries), ElementsAre("blocks.0:2", "tensor_1:1", "tensor_2:1", "tensor_10:1"));
  EXPECT_EQ(values_of(find(dump.entries, "tensor_10")), grid([](double x) { return x + 10; }));
  EXPECT_THAT(all_notes(dump), HasSubstr("words"));
}

TEST(TensorFiles, SafetensorsInNaturalOrder) {  // as files of a directory; the header orders by type and name
  const TempDirectory directory;
  const auto path = directory / "a.safetensors";
  SafetensorsWriter writer(path, SafetensorsWriter::header_space(3, 64));
  for (const auto* name : {"blocks.10", "blocks.2", "blocks.1:2"}) {
    writer.add(name, make_host_tensor(DType::kU8, {1}, std::vector<std::byte>(1)));
  }
  writer.finish();
  EXPECT_THAT(names_of(read_reference(path).entries), ElementsAre("blocks.1:2", "blocks.2:1", "blocks.10:1"));
}

class InDirectory : public testing::Test {
 protected:
  fs::path write(const std::string& name, const std::string& text) const {
    const auto path = dir_.path() / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  TempDirectory dir_;
};

using FastVideo = InDirectory;

TEST_F(FastVideo, StatisticsByStep) {
  const auto path =
      write("trace.jsonl",
            R"({"module": "block.layers.0", "tensor": "out", "step": 0, "abs_mean": 1.25, "sum": -5.5, )"
            R"("max": 9.0, "shape": [1, 4096, 5120], "dtype": "torch.bfloat16"})"
            "\r\n\n"
            R"({"module": "block.layers.0", "tensor": "out", "step": 3, "abs_mean": NaN, "sum": Infinity})"
            "\n"
            R"({"module": "block", "tensor": "out[0].key", "step": 0, "mean": "<error: no mean>", "shape": []})");
  EXPECT_EQ(reference_format(path), ReferenceFormat::kStatisticsLines);
  const auto dump = read_reference(path);
  EXPECT_THAT(names_of(dump.entries), ElementsAre("block.layers.0:1", "block.layers.0:4", "block:1/0.key"));
  const auto& first = dump.entries[0];
  EXPECT_EQ(first.evidence, Evidence::kStatistics);
  EXPECT_EQ(first.statistics.abs_mean, 1.25);
  EXPECT_EQ(first.statistics.sum, -5.5);
  EXPECT_EQ(first.statistics.max, 9.0);
  EXPECT_FALSE(first.statistics.mean);
  EXPECT_EQ(first.dtype, DType::kBF16);
  EXPECT_EQ(first.sizes, (std::vector<std::int64_t>{1, 4096, 5120}));
  EXPECT_TRUE(std::isnan(*dump.entries[1].statistics.abs_mean));
  EXPECT_TRUE(std::isinf(*dump.entries[1].statistics.sum));
  EXPECT_FALSE(dump.entries[1].has_sizes);
  EXPECT_EQ(dump.entries[2].evidence, Evidence::kShape);
  EXPECT_TRUE(dump.entries[2].has_sizes);
  EXPECT_THAT(all_notes(dump), HasSubstr("weaker evidence"));
  EXPECT_THAT(all_notes(dump), HasSubstr("could not take mean of block"));
}

TEST_F(FastVideo, SeveralCallsAStepAreCounted) {
  const std::string line = R"({"module": "a", "tensor": "out", "step": 0, "sum": 1})";
  const auto dump = read_reference(write("t.jsonl", line + "\n" + line + "\n"));
  EXPECT_THAT(names_of(dump.entries), ElementsAre("a:1", "a:2"));
  EXPECT_THAT(all_notes(dump), HasSubstr("several times a step"));
}

TEST_F(FastVideo, StepsThatAreNoneAreCountedInstead) {
  const auto dump =
      read_reference(write("t.jsonl", R"({"module": "a", "tensor": "out", "step": 9223372036854775807, "sum": 1})"
                                      "\n"
                                      R"({"module": "a", "tensor": "out", "step": -3, "sum": 1})"));
  EXPECT_THAT(names_of(dump.entries), ElementsAre("a:1", "a:2"));
}

TEST_F(FastVideo, DamagedLinesAreNamed) {
  const std::string good = R"({"module": "a", "tensor": "out", "step": 0, "sum": 1})"
                           "\n";
  auto error = refusal([&] { read_reference(write("a.jsonl", good + "{\"module\": \"b\"")); });
  EXPECT_EQ(error.code, ErrorCode::kFileDamaged);
  EXPECT_THAT(error.message, HasSubstr("line 2"));
  error = refusal([&] { read_reference(write("b.jsonl", good + R"({"module": "b", "tensor": "out", "sum": []})")); });
  EXPECT_THAT(error.message, HasSubstr("sum is a list"));
  error =
      refusal([&] { read_reference(write("c.jsonl", good + R"({"module": "b", "tensor": "out", "shape": [-1]})")); });
  EXPECT_THAT(error.message, HasSubstr("shape"));
  error = refusal([&] { read_reference(write("d.jsonl", good + R"({"sum": 1})")); });
  EXPECT_THAT(error.message, HasSubstr("no module and tensor"));
}

using Trtexec = InDirectory;

TEST_F(Trtexec, Output) {
  const auto path = write("out.json", R"([
  { "name" : "logits"
  , "dimensions" : "2x3"
  , "values" : [ 0, 0.25, 0.5, 0.75, 1, 1.25 ]
  }
, { "name" : "score"
  , "dimensions" : ""
  , "values" : [ -1e-05 ]
  }
])");
  EXPECT_EQ(reference_format(path), ReferenceFormat::kTrtexecOutput);
  const auto dump = read_reference(path);
  EXPECT_THAT(names_of(dump.entries), ElementsAre("logits:1", "score:1"));
  EXPECT_EQ(values_of(dump.entries[0]), grid());
  EXPECT_THAT(all_notes(dump), HasSubstr("six digits"));
  for (const auto* dimensions :
       {"2x4", "2x-3", "2x", "x2", "2x3x", "99999999999999999999", "1099511627776x1099511627776"}) {
    const auto error = refusal([&] {
      read_reference(write("bad.json", std::string(R"([{"name": "a", "dimensions": ")") + dimensions +
                                           R"(", "values": [0,1,2,3,4,5]}])"));
    });
    EXPECT_EQ(error.code, ErrorCode::kFileDamaged) << dimensions;
  }
}

TEST_F(Trtexec, WordsOfCppStreamsAreNumbers) {
  const auto path =
      write("out.json", R"([{ "name" : "nan inf \" nan", "dimensions" : "6", "values" : [ nan, -nan, inf,-inf, 1e3
, inf ] }])");
  EXPECT_EQ(reference_format(path), ReferenceFormat::kTrtexecOutput);
  const auto dump = read_reference(path);
  EXPECT_EQ(dump.entries[0].name, "nan inf \" nan");
  const auto values = values_of(dump.entries[0]);
  EXPECT_TRUE(std::isnan(values[0]) && std::isnan(values[1]));
  EXPECT_THAT((std::vector<double>(values.begin() + 2, values.end())),
              ElementsAre(INFINITY, -INFINITY, 1000, INFINITY));
  EXPECT_EQ(with_json_words(R"({"a": [1, "nan"]})"), "");
  EXPECT_EQ(with_json_words("[nano, infinity, nan]"), "[nano, infinity, NaN]");
}

TEST_F(Trtexec, DebugTensors) {
  fs::create_directories(dir_ / "debug");
  fs::copy_file(references() / "tensors/tensor_1.npy", dir_.path() / "debug/0000_conv.npy");
  const auto summary = [&](const std::string& file) {
    write("debug/tensor_summary.json",
          R"({"metadata": {"title": "Tensor Summary Report", "engine_name": "net.engine"}, "tensors": [
            {"name": "conv", "shape": [2, 3], "type": "HALF", "statistics": {"min": 1, "max": 2.25, "avg": 1.625},
             "files": {"numpy": ")" +
              file + R"("}},
            {"name": "mask", "shape": [2], "type": "BOOL", "statistics": {"min": "nan", "max": 1, "avg": 0.5}}]})");
    return read_reference(dir_.path() / "debug");
  };
  const auto dump = summary("0000_conv.npy");
  EXPECT_EQ(reference_format(dir_.path() / "debug"), ReferenceFormat::kTrtexecTensors);
  EXPECT_THAT(names_of(dump.entries), ElementsAre("conv:1", "mask:1"));
  EXPECT_EQ(values_of(dump.entries[0]), grid([](double x) { return x + 1; }));
  EXPECT_EQ(dump.entries[0].statistics.mean, 1.625);
  EXPECT_EQ(dump.entries[1].evidence, Evidence::kStatistics);
  EXPECT_THAT(all_notes(dump), HasSubstr("conv was HALF and was written as f32"));
  EXPECT_EQ(refusal([&] { summary("../tensor_1.npy"); }).code, ErrorCode::kFileHostile);
  EXPECT_EQ(refusal([&] { summary("missing.npy"); }).code, ErrorCode::kFileDamaged);
}

using Refusals = InDirectory;

TEST_F(Refusals, ARecordingWithoutItsManifestIsDamaged) {
  for (const auto* file : {"columns.safetensors", "tensors-00000.safetensors"}) {
    const fs::path recording = dir_ / file;
    fs::create_directories(recording);
    fs::copy_file(references() / "nested.tlspec/tensors-00000.safetensors", recording / file);
    const auto error = refusal([&] { reference_format(recording); });
    EXPECT_EQ(error.code, ErrorCode::kFileDamaged);
    EXPECT_THAT(error.message, HasSubstr("manifest.json is missing"));
  }
}

TEST_F(Refusals, ArraysOfObjectsAreNamedAsTheReason) {  // numpy.save of an object array: a pickle behind the header
  std::string header = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }";
  header.resize(117, ' ');
  header += '\n';
  const auto path =
      write("o.npy", std::string("\x93NUMPY\x01\x00", 8) + std::string("\x76\x00", 2) + header + "pickle");
  EXPECT_EQ(refusal([&] { read_reference(path); }).code, ErrorCode::kUnsupportedKind);
}

TEST_F(Refusals, DamagedTensorsAreFoundByTheirChecksum) {
  const auto recording = dir_ / "nested.tlspec";
  fs::copy(references() / "nested.tlspec", recording, fs::copy_options::recursive);
  check_tensors_files(recording, {});
  std::fstream file(recording / "tensors-00000.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('\x7f');
  file.close();
  const auto error = refusal([&] { check_tensors_files(recording, {}); });
  EXPECT_EQ(error.code, ErrorCode::kFileDamaged);
  EXPECT_THAT(error.message, HasSubstr("tensors-00000.safetensors: has the checksum"));
}

TEST_F(Refusals, OtherFiles) {
  EXPECT_EQ(refusal([&] { read_reference(dir_ / "missing"); }).code, ErrorCode::kFileMissing);
  for (const auto* text : {"", "hello", "{}", "[]", "[1]", R"([{"name": 1}])", R"({"format": "x"})"}) {
    const auto error = refusal([&] { read_reference(write("file", text)); });
    EXPECT_EQ(error.code, ErrorCode::kNotATrace) << text;
    EXPECT_THAT(error.note, HasSubstr("Polygraphy"));
  }
  EXPECT_EQ(refusal([&] { read_reference(write("file", "{\"a\": ")); }).code, ErrorCode::kFileDamaged);
  const auto dump = refusal([&] { read_reference(write("x.etdump", std::string("\x1c\0\0\0ED00....", 12))); });
  EXPECT_EQ(dump.code, ErrorCode::kUnsupportedKind);
  EXPECT_THAT(dump.hint, HasSubstr("Inspector"));
  fs::create_directory(dir_ / "empty");
  EXPECT_EQ(refusal([&] { read_reference(dir_ / "empty"); }).code, ErrorCode::kNotATrace);
}

TEST_F(Refusals, OurTracesAreForTheOtherReader) {
  write_tlspec(test::make_sample_trace(), dir_ / "run.tlspec");
  EXPECT_EQ(reference_format(dir_ / "run.tlspec"), ReferenceFormat::kTrace);
  EXPECT_EQ(refusal([&] { read_reference(dir_ / "run.tlspec"); }).code, ErrorCode::kUnsupportedKind);
}

/// A recording of the recorder that tests damage.
class HostileDump : public InDirectory {
 protected:
  HostileDump() { fs::copy(references() / "nested.tlspec", path_, fs::copy_options::recursive); }

  /// The refusal after `from` was replaced by `to` in the manifest.
  Error edited(const std::string& from, const std::string& to) const {
    auto text = read_text(references() / "nested.tlspec/manifest.json");
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos) text.replace(at, from.size(), to);
    std::ofstream(path_ / "manifest.json", std::ios::binary) << text;
    return refusal([&] { read_reference(path_); });
  }

  fs::path path_ = dir_ / "run.tlspec";
};

TEST_F(HostileDump, ManifestsThatLie) {
  EXPECT_EQ(edited("\"version\": 1,", "\"version\": 2,").code, ErrorCode::kUnsupportedVersion);
  EXPECT_EQ(edited("\"name\": \"tensors-00000.safetensors\"", "\"name\": \"../x\"").code, ErrorCode::kFileDamaged);
  EXPECT_THAT(edited("\"bytes\": ", "\"bytes\": 1").message, HasSubstr("manifest.json says"));
  EXPECT_THAT(edited("\"shard\": 0", "\"shard\": 1").message, HasSubstr("shard is 1, there are 1 files"));
  EXPECT_THAT(edited("\"shard\": 0", "\"shard\": -1").message, HasSubstr("shard is -1"));
  EXPECT_THAT(edited("\"key\": \"cell.lin:1\"", "\"key\": \"nothing\"").message, HasSubstr("is not stored"));
  EXPECT_THAT(edited("\"shape\": [2, 3]", "\"shape\": [3, 2]").message, HasSubstr("is stored as f32[2,3]"));
  EXPECT_THAT(edited("\"shape\": [2, 3]", "\"shape\": [2, -3]").message, HasSubstr("something else than sizes"));
  EXPECT_THAT(edited("\"shape\": [2, 3]", "\"shape\": [4294967296, 4294967296]").message, HasSubstr("than fit"));
  EXPECT_THAT(edited("\"encoding\": \"dense\"", "\"encoding\": \"zip\"").message, HasSubstr("encoding is 'zip'"));
  EXPECT_THAT(edited("\"kind\": \"tap\"", "\"kind\": \"hook\"").message, HasSubstr("kind is 'hook'"));
  EXPECT_THAT(edited("\"call\": 1", "\"call\": 0").message, HasSubstr("calls count from 1"));
  EXPECT_THAT(edited("\"digest\": \"35ad", "\"digest\": \"35AD").message, HasSubstr("no 32 hex digits"));
  EXPECT_EQ(edited("\"kind\": \"dump\",", "\"kind\": \"dump\", \"kind\": \"dump\",").code, ErrorCode::kFileHostile);
}

TEST_F(HostileDump, NamesAreEscapedInMessages) {
  const auto error = edited("\"key\": \"cell.lin:1\"", R"("key": "\u001b[31m\n::error::x")");
  EXPECT_EQ(error.message.find('\x1b'), std::string::npos);
  EXPECT_EQ(error.message.find('\n'), std::string::npos);
}

TEST_F(HostileDump, LinksAreNotFollowed) {
  const auto tensors = path_ / "tensors-00000.safetensors";
  fs::remove(tensors);
  fs::create_symlink(references() / "nested.tlspec/tensors-00000.safetensors", tensors);
  EXPECT_EQ(refusal([&] { read_reference(path_); }).code, ErrorCode::kFileHostile);
  fs::remove(tensors);
  EXPECT_EQ(refusal([&] { read_reference(path_); }).code, ErrorCode::kFileDamaged);
  fs::remove(path_ / "manifest.json");
  fs::create_symlink(references() / "nested.tlspec/manifest.json", path_ / "manifest.json");
  EXPECT_EQ(refusal([&] { read_reference(path_); }).code, ErrorCode::kFileHostile);
}

TEST_F(HostileDump, TruncatedFilesAreRefused) {
  const auto tensors = read_text(path_ / "tensors-00000.safetensors");
  for (std::size_t part = 0; part < 8; ++part) {
    std::ofstream(path_ / "tensors-00000.safetensors", std::ios::binary)
        << tensors.substr(0, tensors.size() * part / 8);
    EXPECT_EQ(refusal([&] { read_reference(path_); }).code, ErrorCode::kFileDamaged);
  }
  std::ofstream(path_ / "tensors-00000.safetensors", std::ios::binary) << tensors;
  const auto manifest = read_text(path_ / "manifest.json");
  for (std::size_t part = 1; part < 40; ++part) {
    std::ofstream(path_ / "manifest.json", std::ios::binary) << manifest.substr(0, manifest.size() * part / 40);
    EXPECT_EQ(refusal([&] { read_reference(path_); }).code, ErrorCode::kFileDamaged);
  }
}

/// A recording of the Python package that tests damage.
class HostilePython : public InDirectory {
 protected:
  HostilePython() { fs::copy(references() / "python.tlspec", path_, fs::copy_options::recursive); }
  Error edited(const std::string& from, const std::string& to) const {
    auto text = read_text(references() / "python.tlspec/manifest.json");
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos) text.replace(at, from.size(), to);
    std::ofstream(path_ / "manifest.json", std::ios::binary) << text;
    return refusal([&] {
      const auto dump = read_reference(path_);
      for (const auto* entries : {&dump.entries, &dump.inputs, &dump.outputs}) {
        for (const auto& entry : *entries) values_of(entry);
      }
    });
  }
  fs::path path_ = dir_ / "run.tlspec";
};

TEST_F(HostilePython, PathsAndShapesThatLie) {
  EXPECT_EQ(edited("blobs/0000000001.safetensors", "/etc/passwd").code, ErrorCode::kFileHostile);
  EXPECT_EQ(edited("blobs/0000000001.safetensors", "../x.safetensors").code, ErrorCode::kFileHostile);
  EXPECT_EQ(edited("blobs/0000000001.safetensors", "blobs/a/b.safetensors").code, ErrorCode::kFileDamaged);
  EXPECT_EQ(edited("blobs/0000000001.safetensors", "blobs/none.safetensors").code, ErrorCode::kFileDamaged);
  EXPECT_EQ(edited("\"dtype\": \"float32\"", "\"dtype\": \"float64\"").code, ErrorCode::kFileDamaged);
  EXPECT_EQ(edited("\"kind\": \"trace\"", "\"kind\": \"bundle\"").code, ErrorCode::kUnsupportedKind);
  EXPECT_EQ(edited("\"tlspec_version\": 9", "\"tlspec_version\": 0").code, ErrorCode::kFileDamaged);
  EXPECT_EQ(edited("\"body_format\": \"safetensors\"", "\"body_format\": \"pickle\"").code,
            ErrorCode::kUnsupportedKind);
}

TEST_F(HostilePython, WithoutActivations) {
  std::ofstream(path_ / "manifest.json", std::ios::binary)
      << R"({"tlspec_version": 9, "kind": "trace", "tensors": [], "save_level": "audit"})";
  const auto error = refusal([&] { read_reference(path_); });
  EXPECT_EQ(error.code, ErrorCode::kActivationNotSaved);
  EXPECT_THAT(error.message, HasSubstr("audit"));
}

TEST(Base64, KnownTexts) {  // RFC 4648, section 10
  const auto decoded = [](std::string_view text) -> std::optional<std::string> {
    const auto bytes = decode_base64(text);
    if (!bytes) return std::nullopt;
    return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  };
  EXPECT_EQ(decoded(""), "");
  EXPECT_EQ(decoded("Zg=="), "f");
  EXPECT_EQ(decoded("Zm8="), "fo");
  EXPECT_EQ(decoded("Zm9v"), "foo");
  EXPECT_EQ(decoded("Zm9vYmFy"), "foobar");
  for (const auto* text : {"Z", "Zg", "Zg=", "Zh==", "Zm9=", "====", "Zg==Zg==", "Z g=", "Zm9\n", "Zm9-"}) {
    EXPECT_EQ(decoded(text), std::nullopt) << text;
  }
}

TEST(NaturalOrder, RunsOfDigitsAreNumbers) {
  EXPECT_TRUE(natural_less("a2", "a10"));
  EXPECT_FALSE(natural_less("a10", "a2"));
  EXPECT_TRUE(natural_less("a", "a1"));
  EXPECT_TRUE(natural_less("a01b", "a1c"));
  std::vector<std::string> names = {"x", "x-1", "x.10", "x.2.a", "x.2", "y.b", "y"};
  std::ranges::sort(names, in_order_of_execution);
  EXPECT_EQ(names, (std::vector<std::string>{"x.2.a", "x.2", "x.10", "x", "x-1", "y.b", "y"}));
  EXPECT_TRUE(natural_less("a99999999999999999999998", "a99999999999999999999999"));
  EXPECT_FALSE(natural_less("a1", "a1"));
}

}  // namespace
}  // namespace tl
