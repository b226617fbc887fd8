#include "torch/zoo_files.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/bind_inputs.h"
#include "engine/input_files.h"

namespace tl::test {
namespace {

namespace fs = std::filesystem;

const fs::path kShared = TL_SHARED_DIR;

/// NAME.inputs.* for NAME.variant.pt2, the longest NAME there is.
fs::path inputs_of(const fs::path& model) {
  const bool artifact = model.parent_path().filename() == "artifacts";
  const auto folder = artifact ? fs::path(TL_SOURCE_DIR) / "tests/torch/data" : model.parent_path();
  auto name = model.filename().string();
  for (auto dot = name.rfind('.'); dot != std::string::npos; dot = name.rfind('.')) {
    name.resize(dot);
    for (const auto* suffix : {".inputs.pt", ".inputs.safetensors"}) {
      if (fs::exists(folder / (name + suffix))) return folder / (name + suffix);
    }
  }
  return {};
}

void collect(const fs::path& folder, const std::vector<std::string>& suffixes, std::vector<ZooFile>& files) {
  if (!fs::is_directory(folder)) return;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    if (std::ranges::any_of(suffixes, [&](const auto& suffix) { return name.ends_with(suffix); })) {
      files.push_back({entry.path(), inputs_of(entry.path())});
    }
  }
}

void leave_out_refused(std::vector<ZooFile>& files) {
  const auto refusals = expected_refusals();
  std::erase_if(files, [&](const ZooFile& file) {
    return std::ranges::any_of(refusals, [&](const auto& refusal) { return refusal.file() == file.name(); });
  });
  std::ranges::sort(files, {}, [](const auto& file) { return std::pair(file.name(), file.program); });
}

const fs::path kFixtures = fs::path(TL_SOURCE_DIR) / "tests/models/exported";

/// Fixtures that are made to be refused, and what the message names.
std::vector<Refusal> refused_fixtures() {
  std::vector<Refusal> refusals = {
      {kFixtures / "subclass.pt2", 4, "unsupported_program", {"weight"}},
      {kFixtures / "aoti.pt2", 4, "unsupported_kind", {"AOTInductor"}},
      {kFixtures / "torch25_conv.pt2", 4, "unsupported_version", {"7.3"}},
      {kFixtures / "several.pt2", 2, "usage", {"decoder", "encoder", "heads/second"}},
  };
  std::erase_if(refusals, [](const auto& refusal) { return !fs::exists(refusal.path); });
  return refusals;
}

/// The programs of a fixture that holds several: NAME.PROGRAM.inputs.safetensors says which.
void add_programs(const std::string& name, std::vector<ZooFile>& files) {
  if (!fs::exists(kFixtures / (name + ".pt2"))) return;
  const std::string suffix = ".inputs.safetensors";
  for (const auto& entry : fs::directory_iterator(kFixtures)) {
    const auto inputs = entry.path().filename().string();
    if (!inputs.starts_with(name + ".") || !inputs.ends_with(suffix)) continue;
    const auto begin = name.size() + 1;
    if (inputs.size() <= begin + suffix.size()) continue;
    files.push_back(
        {kFixtures / (name + ".pt2"), entry.path(), inputs.substr(begin, inputs.size() - suffix.size() - begin)});
  }
}

/// Leaves in the order of a pytree.
void leaves_of(InputValue& value, std::vector<InputValue*>& leaves) {
  if (auto* list = std::get_if<InputValue::List>(&value.data)) {
    for (auto& element : *list) leaves_of(element, leaves);
  } else if (auto* tuple = std::get_if<InputValue::Tuple>(&value.data)) {
    for (auto& element : tuple->elements) leaves_of(element, leaves);
  } else if (auto* dict = std::get_if<InputValue::Dict>(&value.data)) {
    for (auto& item : *dict) leaves_of(item.second, leaves);
  } else {
    leaves.push_back(&value);
  }
}

}  // namespace

fs::path ZooFile::outputs() const {
  auto stem = program.empty() ? name() : model.stem().string() + "." + program;
  for (;;) {
    const auto path = model.parent_path() / (stem + ".outputs.safetensors");
    if (fs::exists(path)) return path;
    const auto dot = stem.rfind('.');
    if (dot == std::string::npos) return {};
    stem.resize(dot);
  }
}

std::vector<Refusal> expected_refusals() {
  auto refusals = refused_fixtures();
  std::ifstream file(kShared / "zoo/expected_refusals.json");
  if (!file) return refusals;
  const auto json = nlohmann::json::parse(file);
  for (const auto& [name, row] : json.items()) {
    if (row.contains("until")) continue;  // was a limit of an engine without quantized_decomposed::*
    Refusal refusal{kShared / "zoo" / name, row.at("exit").get<int>(), row.value("code", ""), {}};
    if (row.contains("names")) refusal.names = row.at("names").get<std::vector<std::string>>();
    refusals.push_back(refusal);
  }
  return refusals;
}

std::vector<ZooFile> runnable_files() {
  std::vector<ZooFile> files;
  collect(kShared / "zoo", {".ts.pt", ".trace.pt"}, files);
  collect(kShared / "reference/artifacts", {".script.pt", ".trace.pt"}, files);
  leave_out_refused(files);
  return files;
}

std::vector<ZooFile> runnable_exported_files() {
  std::vector<ZooFile> files;
  collect(kShared / "zoo", {".pt2"}, files);
  collect(kShared / "reference/artifacts", {".export.pt2"}, files);
  collect(kFixtures, {".pt2"}, files);
  leave_out_refused(files);
  add_programs("several", files);
  return files;
}

std::vector<ZooFile> all_runnable_files() {
  auto files = runnable_files();
  const auto exported = runnable_exported_files();
  files.insert(files.end(), exported.begin(), exported.end());
  return files;
}

ModelRequest model_request(const ZooFile& file) {
  ModelRequest request;
  request.path = file.model.string();
  request.model = file.program;
  request.threads = 1;
  return request;
}

RunRequest request_for(const ZooFile& file, const Signature& signature, std::int64_t seed) {
  std::vector<GivenSet> given;
  if (!file.inputs.empty()) given.push_back(read_input_file(file.inputs));
  auto bound = bind_inputs(signature, given);
  RunRequest request;
  request.arguments = std::move(bound.arguments);
  request.given = std::move(bound.given);
  request.seed = seed;
  return request;
}

RunRequest request_for(const ZooFile& file, const ModelInfo& info, std::int64_t seed) {
  if (info.stored_arguments.empty()) return request_for(file, info.signature, seed);
  RunRequest request;
  request.arguments = info.stored_arguments;
  request.given.assign(request.arguments.size(), true);
  request.seed = seed;
  if (file.inputs.empty()) return request;
  std::vector<InputValue*> leaves;
  for (auto& argument : request.arguments) leaves_of(argument, leaves);
  for (auto& entry : read_input_file(file.inputs).entries) {
    const bool numbered = entry.name.starts_with("in.");
    const auto number = numbered ? std::stoul(entry.name.substr(3)) : leaves.size();
    if (number >= leaves.size()) return request_for(file, info.signature, seed);
    *leaves[number] = std::move(entry.value);
  }
  return request;
}

}  // namespace tl::test
