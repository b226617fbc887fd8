#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "ops/op_semantics.h"

namespace tl {
namespace {

using Names = std::set<std::string>;

/// Operators that one Python function does not stand for, by the layer types Python gives them (docs/ops.md, Names).
const std::map<std::string, Names> kManySpellings = {
    {"aten::slice", {"getitem", "setitem"}},
    {"aten::select", {"getitem", "setitem"}},
    {"aten::unsqueeze", {"getitem", "lstm"}},
    {"aten::copy_", {"setitem"}},
    {"aten::fill_", {"setitem"}},
    {"aten::tensor", {"setitem"}},
    {"aten::add_", {"iadd", "add"}},
    {"aten::div", {"truediv"}},
    {"aten::to", {"float"}},
    {"aten::_convolution", {"conv2d"}},
};

/// Operators of the file that work on host values or belong to a branch of nn.LSTM that was not taken.
const Names kNotOps = {"aten::size",   "aten::Int",          "aten::Bool",     "aten::dim",  "aten::floor_divide",
                       "aten::format", "aten::__contains__", "aten::__not__",  "aten::list", "aten::__getitem__",
                       "aten::len",    "aten::__is__",       "aten::floordiv", "aten::eq",   "aten::ne",
                       "aten::sqrt",   "aten::sub"};

Names layer_types_in_python(const nlohmann::json& model) {
  Names layer_types;
  for (const auto& variant : model.at("variants")) {
    for (const auto& op : variant.at("ops")) layer_types.insert(op.at("layer_type").get<std::string>());
  }
  return layer_types;
}

void expect_names_of_python(const std::string& operator_name, const Names& in_python, const std::string& where) {
  if (kNotOps.contains(operator_name) || operator_name.starts_with("prim::")) return;
  const auto spellings = kManySpellings.find(operator_name);
  if (spellings == kManySpellings.end()) {
    EXPECT_TRUE(in_python.contains(layer_type_of(func_name_of(operator_name)))) << where << ": " << operator_name;
    return;
  }
  bool found = false;
  for (const std::string& layer_type : spellings->second) found = found || in_python.contains(layer_type);
  EXPECT_TRUE(found) << where << ": " << operator_name;
}

TEST(ReferenceNames, LayerTypesAreThoseThatPythonRecorded) {
  const std::filesystem::path folder = std::filesystem::path(TL_SHARED_DIR) / "reference";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not there";
  int models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream file(entry.path());
    const nlohmann::json model = nlohmann::json::parse(file);
    if (!model.contains("variants") || !model.contains("artifacts")) continue;
    const Names in_python = layer_types_in_python(model);
    for (const char* artifact : {"script", "trace"}) {
      for (const auto& op : model.at("artifacts").at(artifact).at("ops")) {
        expect_names_of_python(op.get<std::string>(), in_python, entry.path().filename().string() + " " + artifact);
      }
    }
    ++models;
  }
  EXPECT_GE(models, 13);
}

}  // namespace
}  // namespace tl
