#include "engine/input_files.h"

#include <algorithm>
#include <string_view>

#include "archive/unpickler.h"
#include "archive/zip_directory.h"
#include "core/error.h"
#include "core/mapped_file.h"
#include "engine/literal.h"
#include "engine/pickle_input.h"
#include "engine/random_input.h"
#include "tensor/npy.h"
#include "tensor/safetensors.h"

namespace tl {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxJsonBytes = std::size_t{16} << 20;
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

GivenSet read_npz(const ZipDirectory& zip, const fs::path& path) {
  constexpr std::string_view kSuffix = ".npy";
  GivenSet set;
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
    throw Error(ErrorCode::kNotAnInput, path.string() + ": a zip archive, but no npz and nothing that torch.save wrote",
                {}, std::string(kFormats));
  }
  return given_from_pickle(read_torch_pickle(zip, root + "data.pkl", root + "data/"), shown(path));
}

GivenSet read_json(std::string_view text, const fs::path& path) {
  if (text.size() > kMaxJsonBytes) {
    throw Error(ErrorCode::kFileLimits, path.string() + ": JSON of " + std::to_string(text.size()) +
                                            " bytes, the limit is " + std::to_string(kMaxJsonBytes));
  }
  auto value = parse_literal(text, shown(path));
  if (!value) throw Error(ErrorCode::kNotAnInput, path.string() + ": not a file of inputs", {}, std::string(kFormats));
  return given_from_value(std::move(*value));
}

GivenSet read_by_content(const fs::path& path) {
  const auto file = MappedFile::open(path);
  const auto bytes = file->bytes();
  const auto text = text_of(bytes);
  if (bytes.empty())
    throw Error(ErrorCode::kNotAnInput, path.string() + ": the file is empty", {}, std::string(kFormats));
  if (text.starts_with("\x93NUMPY")) {
    GivenSet set;
    set.entries.push_back({"", tensor_value(read_npy(bytes, file, path.string()), path, "")});
    return set;
  }
  if (looks_like_zip(bytes)) return read_zip(file, path);
  if (looks_like_safetensors(bytes) || path.extension() == ".safetensors") return read_safetensors(path);
  if (text.front() == '\x80') return given_from_pickle(read_torch_pickle(path), shown(path));
  return read_json(text, path);
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

GivenSet select_key(GivenSet set, const std::string& name, const std::string& key) {
  const auto entry = std::ranges::find(set.entries, key, &GivenInput::name);
  if (entry == set.entries.end()) {
    std::string keys;
    for (const auto& other : set.entries) keys += (keys.empty() ? "" : ", ") + other.name;
    throw Error(ErrorCode::kUsage, set.label + ": no tensor of the name " + key, {},
                "it holds " + (keys.empty() ? "none" : keys));
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

bool is_name(std::string_view text) {
  const auto good = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-' || c >= 0x80;
  };
  return !text.empty() && std::ranges::all_of(text, good);
}

GivenSet read_named(const std::string& name, const std::string& value) {
  GivenSet set;
  std::error_code error;
  if (auto literal = fs::exists(value, error) ? std::nullopt : parse_literal(value, value)) {
    set.label = "--input";
    set.entries.push_back({name, std::move(*literal)});
  } else {
    const auto [file, key] = split_key(value);
    if (!fs::exists(file, error)) {
      throw Error(ErrorCode::kFileMissing, "--input " + name + "=" + value + ": neither a value nor a file that exists",
                  "a string is given with its quotes: --input '" + name + "=\"" + value + "\"'");
    }
    set = key.empty() ? put_under(read_input_file(file), name) : select_key(read_input_file(file), name, key);
  }
  set.names_are_meant = true;
  return set;
}

}  // namespace

GivenSet read_input_file(const fs::path& path) {
  auto set = read_by_content(path);
  set.label = shown(path);
  return set;
}

GivenSet read_input_option(const std::string& text) {
  std::error_code error;
  const auto equals = text.find('=');
  if (equals == std::string::npos || fs::exists(text, error) || !is_name(std::string_view(text).substr(0, equals))) {
    return read_input_file(text);
  }
  if (equals + 1 == text.size()) {
    throw Error(ErrorCode::kUsage, "--input " + text + ": nothing after '='", "write NAME=FILE, NAME=3 or NAME=none");
  }
  return read_named(text.substr(0, equals), text.substr(equals + 1));
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
