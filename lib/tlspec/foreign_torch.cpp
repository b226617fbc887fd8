#include "tlspec/foreign_torch.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "archive/unpickler.h"
#include "archive/zip_directory.h"
#include "core/error.h"
#include "core/text.h"
#include "tlspec/foreign_files.h"
#include "tlspec/foreign_notes.h"
#include "tlspec/foreign_readers.h"
#include "tlspec/stored_tensor.h"

namespace tl {
namespace {

namespace fs = std::filesystem;

std::string shown(std::string_view name) { return elide(escape_for_terminal(name), 120); }

/// What the name of a file of SGLang's dumper says: `step=0___rank=0___dump_index=7___name=hidden___layer_id=3`.
struct DumperName {
  std::string name;  ///< with the tags that tell sites apart: hidden[layer_id=3]
  std::int64_t step = 0;
  std::int64_t rank = 0;
  std::int64_t index = 0;
};

std::int64_t number_or_zero(std::string_view text) {
  std::int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  return read.ec == std::errc() && read.ptr == text.data() + text.size() ? value : 0;
}

std::optional<DumperName> parse_dumper_name(std::string_view stem) {
  constexpr std::string_view kSeparator = "___";
  DumperName result;
  std::string tags;
  while (!stem.empty()) {
    const auto end = std::min(stem.find(kSeparator), stem.size());
    const auto part = stem.substr(0, end);
    stem.remove_prefix(std::min(end + kSeparator.size(), stem.size()));
    const auto equals = part.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const auto key = part.substr(0, equals);
    const auto value = part.substr(equals + 1);
    if (key == "name") {
      result.name = std::string(value);
    } else if (key == "step" || key == "forward_pass_id") {
      result.step = number_or_zero(value);
    } else if (key == "rank") {
      result.rank = number_or_zero(value);
    } else if (key == "dump_index") {
      result.index = number_or_zero(value);
    } else if (key != "recompute_status" && !key.ends_with("_rank")) {
      tags += (tags.empty() ? "" : ",") + std::string(part);
    }
  }
  if (result.name.empty()) return std::nullopt;
  if (!tags.empty()) result.name += "[" + tags + "]";
  return result;
}

/// `Pass00012.pt` of SGLang's forward hooks.
std::optional<std::int64_t> parse_pass(std::string_view stem) {
  if (!stem.starts_with("Pass") || stem.size() < 5 || stem.size() > 16) return std::nullopt;
  stem.remove_prefix(4);
  if (!std::ranges::all_of(stem, [](char c) { return c >= '0' && c <= '9'; })) return std::nullopt;
  return number_or_zero(stem);
}

/// The values of a pickle as entries.
class Values {
 public:
  Values(std::vector<DumpEntry>& entries, ForeignNotes& left_out) : entries_(entries), left_out_(left_out) {}

  void add(const std::string& name, const std::string& path, std::int64_t call, const PickleValue& value) {
    if (const auto* tensor = value.tensor()) {
      DumpEntry entry;
      entry.name = name;
      entry.path = path;
      entry.call = call;
      entry.dtype = tensor->dtype;
      entry.sizes = tensor->sizes;
      entry.value = stored_tensor(*tensor);
      entries_.push_back(std::move(entry));
    } else if (const auto* sequence = value.sequence()) {
      for (std::size_t i = 0; i < sequence->items.size(); ++i) {
        add(name, below(path, std::to_string(i)), call, sequence->items[i]);
      }
    } else if (const auto* dict = value.dict()) {
      for (const auto& [key, item] : dict->items) add(name, below(path, key_text(key)), call, item);
    } else if (value.sparse_tensor() != nullptr || value.quantised_tensor() != nullptr) {
      left_out_.add(shown(name) + " is a sparse or quantised tensor, which is not read from a .pt");
    }
  }

  static std::string key_text(const PickleValue& key) {
    if (const auto* text = key.string()) return *text;
    if (const auto* number = key.integer()) return std::to_string(*number);
    return std::string(type_name(key));
  }

 private:
  static std::string below(const std::string& path, const std::string& name) {
    return path.empty() ? name : path + "." + name;
  }

  std::vector<DumpEntry>& entries_;
  ForeignNotes& left_out_;
};

class TorchFilesReader {
 public:
  explicit TorchFilesReader(fs::path path) : path_(std::move(path)) {}

  Dump read() {
    std::error_code error;
    if (fs::is_directory(path_, error)) {
      read_directory();
    } else {
      dump_.kind = "torch.save file";
      read_named(path_, 1);
    }
    left_out_.append_to(dump_.notes);
    return std::move(dump_);
  }

 private:
  void read_directory() {
    std::vector<std::pair<DumperName, fs::path>> dumped;
    std::vector<std::pair<std::int64_t, fs::path>> passes;
    for (const auto& relative : files_in(path_, 2)) {
      if (relative.extension() != ".pt") continue;
      const auto stem = relative.stem().string();
      if (auto name = parse_dumper_name(stem)) {
        dumped.emplace_back(std::move(*name), relative);
      } else if (const auto pass = parse_pass(stem)) {
        passes.emplace_back(*pass, relative);
      } else {
        left_out_.add("the file " + shown(relative.string()) + " is none of SGLang's");
      }
    }
    dump_.kind = "SGLang dump";
    dump_.producer = "SGLang";
    if (!dumped.empty()) return read_dumped(std::move(dumped));
    if (!passes.empty()) return read_passes(passes);
    throw Error(ErrorCode::kNotATrace, path_.string() + ": holds no file that SGLang's dumpers write",
                "name one .pt file, or save the tensors as safetensors");
  }

  /// The ranks hold parts of the same values; one of them is read.
  void read_dumped(std::vector<std::pair<DumperName, fs::path>> files) {
    std::ranges::stable_sort(files, {}, [](const auto& file) { return file.first.index; });
    const auto rank = std::ranges::min(files, {}, [](const auto& file) { return file.first.rank; }).first.rank;
    std::map<std::string, std::int64_t> calls;
    std::size_t others = 0;
    for (const auto& [name, relative] : files) {
      if (name.rank != rank) {
        ++others;
        continue;
      }
      const auto value = read_torch_pickle(path_ / relative);
      const auto* dict = value.dict();
      const auto* inner = dict == nullptr ? nullptr : dict->find("value");
      Values(dump_.entries, left_out_).add(name.name, "", ++calls[name.name], inner == nullptr ? value : *inner);
    }
    note_ranks(rank, others);
  }

  void read_passes(const std::vector<std::pair<std::int64_t, fs::path>>& files) {
    const auto first = files.front().second.parent_path();
    std::size_t others = 0;
    for (const auto& [pass, relative] : files) {
      if (relative.parent_path() != first) {
        ++others;
        continue;
      }
      read_named(path_ / relative, pass + 1);
    }
    note_ranks(0, others);
  }

  void note_ranks(std::int64_t rank, std::size_t others) {
    if (others == 0) return;
    dump_.notes.push_back("of several ranks one is read (rank " + std::to_string(rank) + "); " +
                          std::to_string(others) + " files of others are left out");
  }

  /// A dict of tensors by name, or one tensor under the name of the file.
  void read_named(const fs::path& file, std::int64_t call) {
    const auto value = read_torch_pickle(file);
    Values values(dump_.entries, left_out_);
    const auto* dict = value.dict();
    if (dict == nullptr) return values.add(file.stem().string(), "", call, value);
    for (const auto& [key, item] : dict->items) values.add(Values::key_text(key), "", call, item);
  }

  fs::path path_;
  Dump dump_;
  ForeignNotes left_out_{"values were left out"};
};

}  // namespace

HostTensor read_torch_tensor(std::shared_ptr<const std::vector<std::byte>> bytes, const std::string& shown_name) {
  const ZipDirectory zip(*bytes, shown_name, bytes);
  const auto root = archive_root(zip);
  const auto value = read_torch_pickle(zip, root + "data.pkl", root + "data/");
  if (const auto* tensor = value.tensor()) return *tensor;
  throw Error(ErrorCode::kUnsupportedKind, shown_name + ": holds a " + std::string(type_name(value)) + ", no tensor");
}

Dump read_torch_files(const fs::path& path) { return TorchFilesReader(path).read(); }

}  // namespace tl
