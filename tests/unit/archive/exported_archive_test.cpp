#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "archive/exported_program_reader.h"
#include "archive/model_kind.h"
#include "archive/zip_directory.h"
#include "test_files.h"

namespace tl {
namespace {

using nlohmann::json;
using test::compressed;
using test::error_of;
using test::make_zip;
using test::stored;
using test::ZipPiece;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A program of schema 8.20 that returns its parameter `w` and its buffer `b`.
json program() {
  json root = json::parse(R"({"graph_module": {"graph": {"inputs": [{"as_tensor": {"name": "p_w"}},
      {"as_tensor": {"name": "b_b"}}], "outputs": [{"as_tensor": {"name": "p_w"}}, {"as_tensor": {"name": "b_b"}}],
      "nodes": [], "tensor_values": {}, "sym_int_values": {}, "sym_bool_values": {}},
    "signature": {"input_specs": [{"parameter": {"arg": {"name": "p_w"}, "parameter_name": "w"}},
      {"buffer": {"arg": {"name": "b_b"}, "buffer_name": "b", "persistent": true}}],
      "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "p_w"}}}},
      {"user_output": {"arg": {"as_tensor": {"name": "b_b"}}}}]}, "module_call_graph": []},
    "opset_version": {"aten": 10}, "range_constraints": {}, "schema_version": {"major": 8, "minor": 20},
    "verifiers": ["TRAINING"], "torch_version": "2.13.0"})");
  return root;
}

json sizes(const std::vector<std::int64_t>& numbers) {
  json list = json::array();
  for (const std::int64_t number : numbers) list.push_back({{"as_int", number}});
  return list;
}

/// A PayloadMeta of float32.
json payload(const std::string& path, const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides,
             std::int64_t offset = 0) {
  return {{"path_name", path},
          {"is_param", true},
          {"use_pickle", false},
          {"tensor_meta",
           {{"dtype", 7},
            {"sizes", sizes(shape)},
            {"requires_grad", true},
            {"device", {{"type", "cuda"}, {"index", 0}}},
            {"strides", sizes(strides)},
            {"storage_offset", {{"as_int", offset}}},
            {"layout", 7}}}};
}

std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

json config(const json& payloads) { return {{"config", payloads}}; }

struct Parts {
  json weights = {{"w", payload("weight_0", {2, 2}, {1, 2})}, {"b", payload("weight_0", {2}, {1}, 2)}};
  json constants = json::object();
  std::vector<ZipPiece> files = {stored("m/data/weights/weight_0", floats({1, 2, 3, 4}))};
  std::string model = "model";
};

std::vector<ZipPiece> pieces(const Parts& parts) {
  std::vector<ZipPiece> result = {stored("m/archive_format", "pt2"), stored("m/archive_version", "0"),
                                  stored("m/byteorder", "little"),
                                  stored("m/models/" + parts.model + ".json", program().dump())};
  result.push_back(stored("m/data/weights/" + parts.model + "_weights_config.json", config(parts.weights).dump()));
  result.push_back(
      stored("m/data/constants/" + parts.model + "_constants_config.json", config(parts.constants).dump()));
  result.insert(result.end(), parts.files.begin(), parts.files.end());
  return result;
}

ZipDirectory zip_of(const std::vector<ZipPiece>& list) {
  const auto bytes = std::make_shared<const std::string>(make_zip(list));
  return {test::as_bytes(*bytes), "m.pt2", bytes};
}

ExportedProgram read(const std::vector<ZipPiece>& list, const std::string& model = {}) {
  return read_exported_program(zip_of(list), {.model = model});
}

std::vector<float> values_of(const HostTensor& tensor) {
  const HostTensor packed = to_contiguous(tensor);
  std::vector<float> values(static_cast<std::size_t>(packed.numel()));
  std::memcpy(values.data(), packed.storage.data() + packed.offset * 4, values.size() * 4);
  return values;
}

TEST(ExportedArchive, ViewsOfOneStorage) {
  const ExportedProgram program = read(pieces({}));
  const ExportedPayload* w = program.find_payload("w");
  const ExportedPayload* b = program.find_payload("b");
  ASSERT_TRUE(w && b);
  EXPECT_THAT(values_of(w->tensor), ElementsAre(1, 3, 2, 4));
  EXPECT_THAT(values_of(b->tensor), ElementsAre(3, 4));
  EXPECT_EQ(w->entry, b->entry);
  EXPECT_EQ(w->tensor.storage.data(), b->tensor.storage.data());
  EXPECT_EQ(w->meta.device.type, "cuda");
  EXPECT_TRUE(w->meta.requires_grad);
}

TEST(ExportedArchive, CompressedEntriesAreDecodedOnce) {
  Parts parts;
  parts.files = {compressed("m/data/weights/weight_0", floats({1, 2, 3, 4}))};
  const ExportedProgram program = read(pieces(parts));
  EXPECT_THAT(values_of(program.find_payload("w")->tensor), ElementsAre(1, 3, 2, 4));
  EXPECT_EQ(program.find_payload("w")->entry_offset, 0u);
  EXPECT_EQ(program.find_payload("w")->tensor.storage.data(), program.find_payload("b")->tensor.storage.data());
}

TEST(ExportedArchive, ExpandedAndEmptyTensors) {
  Parts parts;
  parts.weights = {{"w", payload("weight_0", {3, 2}, {0, 1})}, {"b", payload("weight_1", {0, 4}, {4, 1})}};
  parts.files.push_back(stored("m/data/weights/weight_1", ""));
  const ExportedProgram program = read(pieces(parts));
  EXPECT_THAT(values_of(program.find_payload("w")->tensor), ElementsAre(1, 2, 1, 2, 1, 2));
  EXPECT_EQ(program.find_payload("b")->tensor.numel(), 0);
}

// What torch writes for a tensor that was fake at the time of saving; torch.export.load takes zeros for it.
TEST(ExportedArchive, EntriesWithoutBytesAreZeros) {
  Parts parts;
  parts.weights["w"] = payload("weight_1", {2, 2}, {1, 2}, 1);
  parts.files.push_back(stored("m/data/weights/weight_1", ""));
  EXPECT_THAT(values_of(read(pieces(parts)).find_payload("w")->tensor), ElementsAre(0, 0, 0, 0));
  parts.weights["w"] = payload("weight_1", {1 << 20, 1 << 20}, {1 << 20, 1});
  const Error error = error_of([&] { read(pieces(parts)); });
  EXPECT_EQ(error.code, ErrorCode::kFileDamaged);
  EXPECT_THAT(error.message, HasSubstr("of 0 bytes"));
}

TEST(ExportedArchive, ConstantsAndObjects) {
  Parts parts;
  parts.weights.erase("b");
  parts.constants = {
      {"b", payload("tensor_0", {1}, {1})},
      {"foo", {{"path_name", "custom_obj_0"}, {"is_param", false}, {"use_pickle", true}, {"tensor_meta", nullptr}}}};
  parts.files.push_back(stored("m/data/constants/tensor_0", floats({7})));
  parts.files.push_back(stored("m/data/constants/custom_obj_0", "whatever"));
  const ExportedProgram program = read(pieces(parts));
  EXPECT_THAT(values_of(program.find_payload("b")->tensor), ElementsAre(7));
  ASSERT_NE(program.find_payload("foo"), nullptr);
  EXPECT_TRUE(program.find_payload("foo")->is_object);
}

TEST(ExportedArchive, RefusesPayloadsThatLie) {
  struct Case {
    std::string name;
    json w;
    ErrorCode code;
    std::string text;
  };
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  const std::vector<Case> cases = {
      {"too long", payload("weight_0", {5}, {1}), ErrorCode::kFileDamaged, "f32[5] with strides [1] at offset 0"},
      {"offset", payload("weight_0", {1}, {1}, 4), ErrorCode::kFileDamaged, "at offset 4 reaches beyond"},
      {"negative offset", payload("weight_0", {1}, {1}, -1), ErrorCode::kFileDamaged, "at offset -1"},
      {"negative stride", payload("weight_0", {2}, {-1}), ErrorCode::kFileDamaged, "with strides [-1]"},
      {"stride that overflows", payload("weight_0", {2, 2}, {kHuge, kHuge}), ErrorCode::kFileDamaged, "reaches beyond"},
      {"size that overflows", payload("weight_0", {kHuge, kHuge}, {0, 0}), ErrorCode::kFileDamaged, "reaches beyond"},
      {"expanded to petabytes", payload("weight_0", {1 << 30, 1 << 20}, {0, 0}), ErrorCode::kFileLimits,
       "is expanded from a storage of 16 bytes"},
      {"missing entry", payload("weight_9", {1}, {1}), ErrorCode::kFileDamaged,
       "payload \"w\": its entry \"m/data/weights/weight_9\" is not in the file"},
      {"outside of the folder", payload("../weights/weight_0", {1}, {1}), ErrorCode::kFileHostile, "payload \"w\""},
  };
  for (const Case& item : cases) {
    SCOPED_TRACE(item.name);
    Parts parts;
    parts.weights["w"] = item.w;
    const Error error = error_of([&] { read(pieces(parts)); });
    EXPECT_EQ(error.code, item.code) << error.message;
    EXPECT_THAT(error.message, HasSubstr(item.text));
    EXPECT_THAT(error.message, HasSubstr("m.pt2"));
  }
}

TEST(ExportedArchive, RefusesWhatIsMissing) {
  Parts no_parameter;
  no_parameter.weights.erase("w");
  const Error parameter = error_of([&] { read(pieces(no_parameter)); });
  EXPECT_EQ(parameter.code, ErrorCode::kFileDamaged);
  EXPECT_THAT(parameter.message, HasSubstr("parameter \"w\""));

  std::vector<ZipPiece> list = pieces({});
  std::erase_if(list, [](const ZipPiece& piece) { return piece.name.ends_with("weights_config.json"); });
  const Error no_config = error_of([&] { read(list); });
  EXPECT_EQ(no_config.code, ErrorCode::kFileDamaged);
  EXPECT_THAT(no_config.message, HasSubstr("model_weights_config.json"));

  Parts odd;
  odd.files = {stored("m/data/weights/weight_0", floats({1, 2, 3, 4}) + "x")};
  EXPECT_THAT(error_of([&] { read(pieces(odd)); }).message, HasSubstr("no multiple of the 4"));

  Parts damaged;
  damaged.files[0].crc ^= 1;
  EXPECT_THAT(error_of([&] { read(pieces(damaged)); }).message, HasSubstr("checksum"));
}

TEST(ExportedArchive, ByteOrderAndArchiveVersion) {
  std::vector<ZipPiece> list = pieces({});
  list[2] = stored("m/byteorder", "big");
  EXPECT_EQ(error_of([&] { read(list); }).code, ErrorCode::kUnsupportedKind);
  list = pieces({});
  list[1] = stored("m/archive_version", "1");
  const Error error = error_of([&] { read(list); });
  EXPECT_EQ(error.code, ErrorCode::kUnsupportedVersion);
  EXPECT_THAT(error.message, HasSubstr("version \"1\", version 0 is read"));
}

TEST(ExportedArchive, SeveralPrograms) {
  std::vector<ZipPiece> list = pieces({});
  Parts other;
  other.model = "decoder";
  for (ZipPiece& piece : pieces(other)) {
    if (piece.name.find("decoder") != std::string::npos) list.push_back(std::move(piece));
  }
  EXPECT_THAT(exported_program_names(zip_of(list)), ElementsAre("decoder", "model"));
  EXPECT_EQ(read(list, "decoder").model_name, "decoder");
  const Error choose = error_of([&] { read(list); });
  EXPECT_EQ(choose.code, ErrorCode::kUsage);
  EXPECT_THAT(choose.message, HasSubstr("2 programs: \"decoder\", \"model\""));
  const Error unknown = error_of([&] { read(list, "banana"); });
  EXPECT_EQ(unknown.code, ErrorCode::kUsage);
  EXPECT_THAT(unknown.message, HasSubstr("no program \"banana\""));
  EXPECT_THAT(unknown.hint, HasSubstr("--model"));
}

TEST(ExportedArchive, WithoutPayloadsNothingOfThemIsRead) {
  Parts parts;
  parts.files.clear();
  const ZipDirectory zip = zip_of(pieces(parts));
  const ExportedProgram program = read_exported_program(zip, {.model = {}, .payloads = false});
  EXPECT_EQ(program.input_specs.size(), 2u);
  EXPECT_TRUE(program.payloads.empty());
}

TEST(ExportedArchive, FlatLayoutTellsItsVersion) {
  const std::vector<ZipPiece> old = {stored("serialized_exported_program.json", "{}"), stored("version", "7.3")};
  EXPECT_THAT(exported_program_names(zip_of(old)), ElementsAre("model"));
  const Error error = error_of([&] { read(old); });
  EXPECT_EQ(error.code, ErrorCode::kUnsupportedVersion);
  EXPECT_THAT(error.message, HasSubstr("schema 7.3"));
  EXPECT_THAT(error.hint, HasSubstr("export again with torch 2.6 or later"));

  const ZipDirectory zip = zip_of(old);
  const auto refusal = refusal_for(inspect_model_file("m.pt2", {}, &zip));
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, ErrorCode::kUnsupportedVersion);
  const ZipDirectory good = zip_of({stored("serialized_exported_program.json", "{}"), stored("version", "8.7")});
  EXPECT_FALSE(refusal_for(inspect_model_file("m.pt2", {}, &good)).has_value());
}

TEST(ExportedArchive, SampleInputsMayBeAbsent) {
  EXPECT_FALSE(read_sample_inputs(zip_of(pieces({})), "model").has_value());
  std::vector<ZipPiece> list = pieces({});
  list.push_back(stored("m/data/sample_inputs/model.pt", ""));
  EXPECT_FALSE(read_sample_inputs(zip_of(list), "model").has_value());
  list.back() = stored("m/data/sample_inputs/model.pt", "no archive");
  EXPECT_EQ(error_of([&] { read_sample_inputs(zip_of(list), "model"); }).code, ErrorCode::kFileDamaged);
}

}  // namespace
}  // namespace tl
