#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "archive/exported_program_reader.h"
#include "archive/limits.h"
#include "test_files.h"

namespace tl {
namespace {

using nlohmann::json;
using test::error_of;
using ::testing::HasSubstr;

json tensor(const std::string& name) { return {{"as_tensor", {{"name", name}}}}; }

json meta() {
  return json::parse(R"({"dtype": 7, "sizes": [{"as_int": 2}, {"as_int": 3}], "requires_grad": false,
    "device": {"type": "cpu", "index": null}, "strides": [{"as_int": 3}, {"as_int": 1}],
    "storage_offset": {"as_int": 0}, "layout": 7})");
}

/// relu(x * p_w), in the form of torch/_export/serde/schema.py 8.20.
json program() {
  json result = json::parse(R"({"graph_module": {"graph": {"sym_int_values": {}, "sym_bool_values": {}},
      "module_call_graph": [{"fqn": "", "signature": {
        "in_spec": "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}]}, {\"type\": \"builtins.dict\", \"context\": \"[]\", \"children_spec\": []}]}]",
        "out_spec": "[1, {\"type\": null, \"context\": null, \"children_spec\": []}]"}}]},
    "opset_version": {"aten": 10}, "range_constraints": {}, "schema_version": {"major": 8, "minor": 20},
    "verifiers": ["TRAINING"], "torch_version": "2.13.0", "guards_code": []})");
  json& graph = result["graph_module"]["graph"];
  graph["inputs"] = {tensor("p_w"), tensor("x")};
  graph["outputs"] = {tensor("relu")};
  graph["nodes"] = {{{"target", "torch.ops.aten.mul.Tensor"},
                     {"name", "mul"},
                     {"inputs",
                      {{{"name", "self"}, {"arg", tensor("x")}, {"kind", 1}},
                       {{"name", "other"}, {"arg", tensor("p_w")}, {"kind", 1}}}},
                     {"outputs", {tensor("mul")}},
                     {"metadata", {{"nn_module_stack", "L__self__,,M"}}}},
                    {{"target", "torch.ops.aten.relu.default"},
                     {"name", "relu"},
                     {"inputs", {{{"name", "self"}, {"arg", tensor("mul")}, {"kind", 1}}}},
                     {"outputs", {tensor("relu")}},
                     {"metadata", json::object()}}};
  for (const char* name : {"p_w", "x", "mul", "relu"}) graph["tensor_values"][name] = meta();
  json& module = result["graph_module"];
  module["signature"]["input_specs"] = {{{"parameter", {{"arg", {{"name", "p_w"}}}, {"parameter_name", "w"}}}},
                                        {{"user_input", {{"arg", tensor("x")}}}}};
  module["signature"]["output_specs"] = json::array({{{"user_output", {{"arg", tensor("relu")}}}}});
  module["module_call_graph"][0]["signature"]["inputs"] = json::array({tensor("x")});
  module["module_call_graph"][0]["signature"]["outputs"] = json::array({tensor("relu")});
  return result;
}

struct Hostile {
  std::string name;
  std::function<void(json&)> change;
  ErrorCode code = ErrorCode::kFileDamaged;
  std::string text;
};

json& graph_of(json& root) { return root["graph_module"]["graph"]; }
json& node_of(json& root, int index) { return graph_of(root)["nodes"][index]; }
json& argument_of(json& root) { return node_of(root, 1)["inputs"][0]["arg"]; }
json& specs_of(json& root) { return root["graph_module"]["signature"]["input_specs"]; }
json& output_specs_of(json& root) { return root["graph_module"]["signature"]["output_specs"]; }

/// The path of a module one deeper than there may be.
std::string deep_path() {
  std::string path = "a";
  for (std::size_t i = 0; i < limits::kModulePathParts; ++i) path += ".a";
  return path;
}

/// relu's argument as a graph in a graph … `depth` deep.
json nested_graph(int depth) {
  json graph = {{"inputs", json::array()},          {"outputs", json::array()},
                {"nodes", json::array()},           {"tensor_values", json::object()},
                {"sym_int_values", json::object()}, {"sym_bool_values", json::object()}};
  if (depth > 1) {
    graph["nodes"] = json::array({{{"target", "torch.ops.higher_order.cond"},
                                   {"inputs", json::array({{{"name", ""}, {"arg", nested_graph(depth - 1)}}})},
                                   {"outputs", json::array()},
                                   {"metadata", json::object()}}});
  }
  return {{"as_graph", {{"name", "body"}, {"graph", graph}}}};
}

std::vector<Hostile> value_cases() {
  return {
      {"unknown value", [](json& r) { argument_of(r) = tensor("ghost"); }, ErrorCode::kFileDamaged,
       "node 1 \"relu\": argument \"self\": value \"ghost\" is not defined"},
      {"forward reference", [](json& r) { node_of(r, 0)["inputs"][0]["arg"] = tensor("relu"); },
       ErrorCode::kFileDamaged, "node 0 \"mul\": argument \"self\": value \"relu\" is used before it is defined"},
      {"reference to itself", [](json& r) { argument_of(r) = tensor("relu"); }, ErrorCode::kFileDamaged,
       "value \"relu\" is used before it is defined"},
      {"defined twice", [](json& r) { node_of(r, 1)["outputs"][0] = tensor("mul"); }, ErrorCode::kFileDamaged,
       "node 1 \"relu\": node outputs: value \"mul\" is defined twice"},
      {"input defined twice", [](json& r) { graph_of(r)["inputs"][1] = tensor("p_w"); }, ErrorCode::kFileDamaged,
       "graph inputs: value \"p_w\" is defined twice"},
      {"output redefines an input", [](json& r) { node_of(r, 0)["outputs"][0] = tensor("x"); }, ErrorCode::kFileDamaged,
       "value \"x\" is defined twice"},
      {"value without a name", [](json& r) { node_of(r, 0)["outputs"][0] = tensor(""); }, ErrorCode::kFileDamaged,
       "a value without a name"},
      {"unknown graph output", [](json& r) { graph_of(r)["outputs"][0] = tensor("ghost"); }, ErrorCode::kFileDamaged,
       "graph outputs: value \"ghost\" is not defined"},
      {"SymInt that is a tensor",
       [](json& r) {
         argument_of(r) = {{"as_sym_int", {{"as_name", "mul"}}}};
       },
       ErrorCode::kFileDamaged, "value \"mul\" is used as a SymInt and is a tensor"},
      {"name of the outer graph in an inner one",
       [](json& r) {
         json inner = nested_graph(1);
         inner["as_graph"]["graph"]["outputs"] = json::array({tensor("x")});
         argument_of(r) = inner;
       },
       ErrorCode::kFileDamaged, "graph \"body\": graph outputs: value \"x\" is not defined"},
      {"number among outputs",
       [](json& r) {
         node_of(r, 1)["outputs"][0] = {{"as_int", 3}};
       },
       ErrorCode::kUnsupportedProgram, "an output of kind \"as_int\""},
  };
}

std::vector<Hostile> argument_cases() {
  return {
      {"two kinds", [](json& r) { argument_of(r)["as_int"] = 1; }, ErrorCode::kFileDamaged, "has 2 kinds"},
      {"no kind", [](json& r) { argument_of(r) = json::object(); }, ErrorCode::kFileDamaged, "has 0 kinds"},
      {"unknown kind",
       [](json& r) {
         argument_of(r) = {{"as_banana", 1}};
       },
       ErrorCode::kUnsupportedProgram, "unknown kind \"as_banana\""},
      {"string for a number",
       [](json& r) {
         argument_of(r) = {{"as_int", "3"}};
       },
       ErrorCode::kFileDamaged, "argument \"self\": as_int is a string"},
      {"bool for a number",
       [](json& r) {
         argument_of(r) = {{"as_int", true}};
       },
       ErrorCode::kFileDamaged, "as_int is a bool"},
      {"number beyond int64",
       [](json& r) {
         argument_of(r) = {{"as_int", 9223372036854775808u}};
       },
       ErrorCode::kFileDamaged, "an integer beyond 64 bits"},
      {"number for a list",
       [](json& r) {
         argument_of(r) = {{"as_ints", 3}};
       },
       ErrorCode::kFileDamaged, "as_ints is an integer, not a list"},
      {"string that is no float",
       [](json& r) {
         argument_of(r) = {{"as_float", "inf"}};
       },
       ErrorCode::kFileDamaged, "as_float is a string"},
      {"unknown dtype",
       [](json& r) {
         argument_of(r) = {{"as_scalar_type", 99}};
       },
       ErrorCode::kUnsupportedProgram, "unknown dtype number 99"},
      {"unknown layout",
       [](json& r) {
         argument_of(r) = {{"as_layout", 8}};
       },
       ErrorCode::kUnsupportedProgram, "unknown layout number 8"},
      {"unknown memory format",
       [](json& r) {
         argument_of(r) = {{"as_memory_format", 0}};
       },
       ErrorCode::kUnsupportedProgram, "unknown memory format number 0"},
      {"graph among outputs", [](json& r) { graph_of(r)["inputs"][0] = nested_graph(1); }, ErrorCode::kFileDamaged,
       "a graph where a value is expected"},
      {"deep graphs", [](json& r) { argument_of(r) = nested_graph(static_cast<int>(limits::kProgramGraphDepth)); },
       ErrorCode::kFileLimits, "nested deeper than"},
      {"deep modules in a stack",
       [](json& r) { node_of(r, 0)["metadata"]["nn_module_stack"] = "L__self__,,M;k," + deep_path() + ",C"; },
       ErrorCode::kFileLimits, "the path of a module has 257 names, the limit is 256"},
      {"deep modules among the calls",
       [](json& r) {
         r["graph_module"]["module_call_graph"].push_back({{"fqn", deep_path()}, {"signature", nullptr}});
       },
       ErrorCode::kFileLimits, "the path of a module has 257 names"},
      {"very deep lists",
       [](json& r) {
         json deep = json::array();
         for (int i = 0; i < 2'000; ++i) deep = json::array({deep});
         argument_of(r) = {{"as_tensors", deep}};
       },
       ErrorCode::kFileLimits, "is nested deeper than"},
      {"deep dicts",
       [](json& r) {
         json deep = {{"as_int", 1}};
         for (int i = 0; i < 1'000; ++i) deep = {{"as_string_to_argument", {{"k", deep}}}};
         argument_of(r) = deep;
       },
       ErrorCode::kFileLimits, "is nested deeper than"},
  };
}

std::vector<Hostile> meta_cases() {
  const auto change = [](const std::string& key, const json& value) {
    return [key, value](json& r) { graph_of(r)["tensor_values"]["x"][key] = value; };
  };
  json rank = json::array();
  for (int i = 0; i < 65; ++i) rank.push_back({{"as_int", 1}});
  return {
      {"negative size", change("sizes", json::array({{{"as_int", -1}}, {{"as_int", 1}}})), ErrorCode::kFileDamaged,
       "value \"x\": a tensor with the size -1"},
      {"fewer strides", change("strides", json::array()), ErrorCode::kFileDamaged, "2 sizes and 0 strides"},
      {"huge rank", change("sizes", rank), ErrorCode::kFileLimits, "65 dimensions"},
      {"no size", change("sizes", json::array({json::object(), {{"as_int", 1}}})), ErrorCode::kFileDamaged,
       "has 0 kinds"},
      {"unknown dtype", change("dtype", 14), ErrorCode::kUnsupportedProgram, "unknown dtype number 14"},
      {"dtype as text", change("dtype", "FLOAT"), ErrorCode::kFileDamaged, "dtype is a string"},
      {"no layout", [](json& r) { graph_of(r)["tensor_values"]["x"].erase("layout"); }, ErrorCode::kFileDamaged,
       "has no \"layout\""},
  };
}

std::vector<Hostile> signature_cases() {
  return {
      {"fewer input specs", [](json& r) { specs_of(r).erase(1); }, ErrorCode::kFileDamaged,
       "the signature has 1 inputs, the graph has 2"},
      {"more output specs", [](json& r) { output_specs_of(r).push_back(output_specs_of(r)[0]); },
       ErrorCode::kFileDamaged, "the signature has 2 outputs, the graph has 1"},
      {"swapped inputs", [](json& r) { std::swap(specs_of(r)[0], specs_of(r)[1]); }, ErrorCode::kFileDamaged,
       "input 0 is value \"x\", the graph's is value \"p_w\""},
      {"another output",
       [](json& r) {
         output_specs_of(r)[0] = {{"user_output", {{"arg", tensor("mul")}}}};
       },
       ErrorCode::kFileDamaged, "output 0 is value \"mul\", the graph's is value \"relu\""},
      {"constant for a tensor",
       [](json& r) {
         specs_of(r)[1] = {{"constant_input", {{"name", "x"}, {"value", {{"as_int", 1}}}}}};
       },
       ErrorCode::kFileDamaged, "input 1 is a constant, the graph's is value \"x\""},
      {"another constant",
       [](json& r) {
         graph_of(r)["inputs"].push_back({{"as_int", 3}});
         specs_of(r).push_back({{"constant_input", {{"name", "n"}, {"value", {{"as_int", 4}}}}}});
       },
       ErrorCode::kFileDamaged, "input 2 is a constant, the graph's is a constant"},
      {"unknown spec",
       [](json& r) {
         specs_of(r)[0] = {{"banana", json::object()}};
       },
       ErrorCode::kUnsupportedProgram, "unknown kind \"banana\""},
      {"mutation of no buffer",
       [](json& r) {
         output_specs_of(r)[0] = {{"buffer_mutation", {{"arg", {{"name", "relu"}}}, {"buffer_name", "w"}}}};
       },
       ErrorCode::kFileDamaged, "written back to \"w\", which is no such input"},
      {"mutation of no user input",
       [](json& r) {
         output_specs_of(r)[0] = {{"user_input_mutation", {{"arg", {{"name", "relu"}}}, {"user_input_name", "mul"}}}};
       },
       ErrorCode::kFileDamaged, "written back to \"mul\""},
      {"more leaves than inputs",
       [](json& r) {
         json& spec = r["graph_module"]["module_call_graph"][0]["signature"]["in_spec"];
         spec = "[1, {\"type\": null, \"context\": null, \"children_spec\": []}]";
         r["graph_module"]["module_call_graph"][0]["signature"]["out_spec"] =
             "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": []}]";
       },
       ErrorCode::kFileDamaged, "outputs have 0 leaves, the graph has 1"},
  };
}

std::vector<Hostile> top_cases() {
  return {
      {"schema 7",
       [](json& r) {
         r["schema_version"] = {{"major", 7}, {"minor", 3}};
       },
       ErrorCode::kUnsupportedVersion, "schema 7.3, schema 8 is read; it was written by torch 2.13.0"},
      {"schema 1 as a number", [](json& r) { r["schema_version"] = 1; }, ErrorCode::kUnsupportedVersion, "schema 1.0"},
      {"negative schema", [](json& r) { r["schema_version"]["major"] = -8; }, ErrorCode::kFileDamaged,
       "schema major is -8"},
      {"no graph", [](json& r) { r["graph_module"].erase("graph"); }, ErrorCode::kFileDamaged, "has no \"graph\""},
      {"no nodes", [](json& r) { graph_of(r).erase("nodes"); }, ErrorCode::kFileDamaged, "has no \"nodes\""},
      {"graph as a list", [](json& r) { r["graph_module"]["graph"] = json::array(); }, ErrorCode::kFileDamaged,
       "is a list, not an object"},
      {"range beyond int64",
       [](json& r) {
         r["range_constraints"]["s0"] = {{"min_val", 2}, {"max_val", 1e30}};
       },
       ErrorCode::kFileDamaged, "max_val is a number"},
      {"metadata of numbers", [](json& r) { node_of(r, 0)["metadata"]["x"] = 3; }, ErrorCode::kFileDamaged,
       "x is an integer, not a string"},
      {"a list for a program", [](json& r) { r = json::array(); }, ErrorCode::kFileDamaged, "the program is a list"},
  };
}

void expect_refused(const std::vector<Hostile>& cases) {
  for (const Hostile& item : cases) {
    SCOPED_TRACE(item.name);
    json changed = program();
    item.change(changed);
    const std::string text = changed.dump();
    const Error error = error_of([&] { parse_exported_program(text, "m.pt2"); });
    EXPECT_EQ(error.code, item.code) << error.message;
    EXPECT_THAT(error.message, HasSubstr(item.text));
    EXPECT_THAT(error.message, HasSubstr("m.pt2"));
  }
}

TEST(ExportedHostile, TheProgramItselfIsFine) {
  const ExportedProgram read = parse_exported_program(program().dump(), "m.pt2");
  EXPECT_EQ(read.graph.nodes.size(), 2u);
  EXPECT_EQ(read.graph.metas.size(), 1u) << "equal descriptions are kept once";
  EXPECT_EQ(read.graph.values.at(2).producer, 0);
  EXPECT_EQ(read.input_specs.at(0).target, "w");
}

TEST(ExportedHostile, Values) { expect_refused(value_cases()); }
TEST(ExportedHostile, Arguments) { expect_refused(argument_cases()); }
TEST(ExportedHostile, Descriptions) { expect_refused(meta_cases()); }
TEST(ExportedHostile, Signatures) { expect_refused(signature_cases()); }
TEST(ExportedHostile, Frame) { expect_refused(top_cases()); }

TEST(ExportedHostile, TextThatIsNoProgram) {
  EXPECT_EQ(error_of([] { parse_exported_program("", "m"); }).code, ErrorCode::kFileDamaged);
  EXPECT_EQ(error_of([] { parse_exported_program("{\"a\":1", "m"); }).code, ErrorCode::kFileDamaged);
  EXPECT_EQ(error_of([] { parse_exported_program("{\"a\":1,\"a\":1}", "m"); }).code, ErrorCode::kFileHostile);
  const std::string deep(100'000, '[');
  EXPECT_EQ(error_of([&] { parse_exported_program(deep, "m"); }).code, ErrorCode::kFileLimits);
}

TEST(ExportedHostile, EveryPrefixAndEveryChangedByteEndsInAnError) {
  const std::string text = program().dump();
  for (std::size_t size = 0; size < text.size(); size += 7) {
    EXPECT_THROW(parse_exported_program(std::string_view(text).substr(0, size), "m"), Error) << size;
  }
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 0x15);
    try {
      parse_exported_program(changed, "m");  // some bytes are free: names, versions
    } catch (const Error& error) {
      EXPECT_NE(error.code, ErrorCode::kInternal) << at << ": " << error.message;
    }
  }
}

TEST(ExportedHostile, NumbersAreWhatPythonWrites) {
  json changed = program();
  argument_of(changed) = {{"as_floats", {1, 1.5, "Infinity", "-Infinity", "NaN"}}};
  const ExportedProgram read = parse_exported_program(changed.dump(), "m");
  const ExportedList* list = read.graph.nodes[1].inputs[0].argument.list();
  ASSERT_NE(list, nullptr);
  const auto at = [&](std::size_t i) { return std::get<double>(list->items.at(i).data); };
  EXPECT_EQ(at(0), 1.0);
  EXPECT_EQ(at(2), std::numeric_limits<double>::infinity());
  EXPECT_EQ(at(3), -std::numeric_limits<double>::infinity());
  EXPECT_NE(at(4), at(4));
}

}  // namespace
}  // namespace tl
