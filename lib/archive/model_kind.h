#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace tl {

class ZipDirectory;

/// What a file given as a model is, by its content; names and extensions say nothing.
enum class ModelKind : std::uint8_t {
  kTorchScript,      ///< torch.jit.save
  kExportedProgram,  ///< torch.export.save, any layout since 2.1
  kAotInductor,      ///< a .pt2 with compiled code and no graph
  kLiteInterpreter,  ///< mobile bytecode without TorchScript sources
  kStateDict,        ///< torch.save of tensors in plain containers
  kEagerPickle,      ///< torch.save of Python objects, or a bare pickle
  kLegacyTorchSave,  ///< torch.save before 1.6, or with _use_new_zipfile_serialization=False
  kSafetensors,
  kOnnx,
  kLfsPointer,  ///< the text that stands for a file in a clone without Git LFS
  kHtml,
  kNpy,
  kNpz,
  kZipOther,
  kDirectory,
  kEmpty,
  kText,
  kTlspec,  ///< a recording of this program
  kOther,
};

/// A kind in words, as messages and `show` print it: "a TorchScript file", "a state_dict …".
std::string_view describe(ModelKind kind);
/// The stable snake_case string of a kind for JSON.
std::string_view to_string(ModelKind kind);

/// What inspect_model_file found. Nothing of the file was executed.
struct ModelFileInfo {
  std::filesystem::path path;
  ModelKind kind = ModelKind::kOther;
  std::uint64_t size = 0;             ///< bytes; 0 for a directory
  std::string root;                   ///< folder of a torch archive with its slash, as in "resnet18/"; else empty
  std::optional<int> format_version;  ///< number in `.data/version` or `version` of a torch archive, where it is one
  std::string version_text;           ///< the same as text ("8.7" in a .pt2 of torch 2.7)
  std::string archive_format;         ///< content of `archive_format` ("pt2")
  std::string archive_version;        ///< content of `archive_version`
  std::vector<std::string> models;    ///< kExportedProgram: names under models/, without .json
  std::vector<std::string> foreign_globals;  ///< kEagerPickle: what its pickle refers to outside plain tensors
  std::string detail;                        ///< kOther: what the first bytes suggest ("GGUF", "gzip"), or empty
};

/// Tells what `path` is. Throws Error: kFileMissing; kFileDamaged, kFileHostile, kFileLimits for a zip archive that
/// cannot be trusted (a truncated model among them).
ModelFileInfo inspect_model_file(const std::filesystem::path& path);

/// The same for a file that is mapped already; `zip` may be its directory, or null if it is no zip archive.
ModelFileInfo inspect_model_file(const std::filesystem::path& path, std::span<const std::byte> bytes,
                                 const ZipDirectory* zip);

/// The error to throw for what is no TorchScript file and no exported program of a version that can be read, with what
/// it is and what to do instead: kNotAModel (exit 3), kUnsupportedKind or kUnsupportedVersion (exit 4). nullopt if it
/// may be loaded.
std::optional<Error> refusal_for(const ModelFileInfo& info);

}  // namespace tl
