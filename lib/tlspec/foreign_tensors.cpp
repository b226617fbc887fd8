#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_set>

#include "archive/zip_directory.h"
#include "core/error.h"
#include "core/text.h"
#include "tensor/npy.h"
#include "tensor/safetensors.h"
#include "tlspec/foreign_files.h"
#include "tlspec/foreign_notes.h"
#include "tlspec/foreign_readers.h"
#include "tlspec/stored_tensor.h"

namespace tl {
namespace {

namespace fs = std::filesystem;

std::string shown(std::string_view name) { return elide(escape_for_terminal(name), 120); }

/// `blocks.0:2` as name and call; other names are call 1.
void set_name(DumpEntry& entry, std::string_view key) {
  entry.name = std::string(key);
  const auto colon = key.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == key.size() || key[colon + 1] == '0') return;
  std::int64_t call = 0;
  const auto read = std::from_chars(key.data() + colon + 1, key.data() + key.size(), call);
  if (read.ec != std::errc() || read.ptr != key.data() + key.size() || call < 1) return;
  entry.name = std::string(key.substr(0, colon));
  entry.call = call;
}

/// a/b.npy as a.b
std::string name_of_file(const fs::path& relative) {
  auto name = (relative.parent_path() / relative.stem()).string();
  std::ranges::replace(name, '/', '.');
  return name;
}

class TensorFilesReader {
 public:
  explicit TensorFilesReader(fs::path path) : path_(std::move(path)) {}

  Dump read() {
    std::error_code error;
    if (fs::is_directory(path_, error)) {
      dump_.kind = "directory of tensors";
      for (const auto& relative : files_in(path_, 1)) {
        const auto extension = relative.extension();
        if (extension == ".npy" || extension == ".npz" || extension == ".safetensors") {
          read_file(path_ / relative, name_of_file(relative));
        } else {
          left_out_.add("the file " + shown(relative.string()) + " is none of safetensors, npz and npy");
        }
      }
    } else {
      dump_.kind = "file of tensors";
      read_file(path_, path_.stem().string());
    }
    if (dump_.entries.empty() && refused_) throw Error(*refused_);
    left_out_.append_to(dump_.notes);
    if (from_safetensors_) {
      dump_.notes.emplace_back(
          "a safetensors file does not keep the order in which its tensors were made: the order of their names is "
          "taken");
    }
    return std::move(dump_);
  }

 private:
  void read_file(const fs::path& file, const std::string& name) {
    const auto mapped = MappedFile::open(file);
    const auto text = text_of(*mapped);
    if (text.starts_with("\x93NUMPY")) {
      add_npy(name, mapped->bytes(), mapped, file.string());
    } else if (looks_like_zip(mapped->bytes())) {
      read_npz(mapped);
    } else {
      from_safetensors_ = true;
      const auto tensors = SafetensorsFile::from_bytes(mapped->bytes(), mapped, file.string());
      std::vector<const SafetensorsEntry*> entries;
      for (const auto& entry : tensors.entries()) entries.push_back(&entry);
      std::ranges::stable_sort(entries, in_order_of_execution,
                               [](const auto* entry) -> std::string_view { return entry->name; });
      for (const auto* entry : entries) add(entry->name, tensors.tensor(*entry));
    }
  }

  void read_npz(const std::shared_ptr<const MappedFile>& mapped) {
    constexpr std::string_view kSuffix = ".npy";
    const ZipDirectory zip(mapped->bytes(), mapped->path().string(), mapped);
    zip.verify_crc();
    for (const auto& entry : zip.entries()) {
      if (entry.is_folder()) continue;
      const auto where = mapped->path().string() + ": " + shown(entry.name);
      if (!entry.name.ends_with(kSuffix)) {
        left_out_.add(where + " is no .npy");
        continue;
      }
      const auto name = entry.name.substr(0, entry.name.size() - kSuffix.size());
      if (entry.method == ZipMethod::kStored) {
        add_npy(name, zip.stored(entry), zip.owner(), where);
        continue;
      }
      const auto bytes = std::make_shared<const std::vector<std::byte>>(zip.read(entry));
      add_npy(name, *bytes, bytes, where);
    }
  }

  /// NumPy has types that are no tensor's; one such array does not spoil the others.
  void add_npy(const std::string& name, std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
               const std::string& where) {
    try {
      add(name, read_npy(bytes, std::move(owner), where));
    } catch (const Error& error) {
      if (error.code != ErrorCode::kUnsupportedKind) throw;
      left_out_.add(error.message);
      if (!refused_) refused_ = error;
    }
  }

  void add(const std::string& key, HostTensor tensor) {
    if (!keys_.insert(key).second) {
      throw Error(ErrorCode::kFileDamaged, path_.string() + ": two files hold a tensor of the name " + shown(key),
                  "name one of the files");
    }
    DumpEntry entry;
    set_name(entry, key);
    entry.dtype = tensor.dtype;
    entry.sizes = tensor.sizes;
    entry.value = stored_tensor(std::move(tensor));
    dump_.entries.push_back(std::move(entry));
  }

  fs::path path_;
  Dump dump_;
  std::unordered_set<std::string> keys_;
  bool from_safetensors_ = false;
  std::optional<Error> refused_;  ///< why the first array that was left out was
  ForeignNotes left_out_{"files or arrays were left out"};
};

}  // namespace

Dump read_tensor_files(const fs::path& path) { return TensorFilesReader(path).read(); }

}  // namespace tl
