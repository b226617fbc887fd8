#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <unordered_set>

#include "core/error.h"
#include "core/mapped_file.h"
#include "core/text.h"
#include "tlspec/json_reader.h"
#include "tlspec/manifest.h"

namespace tl {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRecordHint = "torchlens trace MODEL --input FILE writes one";

/// A name of one component that no shell, terminal or file system reads as anything else.
bool is_plain_name(std::string_view name) {
  if (name.empty() || name.size() > 200 || name.front() == '.') return false;
  return std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
           c == '_';
  });
}

void read_files(const JsonObject& parent, bool is_volatile, const std::string& shown_name, Manifest& manifest) {
  for (const auto& object : parent.objects("files")) {
    ManifestFile file{object.string("name"), object.integer("bytes", -1), object.string("digest"), is_volatile};
    if (!is_plain_name(file.name) || file.name == kManifestFile) {
      throw Error(ErrorCode::kFileHostile, shown_name + ": lists the file '" +
                                               elide(escape_for_terminal(file.name), 80) + "', which is no plain name");
    }
    if (file.bytes < 0) object.fail("bytes", "is " + std::to_string(file.bytes));
    if (file.digest.size() != 32)
      object.fail("digest", "has " + std::to_string(file.digest.size()) + " digits, not 32");
    manifest.files.push_back(std::move(file));
  }
}

void check_unique(const std::vector<ManifestFile>& files, const std::string& shown_name) {
  std::unordered_set<std::string_view> names;
  for (const auto& file : files) {
    if (!names.insert(file.name).second) {
      throw Error(ErrorCode::kFileHostile, shown_name + ": lists the file " + file.name + " twice");
    }
  }
}

IoRecord read_io(const JsonObject& object) {
  IoRecord record;
  record.role = object.string("role");
  record.source = object.string("source");
  record.dtype = dtype_from_name(object.string("dtype")).value_or(DType::kNone);
  record.sizes = object.integers("shape");
  record.scalar = object.string("scalar");
  record.min = object.real("min");
  record.max = object.real("max");
  const auto* top = object.find("top");
  if (top == nullptr) return record;
  if (!top->is_array()) object.fail("top", "is no list");
  for (const auto& pair : *top) {
    const auto value = pair.is_array() && pair.size() == 2 ? double_from_json(pair[1]) : std::nullopt;
    if (!value || !pair[0].is_number_integer()) object.fail("top", "is no list of [index, value]");
    record.top.emplace_back(pair[0].get<std::int64_t>(), *value);
  }
  return record;
}

std::vector<IoRecord> read_list(const JsonObject& run, const char* key) {
  std::vector<IoRecord> records;
  for (const auto& object : run.objects(key)) records.push_back(read_io(object));
  return records;
}

Outcome read_outcome(const JsonObject& object) {
  Outcome outcome;
  outcome.status = object.string("status", "failed");
  outcome.phase = object.string("phase");
  outcome.origin = object.string("origin");
  outcome.reason = object.string("reason");
  outcome.error_type = object.string("error_type");
  outcome.boundary_kind = object.string("boundary_kind");
  outcome.boundary_label = object.string("boundary_label");
  outcome.n_ops_committed = object.integer("n_ops_committed");
  outcome.frontier_labels = object.strings("frontier_labels");
  outcome.module = object.string("module", "");
  outcome.call_site = object.string("call_site", "");
  outcome.operands = object.strings("operands");
  return outcome;
}

Health read_health(const JsonObject& object) {
  Health health;
  health.operator_calls = object.integer("operator_calls");
  health.recorded_calls = object.integer("recorded_calls");
  health.witnessed = object.boolean("witnessed");
  health.dispatcher_calls = object.integer("dispatcher_calls");
  health.unaccounted_calls = object.integer("unaccounted_calls");
  health.nonfinite = object.strings("nonfinite");
  health.nonfinite_checked = object.boolean("nonfinite_checked");
  health.unannounced_writes = object.strings("unannounced_writes");
  health.unknown_ops = object.strings("unknown_ops");
  health.skipped_payloads = object.strings("skipped_payloads");
  health.state_changed = object.strings("state_changed");
  return health;
}

RunInfo read_run(const JsonObject& root) {
  RunInfo info;
  const auto model = root.object("model");
  info.model_file = model.string("file");
  info.model_kind = model.string("kind");
  info.model_digest = model.string("digest");
  info.model_bytes = model.integer("bytes");
  info.model_class = model.string("class");
  const auto run = root.object("run");
  info.engine = run.string("engine");
  info.method = run.string("method");
  info.mode = run.string("mode");
  info.device = run.string("device");
  info.dtype = run.string("dtype");
  info.save = run.string("save");
  info.save_note = run.string("save_note", "");
  info.threads = run.integer("threads");
  info.seed = run.integer("seed");
  info.grad = run.boolean("grad");
  info.inputs = read_list(run, "inputs");
  info.outputs = read_list(run, "outputs");
  const auto times = run.object("volatile");
  info.load_seconds = times.real("load_seconds").value_or(0);
  info.forward_seconds = times.real("forward_seconds").value_or(0);
  info.outcome = read_outcome(root.object("outcome"));
  info.health = read_health(root.object("health"));
  return info;
}

/// Refuses what is no recording of ours, or one that this build does not read.
void check_identity(const JsonObject& root, const std::string& shown_name) {
  if (root.has("tlspec_version")) {
    throw Error(
        ErrorCode::kUnsupportedKind,
        shown_name + ": is a .tlspec of the Python package TorchLens, whose records are a pickle",
        "its activations are read as one side of torchlens diff; records need a trace of the exported model file");
  }
  if (root.string("format") != kTlspecFormat) {
    throw Error(ErrorCode::kNotATrace, shown_name + ": is no manifest of a recording", kRecordHint,
                "a recording says format " + std::string(kTlspecFormat));
  }
  const auto version = root.integer("version");
  if (version < 1 || version > kTlspecVersion) {
    throw Error(ErrorCode::kUnsupportedVersion,
                shown_name + ": has format version " + std::to_string(version) + ", this build reads 1 to " +
                    std::to_string(kTlspecVersion),
                version > kTlspecVersion ? "update torchlens" : "");
  }
  const auto kind = root.string("kind");
  if (kind == "dump") {
    throw Error(ErrorCode::kUnsupportedKind, shown_name + ": was made by torchlens recorder and has no Ops",
                "torchlens show FILE and torchlens diff read it");
  }
  if (kind != to_string(RecordingKind::kTrace) && kind != to_string(RecordingKind::kSparse)) {
    throw Error(ErrorCode::kUnsupportedKind,
                shown_name + ": holds a " + elide(escape_for_terminal(kind), 40) + ", this build reads traces");
  }
  const auto level = root.string("level");
  if (!level_from_name(level)) {
    throw Error(ErrorCode::kUnsupportedKind, shown_name + ": has the level " + elide(escape_for_terminal(level), 40) +
                                                 ", this build reads portable and audit");
  }
}

/// What a directory without manifest.json looks like.
std::string guess_directory(const fs::path& directory) {
  std::error_code error;
  bool empty = true;
  bool tensors = false;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    empty = false;
    const auto name = it->path().filename().string();
    if (name == "config.json") return "looks like a folder of a Hugging Face model";
    if (name == "data.pkl" || name == "constants.pkl") return "looks like an unpacked TorchScript file";
    if (name == "saved_model.pb") return "looks like a TensorFlow SavedModel";
    if (it->path().extension() == ".tlspec") return "holds recordings, of which one is to be named";
    tensors = tensors || it->path().extension() == ".safetensors";
  }
  if (error) return "cannot be listed";
  if (empty) return "is empty";
  return tensors ? "holds safetensors files" : "holds no recording";
}

void check_is_directory(const fs::path& directory) {
  std::error_code error;
  const auto status = fs::status(directory, error);
  if (!fs::exists(status)) {
    throw Error(ErrorCode::kFileMissing, directory.string() + ": " + (error ? error.message() : "no such directory"));
  }
  if (!fs::is_directory(status)) {
    throw Error(ErrorCode::kNotATrace, directory.string() + ": is a file, a recording is a directory", kRecordHint);
  }
}

}  // namespace

Manifest parse_manifest(std::string_view text, const std::string& shown_name) {
  const auto document = parse_untrusted_json(text, shown_name);
  const JsonObject root(document, shown_name);
  check_identity(root, shown_name);
  for (const char* key : {"producer", "model", "run", "outcome", "health", "counts", "files"}) {
    if (!root.has(key)) root.fail(key, "is missing");
  }
  Manifest manifest;
  const auto producer = root.object("producer");
  manifest.producer_name = producer.string("name");
  manifest.producer_version = producer.string("version");
  manifest.version = root.integer("version");
  const bool sparse = root.string("kind") == to_string(RecordingKind::kSparse);
  manifest.kind = sparse ? RecordingKind::kSparse : RecordingKind::kTrace;
  manifest.level = *level_from_name(root.string("level"));
  manifest.run = read_run(root);
  manifest.capture_verified = root.optional_boolean("capture_verified");
  manifest.capture_verification_reason = root.string("capture_verification_reason");
  // Whoever can edit the file can write `true`; only a recording that admits to be wrong is believed.
  if (manifest.capture_verified == true) {
    manifest.capture_verified.reset();
    manifest.capture_verification_reason = "verified when it was written, which a file cannot prove";
  }
  const auto counts = root.object("counts");
  for (const auto& name : counts.keys()) manifest.counts.emplace_back(name, counts.integer(name.c_str()));
  manifest.graph_shape_hash = root.string("graph_shape_hash");
  manifest.event_shapes = root.integer("event_shapes");
  read_files(root, false, shown_name, manifest);
  read_files(root.object("run").object("volatile"), true, shown_name, manifest);
  check_unique(manifest.files, shown_name);
  return manifest;
}

Manifest read_manifest(const fs::path& directory) {
  check_is_directory(directory);
  const auto path = directory / kManifestFile;
  std::error_code error;
  const auto status = fs::symlink_status(path, error);
  if (!fs::exists(status)) {
    throw Error(ErrorCode::kNotATrace, directory.string() + ": " + guess_directory(directory), kRecordHint,
                "a recording is a directory with a manifest.json");
  }
  if (!fs::is_regular_file(status)) {
    throw Error(ErrorCode::kFileHostile, path.string() + ": is no regular file");
  }
  const auto file = MappedFile::open(path);
  const auto bytes = file->bytes();
  return parse_manifest({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string());
}

}  // namespace tl
