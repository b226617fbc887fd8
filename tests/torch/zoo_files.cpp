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

fs::path inputs_of(const fs::path& model) {
  const auto base = model.filename().string().substr(0, model.filename().string().find('.'));
  const auto recorded = fs::path(TL_SOURCE_DIR) / "tests/torch/data" / (base + ".inputs.safetensors");
  if (model.parent_path().filename() == "artifacts" && fs::exists(recorded)) return recorded;
  for (const auto* suffix : {".inputs.pt", ".inputs.safetensors"}) {
    const auto candidate = model.parent_path() / (base + suffix);
    if (fs::exists(candidate)) return candidate;
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

}  // namespace

std::vector<Refusal> expected_refusals() {
  std::vector<Refusal> refusals;
  std::ifstream file(kShared / "zoo/expected_refusals.json");
  if (!file) return refusals;
  const auto json = nlohmann::json::parse(file);
  for (const auto& [name, row] : json.items()) {
    if (!name.ends_with(".pt")) continue;
    Refusal refusal{name, row.at("exit").get<int>(), row.value("code", ""), {}};
    if (row.contains("names")) refusal.names = row.at("names").get<std::vector<std::string>>();
    refusals.push_back(refusal);
  }
  return refusals;
}

std::vector<ZooFile> runnable_files() {
  std::vector<ZooFile> files;
  collect(kShared / "zoo", {".ts.pt", ".trace.pt"}, files);
  collect(kShared / "reference/artifacts", {".script.pt", ".trace.pt"}, files);
  const auto refusals = expected_refusals();
  std::erase_if(files, [&](const ZooFile& file) {
    return std::ranges::any_of(refusals, [&](const auto& refusal) { return refusal.file == file.name(); });
  });
  std::ranges::sort(files, {}, [](const auto& file) { return file.name(); });
  return files;
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

}  // namespace tl::test
