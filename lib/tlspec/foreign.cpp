#include "tlspec/foreign.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <system_error>

#include "archive/json_tape.h"
#include "archive/model_kind.h"
#include "core/error.h"
#include "core/text.h"
#include "tlspec/foreign_files.h"
#include "tlspec/foreign_json.h"
#include "tlspec/foreign_readers.h"
#include "tlspec/manifest.h"

namespace tl {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSummaryFile = "tensor_summary.json";
constexpr std::string_view kFormats =
    "a reference is a recording of torchlens, a .tlspec of Python TorchLens, JSONL of FastVideo, .pt files of SGLang, "
    "JSON "
    "of Polygraphy or trtexec, or safetensors, npz and npy files or a directory of them";

/// What a path is, with the JSON that told so.
struct Probe {
  ReferenceFormat format = ReferenceFormat::kNone;
  fs::path path;  ///< what the reader is to be given
  std::shared_ptr<const MappedFile> file = nullptr;
  std::unique_ptr<const std::string> text = nullptr;  ///< what the JSON was read from, where it is not the file
  std::unique_ptr<JsonTape> json = nullptr;
};

bool has_string(JsonRef object, std::string_view key, std::string_view value) {
  const auto found = object.find(key);
  return found && found.is_string() && found.string() == value;
}

void parse(Probe& probe) {
  if (auto words = with_json_words(text_of(*probe.file)); !words.empty()) {
    probe.text = std::make_unique<const std::string>(std::move(words));
  }
  const std::string_view text = probe.text ? std::string_view(*probe.text) : text_of(*probe.file);
  probe.json = std::make_unique<JsonTape>(text, probe.file->path().string(), kForeignJsonLimits);
}

ReferenceFormat format_of_manifest(JsonRef root) {
  if (!root.is_object()) return ReferenceFormat::kNone;
  if (root.find("tlspec_version")) return ReferenceFormat::kPythonTorchLens;
  if (!has_string(root, "format", kTlspecFormat)) return ReferenceFormat::kNone;
  return has_string(root, "kind", "dump") ? ReferenceFormat::kRecorderDump : ReferenceFormat::kTrace;
}

/// What the files of a directory without manifest.json are.
ReferenceFormat format_of_files(const fs::path& directory) {
  bool torch_files = false;
  bool tensor_files = false;
  for (const auto& file : files_in(directory, 2)) {
    if (file == kSummaryFile) return ReferenceFormat::kTrtexecTensors;
    const auto extension = file.extension();
    const bool near = std::distance(file.begin(), file.end()) <= 2;
    tensor_files =
        tensor_files || (near && (extension == ".safetensors" || extension == ".npz" || extension == ".npy"));
    torch_files = torch_files || extension == ".pt";
  }
  if (tensor_files) return ReferenceFormat::kTensorFiles;
  return torch_files ? ReferenceFormat::kTorchFiles : ReferenceFormat::kNone;
}

/// A recording of torchlens whose manifest is gone is no directory of tensors: its tables are tensors too.
void refuse_without_manifest(const fs::path& directory) {
  std::error_code error;
  for (const auto& name : {std::string(kColumnsFile), shard_name(0)}) {
    if (!fs::exists(fs::symlink_status(directory / name, error))) continue;
    throw Error(ErrorCode::kFileDamaged,
                directory.string() + ": holds " + name + " of a recording, but " + kManifestFile + " is missing",
                "record the model again");
  }
}

Probe probe_directory(const fs::path& directory) {
  Probe probe;
  probe.path = directory;
  const auto manifest = directory / kManifestFile;
  std::error_code error;
  if (!fs::exists(fs::symlink_status(manifest, error))) {
    refuse_without_manifest(directory);
    probe.format = format_of_files(directory);
    return probe;
  }
  probe.file = MappedFile::open(file_within(directory, kManifestFile));
  parse(probe);
  probe.format = format_of_manifest(probe.json->root());
  return probe;
}

bool is_polygraphy_array(JsonRef value) {
  return value.is_object() && (value.find("array") || value.find("tensor") || value.find("values"));
}

ReferenceFormat format_of_json(JsonRef root) {
  if (root.is_object()) {
    if (const auto list = root.find("lst"); list && list.is_array()) return ReferenceFormat::kPolygraphy;
    if (root.find("tensors") && root.find("metadata")) return ReferenceFormat::kTrtexecTensors;
    return ReferenceFormat::kNone;
  }
  if (!root.is_array() || root.size() == 0) return ReferenceFormat::kNone;
  const auto first = *root.items().begin();
  if (!first.is_object()) return ReferenceFormat::kNone;
  if (first.find("name") && first.find("dimensions") && first.find("values")) return ReferenceFormat::kTrtexecOutput;
  const auto members = first.members();
  const bool arrays = first.size() > 0 && is_polygraphy_array((*members.begin()).value);
  return arrays ? ReferenceFormat::kPolygraphy : ReferenceFormat::kNone;
}

/// The first line of a trace as FastVideo writes it.
bool begins_like_lines(std::string_view text) {
  constexpr std::size_t kLongest = std::size_t{1} << 20;
  const auto line = text.substr(0, std::min(text.find('\n'), kLongest));
  return line.starts_with('{') && line.find("\"module\"") != std::string_view::npos &&
         line.find("\"tensor\"") != std::string_view::npos && line.find('}') != std::string_view::npos;
}

bool looks_like_safetensors(std::string_view text) {
  if (text.size() < 10 || text[8] != '{') return false;
  std::uint64_t header = 0;
  for (std::size_t i = 0; i < 8; ++i) header |= std::uint64_t{static_cast<unsigned char>(text[i])} << (8 * i);
  return header <= text.size() - 8;
}

/// ETDump is a flatbuffer that only ExecuTorch's Inspector is meant to parse.
void refuse_etdump(const fs::path& path, std::string_view text) {
  if (text.substr(0, 12).find("ED00") == std::string_view::npos) return;
  throw Error(ErrorCode::kUnsupportedKind, path.string() + ": is an ETDump of ExecuTorch",
              "read it with executorch.devtools.Inspector and save the intermediate outputs with numpy.savez");
}

Probe probe_file(const fs::path& path) {
  Probe probe;
  probe.path = path;
  probe.file = MappedFile::open(path);
  const auto text = text_of(*probe.file);
  if (text.starts_with("\x93NUMPY") || looks_like_safetensors(text)) {
    probe.format = ReferenceFormat::kTensorFiles;
    return probe;
  }
  if (text.starts_with("PK")) {
    const auto kind = inspect_model_file(path).kind;
    if (kind == ModelKind::kNpz) probe.format = ReferenceFormat::kTensorFiles;
    if (kind == ModelKind::kStateDict) probe.format = ReferenceFormat::kTorchFiles;
    return probe;
  }
  refuse_etdump(path, text);
  const auto start = text.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos || (text[start] != '{' && text[start] != '[')) return probe;
  if (begins_like_lines(text.substr(start))) {
    probe.format = ReferenceFormat::kStatisticsLines;
    return probe;
  }
  parse(probe);
  probe.format = format_of_json(probe.json->root());
  if (probe.format == ReferenceFormat::kTrtexecTensors) probe.path = path.has_parent_path() ? path.parent_path() : ".";
  return probe;
}

Probe probe_path(const fs::path& path) {
  std::error_code error;
  const auto status = fs::status(path, error);
  if (!fs::exists(status)) {
    throw Error(ErrorCode::kFileMissing,
                path.string() + ": " + (error ? error.message() : "no such file or directory"));
  }
  return fs::is_directory(status) ? probe_directory(path) : probe_file(path);
}

void check_version(const Probe& probe) {
  const ForeignObject root(*probe.json, probe.json->root(), "the manifest");
  const auto version = root.integer("version").value_or(0);
  if (version >= 1 && version <= kTlspecVersion) return;
  throw Error(ErrorCode::kUnsupportedVersion,
              probe.json->shown_name() + ": has format version " + std::to_string(version) +
                  ", this build reads 1 to " + std::to_string(kTlspecVersion),
              version > kTlspecVersion ? "update torchlens" : "");
}

}  // namespace

std::string_view describe(ReferenceFormat format) {
  switch (format) {
    case ReferenceFormat::kTrace:
      return "a recording of torchlens trace";
    case ReferenceFormat::kRecorderDump:
      return "a recording of torchlens recorder";
    case ReferenceFormat::kPythonTorchLens:
      return "a recording of Python TorchLens";
    case ReferenceFormat::kStatisticsLines:
      return "an activation trace of FastVideo";
    case ReferenceFormat::kPolygraphy:
      return "Polygraphy results";
    case ReferenceFormat::kTrtexecOutput:
      return "outputs of trtexec";
    case ReferenceFormat::kTrtexecTensors:
      return "debug tensors of trtexec";
    case ReferenceFormat::kTorchFiles:
      return "tensors that torch.save wrote";
    case ReferenceFormat::kTensorFiles:
      return "safetensors, npz or npy files";
    case ReferenceFormat::kNone:
      break;
  }
  return "no recording";
}

ReferenceFormat reference_format(const fs::path& path) { return probe_path(path).format; }

Dump read_reference(const fs::path& path) {
  const auto probe = probe_path(path);
  switch (probe.format) {
    case ReferenceFormat::kRecorderDump:
      check_version(probe);
      return read_recorder_dump(probe.path, *probe.json);
    case ReferenceFormat::kPythonTorchLens:
      return read_python_torchlens(probe.path, *probe.json);
    case ReferenceFormat::kStatisticsLines:
      return read_statistics_lines(probe.path);
    case ReferenceFormat::kPolygraphy:
      return read_polygraphy(probe.path, *probe.json);
    case ReferenceFormat::kTrtexecOutput:
      return read_trtexec_output(probe.path, *probe.json);
    case ReferenceFormat::kTrtexecTensors:
      return read_trtexec_tensors(probe.path);
    case ReferenceFormat::kTorchFiles:
      return read_torch_files(probe.path);
    case ReferenceFormat::kTensorFiles:
      return read_tensor_files(probe.path);
    case ReferenceFormat::kTrace:
      throw Error(ErrorCode::kUnsupportedKind,
                  path.string() + ": is a recording of torchlens trace, not of another tool");
    case ReferenceFormat::kNone:
      break;
  }
  throw Error(ErrorCode::kNotATrace, path.string() + ": is no recording of any kind",
              "torchlens recorder python prints a recorder", std::string(kFormats));
}

}  // namespace tl
