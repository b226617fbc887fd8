#pragma once

#include <filesystem>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/given_inputs.h"

namespace tl::test {

/// One model file of the reference folders or of tests/models and where its inputs are.
struct ZooFile {
  std::filesystem::path model;
  std::filesystem::path inputs;  ///< empty: it takes none, or they are not there
  std::string program = {};      ///< of a file that holds several
  std::string name() const { return model.filename().string(); }
  bool is_exported() const { return model.extension() == ".pt2"; }
  /// What Python computed, beside the file: its own, or that of the model it is a variant of; empty: not there.
  std::filesystem::path outputs() const;
};

inline void PrintTo(const ZooFile& file, std::ostream* out) { *out << file.name(); }

/// Every `*.ts.pt`, `*.trace.pt` of the zoo and `*.script.pt`, `*.trace.pt` of the reference artifacts that is expected
/// to run, sorted; empty where the folder beside the project is absent.
std::vector<ZooFile> runnable_files();

/// Every `*.pt2` of the zoo, `*.export.pt2` of the reference artifacts and `*.pt2` of tests/models/exported that is
/// expected to run, sorted. A file with several programs stands there once a program that has inputs beside it.
std::vector<ZooFile> runnable_exported_files();

/// Both.
std::vector<ZooFile> all_runnable_files();

/// A file that is refused.
struct Refusal {
  std::filesystem::path path;
  int exit_code = 0;
  std::string code;  ///< empty: not said
  std::vector<std::string> names;
  std::string file() const { return path.filename().string(); }
};
/// Rows of the zoo's expected_refusals.json without an `until`, and the fixtures in tests/models/exported that are made
/// to be refused.
std::vector<Refusal> expected_refusals();

/// How to load a file: one thread, its program.
ModelRequest model_request(const ZooFile& file);

/// The inputs of a file bound to its signature.
RunRequest request_for(const ZooFile& file, const Signature& signature, std::int64_t seed);

/// The same; arguments that the inputs beside the file leave out are those of the example stored in the file.
RunRequest request_for(const ZooFile& file, const ModelInfo& info, std::int64_t seed);

}  // namespace tl::test
