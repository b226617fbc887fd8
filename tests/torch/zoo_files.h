#pragma once

#include <filesystem>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/given_inputs.h"

namespace tl::test {

/// One TorchScript file of the reference folders and where its inputs are.
struct ZooFile {
  std::filesystem::path model;
  std::filesystem::path inputs;  ///< empty: it takes none, or they are not there
  std::string name() const { return model.filename().string(); }
};

inline void PrintTo(const ZooFile& file, std::ostream* out) { *out << file.name(); }

/// Every `*.ts.pt`, `*.trace.pt` of the zoo and `*.script.pt`, `*.trace.pt` of the reference artifacts that is expected
/// to run, sorted; empty where the folder beside the project is absent.
std::vector<ZooFile> runnable_files();

/// Names in the zoo's expected_refusals.json that are TorchScript or other `.pt` files.
struct Refusal {
  std::string file;
  int exit_code = 0;
  std::string code;
  std::vector<std::string> names;
};
std::vector<Refusal> expected_refusals();

/// The inputs of a file bound to its signature.
RunRequest request_for(const ZooFile& file, const Signature& signature, std::int64_t seed);

}  // namespace tl::test
