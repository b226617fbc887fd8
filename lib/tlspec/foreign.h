#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "trace/dump.h"

namespace tl {

/// What a path given as one side of a comparison is, by its content.
enum class ReferenceFormat : std::uint8_t {
  kNone,             ///< nothing that read_reference reads: a model, some other file
  kTrace,            ///< a recording of `torchlens trace`: for read_tlspec
  kRecorderDump,     ///< a recording of `torchlens recorder`
  kPythonTorchLens,  ///< a `.tlspec` of the Python package
  kStatisticsLines,  ///< FastVideo's JSONL: statistics only
  kPolygraphy,       ///< RunResults or feeds as JSON
  kTrtexecOutput,    ///< trtexec --exportOutput
  kTrtexecTensors,   ///< trtexec --saveAllDebugTensors
  kTorchFiles,       ///< `.pt` files of tensors: SGLang's dumpers, torch.save of a dict
  kTensorFiles,      ///< safetensors, npz, npy
};

/// A format in words: "a recording of torchlens recorder", "Polygraphy results" …
std::string_view describe(ReferenceFormat format);

/// Tells what `path` is, executing nothing and reading no more than it takes. A `.pt` that may be a model is kNone: ask
/// inspect_model_file (archive/model_kind.h) first and read_reference for a state_dict. Throws Error(kFileMissing), and
/// what the readers throw for a JSON file that cannot be read.
ReferenceFormat reference_format(const std::filesystem::path& path);

/// Reads a recording that was made elsewhere. Nothing in it is trusted or executed: sizes, offsets, counts, names and
/// links are checked; tensors stay views of mapped files where they can. What the reader left out or weakened is said
/// in `notes`. Throws Error: kFileMissing; kNotATrace for what is none of the formats, saying which there are;
/// kActivationNotSaved for a recording without values; kUnsupportedKind and kUnsupportedVersion; kFileDamaged,
/// kFileHostile, kFileLimits, with file, place and numbers.
Dump read_reference(const std::filesystem::path& path);

}  // namespace tl
