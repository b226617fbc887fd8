#include "archive/exported_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "archive/exported_program_reader.h"
#include "test_files.h"

namespace tl {
namespace {

using nlohmann::json;
using test::error_of;
using test::shared_dir;
using ::testing::HasSubstr;

struct OpenFile {
  std::shared_ptr<const MappedFile> file;
  ZipDirectory zip;
};

OpenFile open(const std::filesystem::path& path) {
  auto file = MappedFile::open(path);
  return {file, ZipDirectory(file->bytes(), path.filename().string(), file)};
}

ExportedProgram read(const std::filesystem::path& path, const std::string& model = {}) {
  return read_exported_program(open(path).zip, {.model = model});
}

void count_targets(const ExportedGraph& graph, std::map<std::string, int>& counts) {
  for (const ExportedNode& node : graph.nodes) {
    ++counts[node.target];
    for (const ExportedNamedArgument& input : node.inputs) {
      if (const ExportedGraph* inner = input.argument.graph()) count_targets(*inner, counts);
    }
  }
}

/// InputKind and OutputKind of torch/export/graph_signature.py.
std::string kind_name(ExportedInputSpec::Kind kind) {
  switch (kind) {
    case ExportedInputSpec::Kind::kParameter:
      return "PARAMETER";
    case ExportedInputSpec::Kind::kBuffer:
      return "BUFFER";
    case ExportedInputSpec::Kind::kTensorConstant:
      return "CONSTANT_TENSOR";
    case ExportedInputSpec::Kind::kCustomObject:
      return "CUSTOM_OBJ";
    case ExportedInputSpec::Kind::kToken:
      return "TOKEN";
    default:
      return "USER_INPUT";
  }
}

std::string kind_name(ExportedOutputSpec::Kind kind) {
  switch (kind) {
    case ExportedOutputSpec::Kind::kBufferMutation:
      return "BUFFER_MUTATION";
    case ExportedOutputSpec::Kind::kParameterMutation:
      return "PARAMETER_MUTATION";
    case ExportedOutputSpec::Kind::kUserInputMutation:
      return "USER_INPUT_MUTATION";
    case ExportedOutputSpec::Kind::kToken:
      return "TOKEN";
    default:
      return "USER_OUTPUT";
  }
}

void expect_spec(const PytreeSpec& spec, const json& facts) {
  EXPECT_EQ(spec.num_leaves, facts["leaves"].get<std::size_t>());
  ASSERT_EQ(spec.children.size(), facts["children"].size());
  for (std::size_t i = 0; i < spec.children.size(); ++i) expect_spec(spec.children[i], facts["children"][i]);
}

void expect_nodes(const ExportedProgram& program, const json& facts) {
  ASSERT_EQ(program.graph.nodes.size(), facts.size());
  for (std::size_t i = 0; i < facts.size(); ++i) {
    SCOPED_TRACE("node " + std::to_string(i));
    const ExportedNode& node = program.graph.nodes[i];
    const json& fact = facts[i];
    EXPECT_EQ(node.target, fact["target"]);
    const bool modules = fact.contains("key") && !fact["key"].get<std::string>().starts_with("_empty");
    ASSERT_EQ(node.modules >= 0, modules);
    if (modules) {
      const ExportedModuleStack& stack = program.module_stacks.at(static_cast<std::size_t>(node.modules));
      EXPECT_EQ(stack.size(), fact["modules"].get<std::size_t>());
      EXPECT_EQ(stack.back().key, fact["key"]);
      EXPECT_EQ(stack.back().path, fact["module"]);
      EXPECT_EQ(stack.back().class_name, fact["class"]);
      const std::string key = fact["key"];
      const std::size_t at = key.find('@');
      EXPECT_EQ(stack.back().call, at == std::string::npos ? 0 : std::stoi(key.substr(at + 1)));
    }
    ASSERT_EQ(node.source >= 0, fact.contains("line"));
    if (node.source >= 0) {
      const ExportedSourceStack& stack = program.source_stacks.at(static_cast<std::size_t>(node.source));
      EXPECT_EQ(stack.back().line, fact["line"].get<std::uint32_t>());
    }
  }
}

void expect_payload(const ExportedPayload& payload, const json& fact) {
  SCOPED_TRACE(payload.name);
  const HostTensor& tensor = payload.tensor;
  EXPECT_EQ(dtype_info(tensor.dtype).torch_name, fact["dtype"].get<std::string>());
  EXPECT_EQ(tensor.sizes, fact["sizes"].get<std::vector<std::int64_t>>());
  EXPECT_EQ(tensor.strides, fact["strides"].get<std::vector<std::int64_t>>());
  EXPECT_EQ(tensor.offset, fact["offset"].get<std::int64_t>());
  const HostTensor packed = to_contiguous(tensor);
  const auto bytes =
      packed.storage.subspan(static_cast<std::size_t>(packed.offset) * item_bytes(packed.dtype), packed.nbytes());
  EXPECT_EQ(libdeflate_crc32(0, bytes.data(), bytes.size()), fact["crc32"].get<std::uint32_t>());
}

TEST(ExportedProgram, HoldsWhatTorchExportLoadSays) {
  TL_NEEDS_SHARED(shared_dir() / "zoo");
  const json all = json::parse(test::file_text(test::fixture("exported_facts.json")));
  EXPECT_GE(all.size(), 18u);
  for (const auto& [name, facts] : all.items()) {
    SCOPED_TRACE(name);
    const ExportedProgram program = read(shared_dir() / name);
    EXPECT_EQ(program.dialect, facts["dialect"]);
    std::map<std::string, int> counts;
    count_targets(program.graph, counts);
    EXPECT_EQ(json(counts), facts["targets"]);
    ASSERT_EQ(program.input_specs.size(), facts["inputs"].size());
    for (std::size_t i = 0; i < program.input_specs.size(); ++i) {
      EXPECT_EQ(kind_name(program.input_specs[i].kind), facts["inputs"][i][0]);
      EXPECT_EQ(program.input_specs[i].target, facts["inputs"][i][1]);
    }
    ASSERT_EQ(program.output_specs.size(), facts["outputs"].size());
    for (std::size_t i = 0; i < program.output_specs.size(); ++i) {
      EXPECT_EQ(kind_name(program.output_specs[i].kind), facts["outputs"][i][0]);
      EXPECT_EQ(program.output_specs[i].target, facts["outputs"][i][1]);
    }
    ASSERT_NE(program.root_call(), nullptr);
    expect_spec(program.root_call()->in_spec, facts["in_spec"]);
    expect_spec(program.root_call()->out_spec, facts["out_spec"]);
    for (const auto& [symbol, range] : facts["ranges"].items()) {
      const auto found = std::ranges::find(program.ranges, symbol, &ExportedRange::symbol);
      ASSERT_NE(found, program.ranges.end()) << symbol;
      EXPECT_EQ(found->min ? std::to_string(*found->min) : "-int_oo", range[0]);
      EXPECT_EQ(found->max ? std::to_string(*found->max) : "int_oo", range[1]);
    }
    for (const auto& [payload, fact] : facts["payloads"].items()) {
      ASSERT_NE(program.find_payload(payload), nullptr) << payload;
      expect_payload(*program.find_payload(payload), fact);
    }
    if (facts.contains("nodes")) expect_nodes(program, facts["nodes"]);
  }
}

TEST(ExportedProgram, ReadsEveryReferenceFile) {
  TL_NEEDS_SHARED(shared_dir() / "zoo");
  std::size_t programs = 0;
  std::size_t in_place = 0;
  std::size_t tensors = 0;
  auto files = test::shared_files("zoo", ".pt2");
  for (auto& file : test::shared_files("reference/artifacts", ".export.pt2")) files.push_back(std::move(file));
  for (const auto& path : files) {
    if (path.filename().string().starts_with("neg_")) continue;
    SCOPED_TRACE(path.string());
    const ExportedProgram program = read(path);
    ++programs;
    EXPECT_EQ(program.schema_major, 8);
    EXPECT_FALSE(program.dialect.empty());
    EXPECT_EQ(program.graph.inputs.size(), program.input_specs.size());
    EXPECT_EQ(program.graph.outputs.size(), program.output_specs.size());
    for (const ExportedPayload& payload : program.payloads) {
      if (payload.is_object || !payload.refusal.empty() || payload.tensor.numel() == 0) continue;
      ++tensors;
      in_place += payload.entry_offset != 0;
    }
  }
  EXPECT_GT(programs, 90u);
  EXPECT_EQ(in_place, tensors) << "torch aligns its entries, nothing is copied";
}

std::filesystem::path models_dir() { return std::filesystem::path(TL_SOURCE_DIR) / "tests/models/exported"; }

std::vector<std::filesystem::path> model_files(const std::string& prefix) {
  std::vector<std::filesystem::path> files;
  for (const auto& item : std::filesystem::directory_iterator(models_dir())) {
    const std::string name = item.path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(".pt2")) files.push_back(item.path());
  }
  return files;
}

// Each file was written by the release of torch in its name.
TEST(ExportedProgram, ReadsTheLayoutsSinceTorch26) {
  const std::map<std::string, int> minors = {{"torch26_", 2}, {"torch27_", 7}, {"torch28_", 8}, {"torch213_", 20}};
  for (const auto& [prefix, minor] : minors) {
    EXPECT_GE(model_files(prefix).size(), 5u) << prefix;
    for (const auto& path : model_files(prefix)) {
      SCOPED_TRACE(path.filename().string());
      const OpenFile file = open(path);
      EXPECT_THAT(exported_program_names(file.zip), ::testing::ElementsAre("model"));
      const ExportedProgram program = read_exported_program(file.zip);
      EXPECT_EQ(program.schema_minor, minor);
      EXPECT_EQ(program.dialect, path.filename().string().find("core") == std::string::npos ? "TRAINING" : "ATEN");
      for (const ExportedInputSpec& spec : program.input_specs) {
        if (spec.kind != ExportedInputSpec::Kind::kParameter) continue;
        const ExportedPayload* payload = program.find_payload(spec.target);
        ASSERT_NE(payload, nullptr);
        EXPECT_TRUE(payload->is_parameter);
        EXPECT_TRUE(payload->meta.requires_grad);
        EXPECT_EQ(payload->tensor.storage.empty(), payload->tensor.numel() == 0);
      }
      EXPECT_TRUE(read_sample_inputs(file.zip, "model").has_value());
    }
  }
}

TEST(ExportedProgram, SharesStoragesInTheLayoutsOfPickles) {
  const auto entries = [](const std::string& name) {
    const ExportedProgram program = read(models_dir() / name);
    std::map<std::string, std::string> first;  // the payload that stands for each storage
    std::map<std::string, std::string> groups;
    for (const ExportedPayload& payload : program.payloads) {
      groups[payload.name] = first.try_emplace(payload.entry, payload.name).first->second;
    }
    return groups;
  };
  EXPECT_EQ(entries("torch26_tied.pt2"), entries("torch213_tied.pt2"));
  EXPECT_EQ(entries("torch28_tied.pt2"), entries("torch213_tied.pt2"));
}

// module_call_graph lists every module by its exact name, commas and all.
TEST(ExportedProgram, PathsOfModuleStacksAreModules) {
  std::size_t frames = 0;
  for (const auto& path : model_files("")) {
    SCOPED_TRACE(path.filename().string());
    // Quantisation exports what it prepared; torch25 is of a schema that is not read.
    if (path.filename().string().starts_with("quantized_") || path.filename().string().starts_with("torch25_"))
      continue;
    const OpenFile file = open(path);
    for (const std::string& model : exported_program_names(file.zip)) {
      const ExportedProgram program = read_exported_program(file.zip, {.model = model, .payloads = false});
      std::set<std::string> modules;
      for (const ExportedModuleCall& call : program.module_calls) modules.insert(call.fqn);
      for (const ExportedModuleStack& stack : program.module_stacks) {
        for (const ExportedModuleFrame& frame : stack) {
          ++frames;
          EXPECT_TRUE(modules.contains(frame.path)) << frame.key << " -> " << frame.path;
        }
      }
    }
  }
  EXPECT_GT(frames, 300u);
}

TEST(ExportedProgram, RefusesTheSchemaThatIsNotRead) {
  const auto path = shared_dir() / "zoo/neg_schema9.pt2";
  TL_NEEDS_SHARED(path);
  const Error error = error_of([&] { read(path); });
  EXPECT_EQ(error.code, ErrorCode::kUnsupportedVersion);
  EXPECT_THAT(error.message, HasSubstr("schema 9.20, schema 8 is read"));
  EXPECT_THAT(error.message, HasSubstr("2.13.0"));
}

TEST(ExportedProgram, RefusesFilesThatContradictThemselves) {
  TL_NEEDS_SHARED(shared_dir() / "cases/out/case62.pt2");
  struct Case {
    std::string file;
    ErrorCode code;
    std::string text;
  };
  const std::vector<Case> cases = {
      {"case42_badcrc.pt2", ErrorCode::kFileDamaged, "checksum"},
      {"case47_weights.pt2", ErrorCode::kFileHostile, "payload \"weight\""},
      {"case52.pt2", ErrorCode::kFileDamaged, "payload \"weight\": its tensor f32[1099511627776,1099511627776]"},
      {"case52_neg.pt2", ErrorCode::kFileDamaged, "size -3"},
      {"case52_stride.pt2", ErrorCode::kFileDamaged, "reaches beyond its entry"},
      {"case62.pt2", ErrorCode::kFileDamaged, "payload \"weight\": its entry \"case62_src/data/weights/weight_0\""},
      {"case62_config.pt2", ErrorCode::kFileDamaged, "parameter \"bias\""},
      {"case62_short.pt2", ErrorCode::kFileDamaged, "of 23 bytes"},
  };
  for (const Case& item : cases) {
    SCOPED_TRACE(item.file);
    const Error error = error_of([&] { read(shared_dir() / "cases/out" / item.file); });
    EXPECT_EQ(error.code, item.code) << error.message;
    EXPECT_THAT(error.message, HasSubstr(item.text));
    EXPECT_THAT(error.message, HasSubstr(item.file));
  }
}

TEST(ExportedProgram, KeepsWhatWeightsShare) {
  const auto path = shared_dir() / "zoo/shared_modules.pt2";
  TL_NEEDS_SHARED(path);
  const ExportedProgram program = read(path);
  const ExportedPayload* one = program.find_payload("emb.weight");
  const ExportedPayload* other = program.find_payload("out.weight");
  ASSERT_TRUE(one && other);
  EXPECT_EQ(one->entry, other->entry);
  EXPECT_EQ(one->tensor.storage.data(), other->tensor.storage.data());
  EXPECT_TRUE(one->is_parameter);
}

TEST(ExportedProgram, HasTheSampleInputs) {
  const auto path = shared_dir() / "zoo/repeated_calls.pt2";
  TL_NEEDS_SHARED(path);
  const auto file = open(path);
  const auto value = read_sample_inputs(file.zip, "model");
  ASSERT_TRUE(value && value->sequence());
  const PickleSequence* arguments = value->sequence()->items.at(0).sequence();
  ASSERT_EQ(arguments->items.size(), 1u);
  EXPECT_NE(arguments->items[0].tensor(), nullptr);
  EXPECT_TRUE(value->sequence()->items.at(1).dict()->items.empty());
}

TEST(ExportedProgram, GivesColumnsWhereTheFileHasThem) {
  const auto path = shared_dir() / "zoo/constants.strict.pt2";
  TL_NEEDS_SHARED(path);
  const ExportedProgram program = read(path);
  // `y = x @ self.table.t() * self.scalar`: the call of t() is characters 9 to 23.
  const ExportedNode& node = program.graph.nodes.at(0);
  const ExportedSourceFrame& frame = program.source_stacks.at(static_cast<std::size_t>(node.source)).back();
  EXPECT_EQ(frame.code, "y = x @ self.table.t() * self.scalar");
  EXPECT_EQ(frame.code.substr(frame.column - 1, 14), "self.table.t()");
  EXPECT_GT(frame.column_end, frame.column);
}

TEST(ExportedProgram, NamesConstantsAndSymbols) {
  const auto path = shared_dir() / "zoo/dyn_shape.dyn.pt2";
  TL_NEEDS_SHARED(path);
  const ExportedProgram program = read(path);
  EXPECT_THAT(program.guards, ::testing::Not(::testing::IsEmpty()));
  std::size_t symbols = 0;
  for (const ExportedGraphValue& value : program.graph.values) {
    if (value.kind != ExportedGraphValue::Kind::kSymInt) continue;
    ++symbols;
    EXPECT_FALSE(value.expression.empty()) << value.name;
    EXPECT_THAT(value.expression, ::testing::Not(HasSubstr("Symbol"))) << value.name;
  }
  EXPECT_GT(symbols, 3u);
}

}  // namespace
}  // namespace tl
