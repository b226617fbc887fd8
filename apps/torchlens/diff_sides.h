#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "archive/model_contents.h"
#include "command.h"
#include "diff/side.h"
#include "diff_options.h"

namespace tl::cli {

/// A directory for recordings that are made to be compared once; removed with the object.
class ScratchDirectory {
 public:
  ScratchDirectory();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// One side of a comparison in memory.
struct LoadedSide {
  std::unique_ptr<Trace> trace;
  std::unique_ptr<Dump> dump;
};

/// True for a TorchScript file or an exported program, which must be run before it can be compared.
bool is_model_file(const std::string& path);

/// Reads a recording of either kind. Throws Error as the readers do.
LoadedSide load_side(const std::string& path, bool payloads);

/// Holds the files with the values of what a report blames against the checksums of the recording, so that damage is
/// not taken for an error of the model: of sources, of the first site out of tolerance, and of values where NaN,
/// infinities or shapes disagree. A recording without differences is not read again. Throws Error(kFileDamaged).
void check_blamed_files(const DiffReport& report, const std::string& path, const LoadedSide& side, bool is_reference);

/// True where --static compares what the files hold: one of them is a model file, both are files of weights, or one is
/// a file of weights of the model that the other recorded. Throws Error as the readers do.
bool compares_contents(const std::string& reference, const std::string& subject);

/// What a model file, a file of weights or a recording tells of its model. `threads`: 0 takes what the machine has, up
/// to four. Throws Error as the readers do.
ModelContents load_contents(const std::string& path, int threads);

/// Runs a model in a child process and records it into `target`. Returns the exit code of that run; what went wrong is
/// printed.
int record_model(const DiffCommandOptions& options, const std::string& model, const std::vector<std::string>& inputs,
                 const std::filesystem::path& target, Context& context);

/// Writes the inputs that a recording holds as a file that --input takes. False, and nothing written, where it holds
/// none with values.
bool save_recorded_inputs(const std::string& recording, const std::filesystem::path& target);

/// The inputs of each sample: one, or one a file where a pattern (calib/*.safetensors) names several, in order of name.
/// Throws Error(kFileMissing) for a pattern without files.
std::vector<std::vector<std::string>> input_samples(const std::vector<std::string>& inputs);

}  // namespace tl::cli
