#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "archive/zip_directory.h"
#include "core/error.h"
#include "core/mapped_file.h"
#include "support/temp_directory.h"
#include "torch/recording.h"
#include "unit/archive/test_files.h"

// Exported programs whose nodes lie about the operators they call: refused while they are lowered, with a code and the
// node's name, and nothing of them runs.
namespace tl {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// `plain.pt2` (layer_norm, then add) with its JSON changed, loaded.
class EditedProgram {
 public:
  explicit EditedProgram(const std::function<void(json& graph)>& edit, const std::string& base = "plain") {
    const auto source = std::filesystem::path(TL_SOURCE_DIR) / "tests/models/exported" / (base + ".pt2");
    const auto mapped = MappedFile::open(source);
    const ZipDirectory zip(mapped->bytes(), source.filename().string(), mapped);
    std::vector<test::ZipPiece> pieces;
    for (const auto& entry : zip.entries()) {
      auto text = zip.read_text(entry);
      const std::string name(entry.name);
      if (name.ends_with("models/model.json")) {
        auto program = json::parse(text);
        edit(program["graph_module"]["graph"]);
        text = program.dump();
      }
      pieces.push_back(test::stored(name, std::move(text)));
    }
    path_ = directory_ / "edited.pt2";
    std::ofstream(path_, std::ios::binary) << test::make_zip(pieces);
  }

  /// What loading it says; nullopt if it loads.
  std::optional<Error> error() const {
    try {
      test::engine().load(test::model_request({path_, {}, {}}));
    } catch (const Error& error) {
      return error;
    }
    return std::nullopt;
  }

 private:
  TempDirectory directory_;
  std::filesystem::path path_;
};

json& node(json& graph, const std::string& name) {
  for (auto& node : graph["nodes"]) {
    if (node["name"] == name) return node;
  }
  ADD_FAILURE() << "no node " << name;
  return graph["nodes"][0];
}

json& argument(json& graph, const std::string& of, const std::string& name) {
  for (auto& input : node(graph, of)["inputs"]) {
    if (input["name"] == name) return input["arg"];
  }
  ADD_FAILURE() << "no argument " << name;
  return node(graph, of)["inputs"][0]["arg"];
}

json given(const std::string& name, json value) { return {{"name", name}, {"arg", std::move(value)}, {"kind", 1}}; }

json tensor(const std::string& name) { return {{"as_tensor", {{"name", name}}}}; }

void expect_refused(const std::function<void(json& graph)>& edit, ErrorCode code, const std::vector<std::string>& words,
                    const std::string& base = "plain") {
  const auto error = EditedProgram(edit, base).error();
  ASSERT_TRUE(error) << "was loaded; expected " << testing::PrintToString(words);
  EXPECT_EQ(to_string(error->code), to_string(code)) << error->message;
  for (const auto& word : words) EXPECT_THAT(error->message, HasSubstr(word));
  EXPECT_THAT(error->message, HasSubstr("edited.pt2"));
}

TEST(ExportedArguments, UneditedProgramLoads) {
  EXPECT_FALSE(EditedProgram([](json&) {}).error());
}

struct WrongKind {
  const char* node;
  const char* argument;
  json value;
};

// The wire type of an argument is not the one of its schema.
TEST(ExportedArguments, OfAnotherTypeAreRefused) {
  const std::vector<WrongKind> kinds = {
      {"layer_norm", "normalized_shape", tensor("x")},
      {"layer_norm", "normalized_shape", {{"as_floats", {3.0}}}},
      {"layer_norm", "normalized_shape", {{"as_strings", {"3"}}}},
      {"layer_norm", "normalized_shape", {{"as_none", true}}},
      {"layer_norm", "normalized_shape", {{"as_tensors", {{{"name", "x"}}}}}},
      {"layer_norm", "eps", tensor("x")},
      {"layer_norm", "eps", {{"as_string", "small"}}},
      {"layer_norm", "eps", {{"as_bool", true}}},
      {"layer_norm", "eps", {{"as_ints", {1}}}},
      {"layer_norm", "eps", {{"as_complex", {{"real", 1.0}, {"imag", 2.0}}}}},
      {"layer_norm", "cudnn_enable", tensor("x")},
      {"layer_norm", "cudnn_enable", {{"as_int", 1}}},
      {"layer_norm", "cudnn_enable", {{"as_none", true}}},
      {"layer_norm", "input", {{"as_string", "x"}}},
      {"layer_norm", "input", {{"as_none", true}}},
      {"layer_norm", "input", {{"as_ints", {1, 2}}}},
      {"layer_norm", "input", {{"as_tensors", {{{"name", "x"}}}}}},
      {"layer_norm", "weight", {{"as_device", {{"type", "cpu"}, {"index", nullptr}}}}},
      {"layer_norm", "weight", {{"as_scalar_type", 7}}},
  };
  for (const auto& kind : kinds) {
    SCOPED_TRACE(kind.argument + std::string(" = ") + kind.value.dump());
    expect_refused([&](json& graph) { argument(graph, kind.node, kind.argument) = kind.value; },
                   ErrorCode::kFileDamaged, {kind.node, std::string("'") + kind.argument + "'"});
  }
}

TEST(ExportedArguments, ThatTheSchemaDoesNotHaveAreRefusedWithBothVersions) {
  expect_refused(
      [](json& graph) {
        node(graph, "add")["inputs"].push_back(given("gamma", {{"as_int", 2}}));
      },
      ErrorCode::kUnsupportedProgram, {"add", "gamma", "aten::add.Tensor", "torch 2.13.0", "LibTorch 2.13.0"});
}

TEST(ExportedArguments, OverloadsThatDoNotExistAreRefusedWithBothVersions) {
  expect_refused([](json& graph) { node(graph, "add")["target"] = "torch.ops.aten.add.Tensors"; },
                 ErrorCode::kUnsupportedProgram, {"aten.add.Tensors", "torch 2.13.0", "LibTorch 2.13.0"});
}

TEST(ExportedArguments, WithoutADefaultMustBeThere) {
  expect_refused([](json& graph) { node(graph, "add")["inputs"].erase(1); }, ErrorCode::kFileDamaged,
                 {"add", "'other'"});
  expect_refused([](json& graph) { node(graph, "add")["inputs"] = json::array(); }, ErrorCode::kFileDamaged,
                 {"add", "'self'"});
}

TEST(ExportedArguments, GivenTwiceAreRefused) {
  expect_refused([](json& graph) { node(graph, "add")["inputs"].push_back(given("self", tensor("x"))); },
                 ErrorCode::kFileDamaged, {"add", "'self'", "twice"});
  // By position and by name.
  expect_refused(
      [](json& graph) {
        node(graph, "add")["inputs"] = {given("", tensor("x")), given("self", tensor("x")),
                                        given("other", tensor("x"))};
      },
      ErrorCode::kFileDamaged, {"add", "'self'", "twice"});
}

// By position there is no name to give.
TEST(ExportedArguments, MoreThanTheSchemaHasAreRefused) {
  expect_refused(
      [](json& graph) {
        auto& inputs = node(graph, "add")["inputs"];
        inputs = json::array();
        for (int i = 0; i < 5; ++i) inputs.push_back(given("", tensor("x")));
      },
      ErrorCode::kUnsupportedProgram, {"add", "argument 4", "aten::add.Tensor"});
}

TEST(ExportedOutputs, OfAnotherNumberAreRefused) {
  const auto more = [](json& graph, const char* of) {
    graph["tensor_values"]["extra"] = graph["tensor_values"]["add"];
    node(graph, of)["outputs"].push_back(tensor("extra"));
  };
  expect_refused([&](json& graph) { more(graph, "add"); }, ErrorCode::kFileDamaged, {"add", "2 outputs", "1"});
  expect_refused(
      [](json& graph) {
        node(graph, "add")["outputs"] = json::array();
        graph["outputs"] = json::array({tensor("layer_norm")});
      },
      ErrorCode::kFileDamaged, {});
}

TEST(ExportedOutputs, TensorCalledNumberIsRefused) {
  expect_refused(
      [](json& graph) {
        node(graph, "add")["outputs"] = json::array({{{"as_sym_int", {{"as_name", "add"}}}}});
        graph["sym_int_values"]["add"] = {{"as_expr", {{"expr_str", "s0"}, {"hint", nullptr}}}};
        graph["tensor_values"].erase("add");
        graph["outputs"] = json::array({tensor("layer_norm")});
      },
      ErrorCode::kFileDamaged, {});
}

TEST(ExportedOutputs, TensorCalledListIsRefused) {
  expect_refused(
      [](json& graph) {
        node(graph, "add")["outputs"] = json::array({{{"as_tensors", {{{"name", "add"}}}}}});
      },
      ErrorCode::kFileDamaged, {"add"});
}

TEST(ExportedOutputs, ListCalledTensorIsRefused) {
  expect_refused(
      [](json& graph) {
        auto& add = node(graph, "add");
        add["target"] = "torch.ops.aten.chunk.default";
        add["inputs"] = {given("self", tensor("x")), given("chunks", {{"as_int", 2}})};
      },
      ErrorCode::kFileDamaged, {"add"});
}

TEST(ExportedOutputs, NumberCalledTensorIsRefused) {
  expect_refused(
      [](json& graph) {
        auto& add = node(graph, "add");
        add["target"] = "torch.ops.aten.sym_size.int";
        add["inputs"] = {given("self", tensor("x")), given("dim", {{"as_int", 0}})};
      },
      ErrorCode::kFileDamaged, {"add"});
}

TEST(ExportedOperators, OfPythonYieldNumbers) {
  expect_refused(
      [](json& graph) {
        auto& add = node(graph, "add");
        add["target"] = "_operator.mul";
        add["inputs"] = {given("", {{"as_int", 2}}), given("", {{"as_int", 3}})};
      },
      ErrorCode::kFileDamaged, {"add"});
  expect_refused(
      [](json& graph) {
        auto& add = node(graph, "add");
        add["target"] = "_operator.mul";
        add["inputs"] = {given("", {{"as_int", 2}})};
      },
      ErrorCode::kFileDamaged, {"add", "1 argument"});
}

TEST(ExportedOperators, ThatNobodyKnowsAreRefusedByName) {
  for (const auto* target : {"_operator.concat", "builtins.open", "torch.sym_unknown", "os.system"}) {
    SCOPED_TRACE(target);
    expect_refused([&](json& graph) { node(graph, "add")["target"] = target; }, ErrorCode::kUnsupportedProgram,
                   {target});
  }
  expect_refused([](json& graph) { node(graph, "add")["target"] = "torch.ops.other.add.default"; },
                 ErrorCode::kMissingOperators, {"other::add"});
}

TEST(ExportedOperators, HigherOrderOnesThatAreNotRunAreRefusedByName) {
  for (const auto* name : {"flex_attention", "triton_kernel_wrapper_functional", "made_up"}) {
    expect_refused([&](json& graph) { node(graph, "add")["target"] = std::string("torch.ops.higher_order.") + name; },
                   ErrorCode::kUnsupportedProgram, {name, "higher-order"});
  }
}

TEST(ExportedOperators, HigherOrderOnesWithoutTheirGraphsAreRefused) {
  for (const auto* name : {"cond", "while_loop", "map_impl", "scan", "associative_scan", "wrap_with_set_grad_enabled",
                           "wrap_with_autocast", "auto_functionalized", "auto_functionalized_v2", "invoke_subgraph",
                           "wrap", "with_effects", "call_torchbind"}) {
    SCOPED_TRACE(name);
    const auto edit = [&](json& graph) {
      node(graph, "add")["target"] = std::string("torch.ops.higher_order.") + name;
    };
    const auto none = [&](json& graph) {
      edit(graph);
      node(graph, "add")["inputs"] = json::array();
    };
    for (const auto& change : {std::function<void(json&)>(edit), std::function<void(json&)>(none)}) {
      const auto error = EditedProgram(change).error();
      ASSERT_TRUE(error) << "was loaded";
      EXPECT_THAT(error->message, HasSubstr("add"));
      EXPECT_TRUE(error->code == ErrorCode::kFileDamaged || error->code == ErrorCode::kUnsupportedProgram)
          << to_string(error->code);
    }
  }
}

TEST(ExportedOperators, UnsafeOnesAreRefusedByName) {
  expect_refused(
      [](json& graph) {
        auto& add = node(graph, "add");
        add["target"] = "torch.ops.aten.from_file.default";
        add["inputs"] = {given("filename", {{"as_string", "/etc/passwd"}})};
      },
      ErrorCode::kUnsafeOperator, {"aten::from_file"});
}

// The program writes 2.5, 1, True, 0.001 and 1j where the schema takes a tensor (models/exported/make_values.py,
// Kinds).
TEST(ExportedArguments, NumbersInThePlaceOfTensorsAreRecordedAsNumbers) {
  const auto files = test::runnable_exported_files();
  const auto file = std::ranges::find_if(files, [](const auto& each) { return each.model.stem() == "kinds"; });
  ASSERT_NE(file, files.end());
  const auto trace = test::record_file(*file, 0);
  std::map<std::string_view, std::string_view> arguments;  // by the name of the node
  const auto& instructions = trace.instructions;
  for (std::size_t row = 0; row < instructions.op_name.size(); ++row) {
    arguments.emplace(trace.strings[instructions.value_names[row]], trace.strings[instructions.arg_template[row]]);
  }
  EXPECT_EQ(arguments["mul"], "self=%0, other=2.5");
  EXPECT_EQ(arguments["add"], "self=%0, other=1, alpha=1");
  EXPECT_EQ(arguments["mul_1"], "self=%0, other=True");
  EXPECT_EQ(arguments["mul_2"], "self=%0, other=0.001");
  EXPECT_EQ(arguments["add_1"], "self=%0, other=0.0+1.0j, alpha=1");
}

// --- graphs of higher-order operators: cond(x.sum() > 0 …) of torch213_cond

TEST(ExportedGraphs, WithAnotherNumberOfOperandsAreRefused) {
  expect_refused(
      [](json& graph) {
        for (auto& node : graph["nodes"]) {
          if (node["target"] == "torch.ops.higher_order.cond")
            node["inputs"][3]["arg"] = {{"as_tensors", json::array()}};
        }
      },
      ErrorCode::kFileDamaged, {"cond", "0 values"}, "torch213_cond");
}

TEST(ExportedGraphs, ThatReturnAnotherNumberOfValuesAreRefused) {
  expect_refused(
      [](json& graph) {
        for (auto& node : graph["nodes"]) {
          if (node["target"] != "torch.ops.higher_order.cond") continue;
          auto& outputs = node["inputs"][1]["arg"]["as_graph"]["graph"]["outputs"];
          outputs.push_back(outputs[0]);
        }
      },
      ErrorCode::kFileDamaged, {"cond", "branch"}, "torch213_cond");
}

}  // namespace
}  // namespace tl
