#include "engine/input_files.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "archive/model_kind.h"
#include "archive/unpickler.h"
#include "archive/zip_directory.h"
#include "core/bounded_json.h"
#include "core/error.h"
#include "core/mapped_file.h"
#include "core/text.h"
#include "engine/literal.h"
#include "engine/pickle_input.h"
#include "engine/random_input.h"
#include "tensor/npy.h"
#include "tensor/safetensors.h"

namespace tl {
namespace {

namespace fs = std::filesystem;

/// Values are tensors or scalars of a model's arguments, each with a note of where it came from: 200 bytes a value.
constexpr JsonLimits kJsonLimits = {.bytes = std::size_t{16} << 20,
                                    .tokens = 1'000'000,
                                    .string_bytes = std::size_t{16} << 20,
                                    .non_finite_words = true};
constexpr std::string_view kFormats = "a file of inputs is safetensors, npy, npz, json or what torch.save wrote";

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string shown(const fs::path& path) { return path.filename().string(); }

InputValue tensor_value(HostTensor tensor, const fs::path& path, const std::string& key) {
  return {std::move(tensor), shown(path) + (key.empty() ? "" : ":" + key)};
}

bool looks_like_safetensors(std::span<const std::byte> bytes) {
  if (bytes.size() < 9 || bytes[8] != std::byte{'{'}) return false;
  std::uint64_t header = 0;
  for (std::size_t i = 0; i < 8; ++i) header |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return header <= bytes.size() - 8;
}

GivenSet read_safetensors(const fs::path& path) {
  const auto file = SafetensorsFile::open(path);
  GivenSet set;
  for (const auto& entry : file.entries()) {
    set.entries.push_back({entry.name, tensor_value(file.tensor(entry), path, entry.name)});
  }
  return set;
}

[[noreturn]] void throw_not_an_input(const std::string& shown_name, const std::string& what) {
  throw Error(ErrorCode::kNotAnInput, shown_name + ": " + what, {}, std::string(kFormats));
}

GivenSet read_npz(const ZipDirectory& zip, const fs::path& path) {
  constexpr std::string_view kSuffix = ".npy";
  GivenSet set;
  zip.verify_crc();
  for (const auto& entry : zip.entries()) {
    if (entry.is_folder()) continue;
    const auto key = entry.name.substr(0, entry.name.size() - kSuffix.size());
    const auto name = shown(path) + ":" + key;
    if (entry.method == ZipMethod::kStored) {
      set.entries.push_back({key, tensor_value(read_npy(zip.stored(entry), zip.owner(), name), path, key)});
      continue;
    }
    const auto bytes = std::make_shared<const std::vector<std::byte>>(zip.read(entry));
    set.entries.push_back({key, tensor_value(read_npy(*bytes, bytes, name), path, key)});
  }
  return set;
}

GivenSet read_zip(const std::shared_ptr<const MappedFile>& file, const fs::path& path) {
  const ZipDirectory zip(file->bytes(), path.string(), file);
  const bool arrays = std::ranges::all_of(
      zip.entries(), [](const ZipEntry& entry) { return entry.is_folder() || entry.name.ends_with(".npy"); });
  if (arrays) return read_npz(zip, path);
  const auto root = archive_root(zip);
  if (zip.find(root + "data.pkl") == nullptr || zip.find(root + "constants.pkl") != nullptr) {
    const auto other = std::ranges::find_if_not(
        zip.entries(), [](const ZipEntry& entry) { return entry.is_folder() || entry.name.ends_with(".npy"); });
    throw_not_an_input(path.string(), "a zip archive, but no npz ('" + elide(other->name, 80) +
                                          "' is no .npy) and nothing that torch.save wrote");
  }
  zip.verify_crc();
  return given_from_pickle(read_torch_pickle(zip, root + "data.pkl", root + "data/"), shown(path));
}

bool may_be_json(std::string_view text) {
  const auto start = text.find_first_not_of(" \t\r\n");
  return start != std::string_view::npos &&
         std::string_view("{[\"-0123456789tfnNI").find(text[start]) != std::string_view::npos;
}

GivenSet read_json(std::string_view text, const std::string& path, const std::string& source) {
  if (text.starts_with("\xef\xbb\xbf") || text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) {
    throw_not_an_input(path, "begins with a byte order mark; save it as UTF-8 without one");
  }
  if (!may_be_json(text)) throw_not_an_input(path, "not a file of inputs");
  check_json(text, path, kJsonLimits);
  std::string reason;
  auto value = parse_literal(text, source, &reason);
  if (!value) throw Error(ErrorCode::kFileDamaged, path + ": " + reason);
  return given_from_value(std::move(*value));
}

/// JSON from standard input.
GivenSet read_standard_input() {
  std::string text;
  std::array<char, 65536> block{};
  while (text.size() <= kJsonLimits.bytes) {
    const auto count = ::read(STDIN_FILENO, block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw Error(ErrorCode::kFileMissing, std::string("standard input: ") + std::strerror(errno));
    if (count == 0) break;
    text.append(block.data(), static_cast<std::size_t>(count));
  }
  if (text.empty()) throw_not_an_input("standard input", "is empty");
  if (!may_be_json(text)) throw_not_an_input("standard input", "holds no JSON; only JSON is read from there");
  return read_json(text, "standard input", "stdin");
}

/// A pickle outside a zip archive: what torch.save wrote before 1.6, or pickle.dump.
GivenSet read_bare_pickle(const fs::path& path) {
  try {
    return given_from_pickle(read_torch_pickle(path), shown(path));
  } catch (Error& error) {
    if (error.code == ErrorCode::kNotAModel) error.code = ErrorCode::kNotAnInput;
    throw;
  }
}

/// Files that stand for another one under its name.
void refuse_placeholder(const fs::path& path, std::span<const std::byte> bytes) {
  const auto info = inspect_model_file(path, bytes, nullptr);
  if (info.kind != ModelKind::kLfsPointer && info.kind != ModelKind::kHtml) return;
  throw_not_an_input(path.string(), "this is " + std::string(describe(info.kind)));
}

GivenSet read_by_content(const fs::path& path) {
  const auto file = MappedFile::open(path);
  const auto bytes = file->bytes();
  const auto text = text_of(bytes);
  if (bytes.empty()) throw_not_an_input(path.string(), "the file is empty");
  if (text.starts_with("\x93NUMPY")) {
    GivenSet set;
    set.entries.push_back({"", tensor_value(read_npy(bytes, file, path.string()), path, "")});
    return set;
  }
  if (looks_like_zip(bytes)) return read_zip(file, path);
  if (!looks_like_safetensors(bytes)) refuse_placeholder(path, bytes);
  if (looks_like_safetensors(bytes) || path.extension() == ".safetensors") return read_safetensors(path);
  if (text.front() == '\x80') return read_bare_pickle(path);
  return read_json(text, path.string(), shown(path));
}

/// FILE:KEY, where no file has that whole name.
std::pair<fs::path, std::string> split_key(const std::string& text) {
  std::error_code error;
  if (fs::exists(text, error)) return {text, {}};
  for (auto colon = text.find(':'); colon != std::string::npos; colon = text.find(':', colon + 1)) {
    if (fs::exists(text.substr(0, colon), error)) return {text.substr(0, colon), text.substr(colon + 1)};
  }
  return {text, {}};
}

std::string keys_text(const GivenSet& set) {
  constexpr std::size_t kShown = 20;
  std::string keys;
  for (std::size_t i = 0; i < set.entries.size() && i < kShown; ++i) {
    keys += (i > 0 ? ", " : "") + elide(set.entries[i].name, 80);
  }
  if (set.entries.size() > kShown) keys += " and " + std::to_string(set.entries.size() - kShown) + " more";
  return keys.empty() ? "none" : keys;
}

GivenSet select_key(GivenSet set, const std::string& name, const std::string& key) {
  const auto entry = std::ranges::find(set.entries, key, &GivenInput::name);
  if (entry == set.entries.end()) {
    std::vector<std::string> names;
    for (const auto& other : set.entries) names.push_back(other.name);
    const auto close = did_you_mean(key, names, 1);
    throw Error(ErrorCode::kUsage, set.label + ": no entry of the name " + key,
                close.empty() ? "" : "did you mean " + close[0] + "?", "it holds " + keys_text(set));
  }
  GivenSet result;
  result.label = set.label;
  result.entries.push_back({name, std::move(entry->value)});
  return result;
}

/// The content of a file under one name: its value, or its parts below the name.
GivenSet put_under(GivenSet set, const std::string& name) {
  GivenSet result;
  result.label = set.label;
  if (set.whole) {
    result.entries.push_back({name, std::move(*set.whole)});
  } else if (set.entries.size() == 1) {
    result.entries.push_back({name, std::move(set.entries.front().value)});
  } else {
    for (auto& entry : set.entries) result.entries.push_back({name + "." + entry.name, std::move(entry.value)});
  }
  return result;
}

/// `NAME=` may hold anything that a key of a dict may; a slash is taken for that of a path.
bool is_name(std::string_view text) { return !text.empty() && text.find('/') == std::string_view::npos; }

bool looks_like_path(const std::string& value) {
  constexpr std::array<std::string_view, 8> kSuffixes = {".safetensors", ".npy", ".npz", ".json",
                                                         ".pt",          ".pth", ".bin", ".pkl"};
  const auto file = value.substr(0, value.find(':'));
  return file.find('/') != std::string::npos ||
         std::ranges::any_of(kSuffixes, [&](std::string_view suffix) { return file.ends_with(suffix); });
}

/// The text as a JSON string in single quotes of a shell.
std::string quoted(const std::string& name, const std::string& value) {
  std::string text = "'" + name + "=\"";
  for (const char c : value) {
    if (c == '\'') {
      text += "'\\''";
    } else {
      text += (c == '"' || c == '\\' ? "\\" : "") + std::string(1, c);
    }
  }
  return text + "\"'";
}

[[noreturn]] void throw_no_value(const std::string& name, const std::string& value, const std::string& reason) {
  const auto option = "--input " + name + "=" + value;
  if (looks_like_path(value)) throw Error(ErrorCode::kFileMissing, option + ": no such file");
  if (std::string_view("0123456789+-.[({\"").find(value.front()) != std::string_view::npos) {
    throw Error(ErrorCode::kUsage, option + ": " + reason, "write NAME=FILE, NAME=3, NAME=[1,2] or NAME=\"text\"");
  }
  constexpr std::array<std::string_view, 8> kFlags = {"yes", "no", "on", "off", "TRUE", "FALSE", "y", "n"};
  const bool flag = std::ranges::find(kFlags, value) != kFlags.end();
  throw Error(ErrorCode::kFileMissing, option + ": neither a value nor a file that exists",
              (flag ? "a flag is given as true or false; " : "") + std::string("a string is given with its quotes: ") +
                  "--input " + quoted(name, value));
}

GivenSet read_named(const std::string& name, const std::string& value) {
  GivenSet set;
  std::string reason;
  // A value is one whatever files there are; ./3 is the file.
  if (auto literal = parse_literal(value, value, &reason)) {
    set.label = "--input";
    set.entries.push_back({name, std::move(*literal)});
  } else if (value == "-") {
    set = put_under(read_input_file(value), name);
  } else {
    std::error_code error;
    const auto [file, key] = split_key(value);
    if (!fs::exists(file, error)) throw_no_value(name, value, reason);
    set = key.empty() ? put_under(read_input_file(file), name) : select_key(read_input_file(file), name, key);
  }
  set.names_are_meant = true;
  return set;
}

/// FILE, or FILE:KEY under the key's own name.
GivenSet read_unnamed(const std::string& text) {
  const auto [file, key] = split_key(text);
  return key.empty() ? read_input_file(file) : select_key(read_input_file(file), key, key);
}

}  // namespace

GivenSet read_input_file(const fs::path& path) {
  auto set = path == "-" ? read_standard_input() : read_by_content(path);
  set.label = path == "-" ? "stdin" : shown(path);
  return set;
}

GivenSet read_input_option(const std::string& text) {
  std::error_code error;
  if (text.empty()) throw Error(ErrorCode::kUsage, "--input: an empty text", "write FILE, NAME=FILE or NAME=3");
  const auto equals = text.find('=');
  if (equals == std::string::npos || fs::exists(text, error)) return read_unnamed(text);
  if (equals == 0) {
    throw Error(ErrorCode::kUsage, "--input " + text + ": no name before '='", "write NAME=FILE, NAME=3 or NAME=none");
  }
  if (!is_name(std::string_view(text).substr(0, equals))) return read_unnamed(text);
  if (equals + 1 == text.size()) {
    throw Error(ErrorCode::kUsage, "--input " + text + ": nothing after '='", "write NAME=FILE, NAME=3 or NAME=none");
  }
  return read_named(text.substr(0, equals), text.substr(equals + 1));
}

std::vector<GivenSet> read_input_options(std::span<const std::string> options) {
  std::vector<GivenSet> sets;
  std::optional<Error> first;
  for (const auto& option : options) {
    try {
      sets.push_back(read_input_option(option));
    } catch (const Error& error) {
      if (!first) {
        first = error;
      } else {
        first->note += (first->note.empty() ? "" : "\n") + std::string("also, ") + error.message;
      }
    }
  }
  if (first) throw std::move(*first);
  return sets;
}

GivenSet make_random_inputs(std::span<const std::string> specs, std::uint64_t seed) {
  GivenSet set;
  set.label = "--random";
  set.names_are_meant = true;
  for (const auto& text : specs) {
    const auto spec = parse_random_spec(text);
    set.entries.push_back({spec.name, InputValue{make_random_tensor(spec, seed), "random"}});
  }
  return set;
}

}  // namespace tl
