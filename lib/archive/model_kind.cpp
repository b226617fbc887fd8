#include "archive/model_kind.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "archive/byte_reader.h"
#include "archive/entry_name.h"
#include "archive/exported_layout.h"
#include "archive/limits.h"
#include "archive/pickle_scanner.h"
#include "archive/unpickler.h"
#include "archive/zip_directory.h"
#include "core/mapped_file.h"
#include "core/utf8.h"

namespace tl {
namespace {

struct KindRow {
  ModelKind kind;
  std::string_view id;
  std::string_view words;
  ErrorCode refusal;  ///< kInternal: may be loaded
  std::string_view hint;
};

constexpr std::string_view kScriptIt =
    "load it into its module in Python and save that: torch.jit.script(model).save(\"model.pt\") or "
    "torch.export.save(torch.export.export(model, args), \"model.pt2\")";

constexpr std::array kKinds = {
    KindRow{ModelKind::kTorchScript, "torchscript", "a TorchScript file", ErrorCode::kInternal, ""},
    KindRow{ModelKind::kExportedProgram, "exported_program", "an exported program (.pt2)", ErrorCode::kInternal, ""},
    KindRow{ModelKind::kAotInductor, "aot_inductor", "an AOTInductor package: compiled machine code without the graph",
            ErrorCode::kUnsupportedKind,
            "save the program it was compiled from: torch.export.save(exported_program, \"model.pt2\")"},
    KindRow{ModelKind::kLiteInterpreter, "lite_interpreter",
            "mobile bytecode (lite interpreter) without TorchScript sources", ErrorCode::kUnsupportedKind,
            "save the scripted module itself: torch.jit.script(model).save(\"model.pt\")"},
    KindRow{ModelKind::kStateDict, "state_dict", "a state_dict or other tensors: it holds weights only, no program",
            ErrorCode::kNotAModel, kScriptIt},
    KindRow{ModelKind::kEagerPickle, "eager_pickle",
            "a pickled Python module, which only its own Python code can load; nothing of it was executed",
            ErrorCode::kNotAModel,
            "load it in Python, where its classes are, and save torch.jit.script(model).save(\"model.pt\")"},
    KindRow{ModelKind::kLegacyTorchSave, "legacy_torch_save",
            "a torch.save file in the format before PyTorch 1.6: a pickle, no program; nothing of it was executed",
            ErrorCode::kNotAModel, kScriptIt},
    KindRow{ModelKind::kSafetensors, "safetensors", "a safetensors file: it holds tensors only, no program",
            ErrorCode::kNotAModel, kScriptIt},
    KindRow{ModelKind::kOnnx, "onnx", "an ONNX model", ErrorCode::kUnsupportedKind,
            "export the PyTorch model it came from with torch.jit.save or torch.export.save"},
    KindRow{ModelKind::kLfsPointer, "lfs_pointer", "a Git LFS pointer: the file itself was not downloaded",
            ErrorCode::kNotAModel, "git lfs pull"},
    KindRow{ModelKind::kHtml, "html", "an HTML page, probably an error or login page saved by a download",
            ErrorCode::kNotAModel, "download it again and look at it in a browser"},
    KindRow{ModelKind::kNpy, "npy", "a NumPy array", ErrorCode::kNotAModel, "pass it with --input"},
    KindRow{ModelKind::kNpz, "npz", "NumPy arrays", ErrorCode::kNotAModel, "pass it with --input"},
    KindRow{ModelKind::kZipOther, "zip", "a zip archive, but not a model", ErrorCode::kNotAModel,
            "pass a file saved by torch.jit.save or torch.export.save"},
    KindRow{ModelKind::kDirectory, "directory", "a directory", ErrorCode::kNotAModel,
            "name a file in it that torch.jit.save or torch.export.save wrote"},
    KindRow{ModelKind::kEmpty, "empty", "an empty file (0 bytes)", ErrorCode::kNotAModel, "save or download it again"},
    KindRow{ModelKind::kText, "text", "a text file", ErrorCode::kNotAModel,
            "pass a file saved by torch.jit.save or torch.export.save"},
    KindRow{ModelKind::kTlspec, "tlspec", "a recording (.tlspec), not a model", ErrorCode::kNotAModel,
            "look at it with torchlens show"},
    KindRow{ModelKind::kOther, "other", "no file that PyTorch saves models in", ErrorCode::kNotAModel,
            "pass a file saved by torch.jit.save or torch.export.save"},
};

const KindRow& row_of(ModelKind kind) {
  const KindRow& row = kKinds[static_cast<std::size_t>(kind)];
  TL_CHECK(row.kind == kind, "the rows of kKinds follow the enum");
  return row;
}

// What LibTorch 2.13 reads (caffe2/serialize/versions.h).
constexpr int kMinTorchScriptVersion = 1;
constexpr int kMaxTorchScriptVersion = 10;

constexpr std::size_t kSmallEntryBytes = 64;  // version, archive_format: a few characters

std::string trimmed(std::string text) {
  const auto last = text.find_last_not_of(" \t\r\n");
  text.erase(last == std::string::npos ? 0 : last + 1);
  return text;
}

std::string small_text(const ZipDirectory& zip, const std::string& name) {
  const ZipEntry* entry = zip.find(name);
  return entry && entry->size <= kSmallEntryBytes ? trimmed(zip.read_text(*entry)) : std::string();
}

/// Globals that pickles of plain tensors use; prefixes end in a dot or an underscore.
bool is_plain_global(std::string_view name) {
  static constexpr std::array<std::string_view, 9> kNames = {"collections.OrderedDict",
                                                             "torch.Size",
                                                             "torch.device",
                                                             "torch.serialization._get_layout",
                                                             "builtins.complex",
                                                             "__builtin__.complex",
                                                             "_codecs.encode",
                                                             "torch._tensor._rebuild_from_type_v2",
                                                             "torch.storage.UntypedStorage"};
  return name.starts_with("torch._utils._rebuild_") ||
         (name.starts_with("torch.") && (name.ends_with("Storage") || std::ranges::count(name, '.') == 1)) ||
         std::ranges::find(kNames, name) != kNames.end();
}

void read_exported(const ZipDirectory& zip, ModelFileInfo& info) {
  const std::string folder = info.root + "models/";
  constexpr std::string_view kExtension = ".json";
  for (const ZipEntry& entry : zip.entries()) {
    const std::string_view name = entry.name;
    if (!name.starts_with(folder) || !name.ends_with(kExtension)) continue;
    const std::string_view model = name.substr(folder.size(), name.size() - folder.size() - kExtension.size());
    if (!model.empty()) info.models.emplace_back(model);
  }
  const bool compiled = std::ranges::any_of(zip.entries(), [&](const ZipEntry& entry) {
    return std::string_view(entry.name).starts_with(info.root + "data/aotinductor/");
  });
  info.kind = info.models.empty() && compiled ? ModelKind::kAotInductor : ModelKind::kExportedProgram;
}

bool has_sources(const ZipDirectory& zip, const std::string& root) {
  return std::ranges::any_of(zip.entries(), [&](const ZipEntry& entry) {
    return entry.name.starts_with(root + "code/") && entry.name.ends_with(".py");
  });
}

void read_zip(const ZipDirectory& zip, ModelFileInfo& info) {
  info.root = archive_root(zip);
  info.archive_format = small_text(zip, info.root + "archive_format");
  info.archive_version = small_text(zip, info.root + "archive_version");
  info.version_text = small_text(zip, info.root + ".data/version");
  if (info.version_text.empty()) info.version_text = small_text(zip, info.root + "version");
  const char* end = info.version_text.data() + info.version_text.size();
  int number = 0;
  const auto parsed = std::from_chars(info.version_text.data(), end, number);
  if (parsed.ec == std::errc() && parsed.ptr == end) info.format_version = number;

  const auto has = [&](std::string_view name) { return zip.find(info.root + std::string(name)) != nullptr; };
  const bool models = std::ranges::any_of(zip.entries(), [&](const ZipEntry& entry) {
    return entry.name.starts_with(info.root + "models/") && entry.name.ends_with(".json");
  });
  if (has("constants.pkl") && has_sources(zip, info.root)) {
    info.kind = ModelKind::kTorchScript;
  } else if (info.archive_format == "pt2" || (models && !info.root.empty()) ||
             zip.find("serialized_exported_program.json")) {
    read_exported(zip, info);
  } else if (has("bytecode.pkl")) {
    info.kind = ModelKind::kLiteInterpreter;
  } else if (has("constants.pkl") && has("data.pkl")) {
    info.kind = ModelKind::kTorchScript;  // a module without methods and attributes has no sources
  } else if (const ZipEntry* pickle = zip.find(info.root + "data.pkl")) {
    for (std::string& global : scan_pickle(zip.read(*pickle), zip.file_name() + ": " + pickle->name).globals) {
      if (!is_plain_global(global)) info.foreign_globals.push_back(std::move(global));
    }
    info.kind = info.foreign_globals.empty() ? ModelKind::kStateDict : ModelKind::kEagerPickle;
  } else {
    const bool arrays = !zip.entries().empty() && std::ranges::all_of(zip.entries(), [](const ZipEntry& entry) {
      return entry.name.ends_with(".npy");
    });
    info.kind = arrays ? ModelKind::kNpz : ModelKind::kZipOther;
  }
}

bool begins_without_case(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() && std::ranges::equal(text.substr(0, lower.size()), lower, [](char a, char b) {
           return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
         });
}

bool is_safetensors(std::span<const std::byte> bytes) {
  if (bytes.size() < 10) return false;
  const std::uint64_t header = little_endian_at(bytes, 0, 8);
  return header >= 2 && range_fits(8, header, bytes.size()) && std::to_integer<char>(bytes[8]) == '{';
}

/// A varint at `at`, which moves behind it; nullopt at the end of the bytes or beyond 64 bits.
std::optional<std::uint64_t> varint(std::span<const std::byte> bytes, std::size_t& at) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && at < bytes.size(); shift += 7) {
    const auto byte = std::to_integer<std::uint64_t>(bytes[at++]);
    value |= (byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  return std::nullopt;
}

/// True for a protobuf message with the fields of onnx.ModelProto (onnx.proto): ir_version (1) as a small number first
/// and a graph (7). The message is walked by its field lengths, at most a few fields.
bool is_onnx(std::span<const std::byte> bytes) {
  constexpr int kMaxFields = 64;
  constexpr std::uint64_t kMaxIrVersion = 64;
  std::size_t at = 0;
  bool first = true;
  for (int i = 0; i < kMaxFields && at < bytes.size(); ++i) {
    const auto tag = varint(bytes, at);
    if (!tag) return false;
    const std::uint64_t field = *tag >> 3;
    const std::uint64_t wire = *tag & 7;
    const auto value = varint(bytes, at);
    if (!value || (wire != 0 && wire != 2)) return false;
    if (first && (field != 1 || wire != 0 || *value == 0 || *value > kMaxIrVersion)) return false;
    first = false;
    if (wire == 2) {
      if (field == 7) return true;
      if (!range_fits(at, *value, bytes.size())) return false;
      at += static_cast<std::size_t>(*value);
    }
  }
  return false;
}

bool is_legacy_magic(std::string_view head) {
  // protocol 2, LONG1 0x1950a86a20f9469cfc6c, STOP: torch/serialization.py, MAGIC_NUMBER.
  return head.starts_with(std::string_view("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15));
}

bool is_text(std::string_view head, bool whole) {
  // The cut may split a character: its last bytes are left out.
  if (!whole && head.size() > 4) head.remove_suffix(4);
  const bool plain = std::ranges::none_of(head, [](char c) {
    const auto code = static_cast<unsigned char>(c);
    return (code < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f') || code == 0x7f;
  });
  if (!plain) return false;
  while (!whole && !head.empty() && (static_cast<unsigned char>(head.back()) & 0x80) != 0) head.remove_suffix(1);
  return is_utf8(head);
}

std::string_view other_detail(std::string_view head) {
  struct Magic {
    std::size_t offset;
    std::string_view bytes;
    std::string_view words;
  };
  static constexpr std::array kMagics = {
      Magic{0, "GGUF", "a GGUF file"},
      Magic{4, "ET", "an ExecuTorch program"},
      Magic{4, "TFL3", "a TensorFlow Lite model"},
      Magic{0, "\x89HDF\r\n", "an HDF5 file, such as Keras writes"},
      Magic{0,
            "\x7f"
            "ELF",
            "an ELF executable or library"},
      Magic{0, "\x1f\x8b", "gzip-compressed data"},
      Magic{0, "7z\xbc\xaf", "a 7-Zip archive"},
      Magic{0, "\x28\xb5\x2f\xfd", "zstd-compressed data"},
      Magic{0,
            "\xfd"
            "7zXZ",
            "xz-compressed data"},
      Magic{257, "ustar", "a tar archive"},
      Magic{0, "\x89PNG", "a PNG picture"},
      Magic{0, "%PDF", "a PDF document"},
  };
  for (const Magic& magic : kMagics) {
    if (head.size() > magic.offset && head.substr(magic.offset).starts_with(magic.bytes)) return magic.words;
  }
  return {};
}

ModelKind sniff(std::span<const std::byte> bytes, ModelFileInfo& info) {
  const std::size_t count = std::min(bytes.size(), limits::kSniffBytes);
  const std::string_view head = as_text(bytes.first(count));
  if (head.empty()) return ModelKind::kEmpty;
  if (head.starts_with("version https://git-lfs.github.com/spec/")) return ModelKind::kLfsPointer;
  if (head.starts_with("\x93NUMPY")) return ModelKind::kNpy;
  if (is_legacy_magic(head)) return ModelKind::kLegacyTorchSave;
  if (is_safetensors(bytes)) return ModelKind::kSafetensors;
  const std::size_t ink = std::min(head.find_first_not_of(" \t\r\n"), head.size());
  const std::string_view text = head.substr(ink).starts_with("\xef\xbb\xbf") ? head.substr(ink + 3) : head.substr(ink);
  if (begins_without_case(text, "<!doctype html") || begins_without_case(text, "<html")) return ModelKind::kHtml;
  info.detail = other_detail(head);
  if (!info.detail.empty()) return ModelKind::kOther;
  // A pickle of protocol 2 to 5 begins with its number; 0x80 begins no UTF-8 text.
  if (head.size() > 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5) return ModelKind::kEagerPickle;
  if (is_onnx(bytes)) return ModelKind::kOnnx;
  return is_text(head, count == bytes.size()) ? ModelKind::kText : ModelKind::kOther;
}

/// Before torch 2.8 the archive's version is that of the program's schema, as in "8.7"; later ones are told by their
/// programs.
std::optional<Error> refusal_for_flat(const ModelFileInfo& info) {
  if (!info.root.empty() || info.version_text.empty()) return {};
  const char* end = info.version_text.data() + info.version_text.size();
  int major = 0;
  int minor = 0;
  const auto parsed = std::from_chars(info.version_text.data(), end, major);
  if (parsed.ec != std::errc() || major == kExportedSchemaMajor) return {};
  if (parsed.ptr != end) std::from_chars(parsed.ptr + 1, end, minor);
  return unsupported_schema(info.path.string(), major, minor, {});
}

}  // namespace

std::string_view describe(ModelKind kind) { return row_of(kind).words; }
std::string_view to_string(ModelKind kind) { return row_of(kind).id; }

ModelFileInfo inspect_model_file(const std::filesystem::path& path, std::span<const std::byte> bytes,
                                 const ZipDirectory* zip) {
  ModelFileInfo info;
  info.path = path;
  info.size = bytes.size();
  if (zip) {
    read_zip(*zip, info);
  } else {
    info.kind = sniff(bytes, info);
  }
  return info;
}

ModelFileInfo inspect_model_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    ModelFileInfo info;
    info.path = path;
    const bool recording = std::filesystem::is_regular_file(path / "manifest.json", ignored) &&
                           std::filesystem::is_regular_file(path / "columns.safetensors", ignored);
    info.kind = recording ? ModelKind::kTlspec : ModelKind::kDirectory;
    return info;
  }
  const auto file = MappedFile::open(path);
  if (!looks_like_zip(file->bytes())) return inspect_model_file(path, file->bytes(), nullptr);
  const ZipDirectory zip(file->bytes(), path.string(), file);
  return inspect_model_file(path, file->bytes(), &zip);
}

std::optional<Error> refusal_for(const ModelFileInfo& info) {
  const KindRow& row = row_of(info.kind);
  const std::string where = info.path.string() + ": ";
  if (info.kind == ModelKind::kTorchScript) {
    if (!info.format_version) {
      return Error(ErrorCode::kFileDamaged, where + "a TorchScript file without a version number");
    }
    if (*info.format_version >= kMinTorchScriptVersion && *info.format_version <= kMaxTorchScriptVersion) return {};
    return Error(ErrorCode::kUnsupportedVersion,
                 where + "a TorchScript file of version " + std::to_string(*info.format_version) + ", versions " +
                     std::to_string(kMinTorchScriptVersion) + " to " + std::to_string(kMaxTorchScriptVersion) +
                     " are read",
                 "save it again with a PyTorch release no newer than the LibTorch in use",
                 *info.format_version > kMaxTorchScriptVersion
                     ? "written by a release newer than PyTorch 2.13, which writes " +
                           std::to_string(kMaxTorchScriptVersion) + "; the file does not say which"
                     : "no release writes this version");
  }
  if (info.kind == ModelKind::kExportedProgram) return refusal_for_flat(info);
  if (row.refusal == ErrorCode::kInternal) return {};
  std::string what = where + "this is " + std::string(row.words);
  if (!info.detail.empty()) what = where + "this is " + info.detail + ", " + std::string(row.words);
  if (!info.foreign_globals.empty()) what += " (it refers to " + quoted_name(info.foreign_globals.front()) + ")";
  return Error(row.refusal, what, std::string(row.hint));
}

}  // namespace tl
