#pragma once

#include <algorithm>
#include <array>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "torch/zoo_files.h"

namespace tl::test {

/// A model of tests/torch/data, written by make_models.py there.
inline ZooFile small_file(const std::string& name, const std::string& inputs = "small") {
  const auto folder = std::filesystem::path(TL_SOURCE_DIR) / "tests/torch/data";
  return {folder / (name + ".ts.pt"), folder / (inputs + ".inputs.safetensors")};
}

/// Those of them that run to the end with the default input.
inline std::vector<ZooFile> small_files() {
  constexpr std::array kNames = {"small_with_block", "small_fork_wait",     "small_list_ops",  "small_nested_lists",
                                 "small_dict_ops",   "small_while_loop",    "small_interface", "small_nested_calls",
                                 "small_hooks",      "small_mode",          "small_random",    "small_multi_method",
                                 "small_defaults",   "small_views",         "small_outputs",   "small_jit_only",
                                 "small_objects",    "small_other_layouts", "small_writes"};
  std::vector<ZooFile> files;
  for (const auto* name : kNames) files.push_back(small_file(name));
  return files;
}

/// The files that are compared call by call with LibTorch's interpreter, its optimiser switched off. Autocast is a pass
/// of that optimiser: it is compared on outputs only.
inline std::vector<ZooFile> oracle_files() {
  auto files = runnable_files();
  std::erase_if(files, [](const auto& file) { return file.name() == "autocast.ts.pt"; });
  const auto small = small_files();
  files.insert(files.end(), small.begin(), small.end());
  return files;
}

/// The name of a parameterised case.
inline std::string case_name(const ZooFile& file) {
  auto name = file.name() + (file.program.empty() ? "" : "_" + file.program);
  std::ranges::replace_if(
      name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  const auto folder = file.model.parent_path().filename();
  return name + (folder == "artifacts" ? "_reference" : (folder == "exported" ? "_fixture" : ""));
}

}  // namespace tl::test
