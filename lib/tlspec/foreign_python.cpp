#include <charconv>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "core/error.h"
#include "core/text.h"
#include "tensor/safetensors.h"
#include "tlspec/foreign_files.h"
#include "tlspec/foreign_json.h"
#include "tlspec/foreign_notes.h"
#include "tlspec/foreign_readers.h"

namespace tl {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTensorName = "data";  // of the one tensor of a blob

std::string shown(std::string_view name) { return elide(escape_for_terminal(name), 120); }

/// A blob, opened when its value is asked for, so that a recording of thousands of them costs nothing to open.
class Blob final : public TensorRef {
 public:
  Blob(fs::path path, DType dtype, std::vector<std::int64_t> sizes)
      : path_(std::move(path)), dtype_(dtype), sizes_(std::move(sizes)) {}
  TensorKind kind() const override { return TensorKind::kStrided; }
  std::vector<TensorPart> to_host() const override {
    const auto file = SafetensorsFile::open(path_);
    auto tensor = file.tensor(kTensorName);
    if (!tensor) throw Error(ErrorCode::kFileDamaged, path_.string() + ": holds no tensor named data");
    if (tensor->dtype != dtype_ || tensor->sizes != sizes_) {
      throw Error(ErrorCode::kFileDamaged, path_.string() + ": holds " + described(tensor->dtype, tensor->sizes) +
                                               ", manifest.json says " + described(dtype_, sizes_));
    }
    std::vector<TensorPart> parts;
    parts.push_back({"", std::move(*tensor)});
    return parts;
  }

 private:
  static std::string described(DType dtype, const std::vector<std::int64_t>& sizes) {
    std::string text = std::string(short_name(dtype)) + "[";
    for (std::size_t i = 0; i < sizes.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(sizes[i]);
    return text + "]";
  }

  fs::path path_;
  DType dtype_;
  std::vector<std::int64_t> sizes_;
};

/// `linear_1_3:2` as layer and pass; a label without a number is pass 1.
std::pair<std::string, std::int64_t> split_pass(const std::string& label) {
  const auto colon = label.rfind(':');
  std::int64_t pass = 1;
  if (colon == std::string::npos) return {label, pass};
  const auto* end = label.data() + label.size();
  const auto read = std::from_chars(label.data() + colon + 1, end, pass);
  if (read.ec != std::errc() || read.ptr != end || pass < 1) return {label, 1};
  return {label.substr(0, colon), pass};
}

struct Site {
  std::string function;
  std::string module;  ///< innermost module call, cell.i2h:1; empty outside
};

class PythonReader {
 public:
  PythonReader(fs::path directory, const JsonTape& manifest)
      : directory_(std::move(directory)), root_(manifest, manifest.root(), "the manifest") {}

  Dump read() {
    check_identity();
    read_facts();
    read_sites();
    for (const auto& record : root_.objects("tensors")) {
      if (record.string("kind") == "out") read_out(record);
    }
    for (const auto& record : root_.objects("unsupported_tensors")) {
      left_out_.add(shown(record.string("label")) + " has no value: the package could not save it");
    }
    left_out_.append_to(dump_.notes);
    if (dump_.entries.empty() && dump_.inputs.empty()) {
      throw Error(ErrorCode::kActivationNotSaved,
                  directory_.string() + ": holds no activations (save level " + shown(root_.string("save_level")) + ")",
                  "save it at the level portable, or record with torchlens recorder python");
    }
    add_module_outputs();
    dump_.notes.emplace_back("a recording of the Python package states no edges outside its pickle, which is not read");
    return std::move(dump_);
  }

 private:
  void check_identity() const {
    const auto version = root_.integer("tlspec_version").value_or(0);
    if (version < 1) root_.fail("tlspec_version", "is " + std::to_string(version));
    const auto kind = root_.string("kind");
    if (!kind.empty() && kind != "trace") {
      throw Error(ErrorCode::kUnsupportedKind, directory_.string() + ": holds a " + shown(kind) +
                                                   " of the Python package, this build reads its traces");
    }
    const auto format = root_.string("body_format");
    if (!format.empty() && format != "safetensors") {
      throw Error(ErrorCode::kUnsupportedKind, directory_.string() + ": its tensors are in the format " +
                                                   shown(format) + ", this build reads safetensors");
    }
  }

  void read_facts() {
    dump_.kind = "recording of Python TorchLens";
    dump_.producer = "TorchLens " + root_.string("torchlens_version");
    dump_.engine = "torch " + root_.string("torch_version");
    if (const auto provenance = root_.object("provenance")) {
      for (const auto& device : provenance->strings("capture_devices")) {
        dump_.device += (dump_.device.empty() ? "" : ", ") + device;
      }
    }
    const auto signature = root_.string("model_signature");
    dump_.model_class = signature.substr(signature.rfind('.') + 1);
  }

  void read_sites() {
    for (const auto& site : root_.objects("sites")) {
      sites_[site.string("layer_label")].push_back({site.string("function_path"), site.string("module_path")});
    }
  }

  void read_out(const ForeignObject& record) {
    DumpEntry entry;
    std::tie(entry.name, entry.call) = split_pass(record.string("label"));
    const auto dtype = dtype_from_name(record.string("dtype"));
    entry.sizes = record.sizes("shape");
    entry.is_op = true;
    if (const auto found = sites_.find(entry.name);
        found != sites_.end() && static_cast<std::uint64_t>(entry.call) <= found->second.size()) {
      const auto& site = found->second[static_cast<std::size_t>(entry.call - 1)];
      entry.operation = site.function == "none" ? "" : site.function;
      entry.module = site.module;
    }
    const auto layout = record.string("layout");
    if (!dtype || (!layout.empty() && layout != "strided")) {
      left_out_.add(shown(record.string("label")) + " has no value that is read: " + shown(record.string("dtype")) +
                    " " + shown(layout));
      return;
    }
    entry.dtype = *dtype;
    entry.value =
        std::make_shared<Blob>(file_within(directory_, record.string("relative_path"), 2), *dtype, entry.sizes);
    place(std::move(entry));
  }

  /// The package calls arguments and results input_1, output_1 …, without the names of the signature.
  void place(DumpEntry entry) {
    const bool is_input = entry.name.starts_with("input_") && entry.operation.empty();
    const bool is_output = entry.name.starts_with("output_") && entry.operation.empty();
    if (is_input) {
      entry.name = std::to_string(dump_.inputs.size());
      dump_.inputs.push_back(std::move(entry));
    } else if (is_output) {
      entry.name = "output." + std::to_string(dump_.outputs.size());
      dump_.outputs.push_back(std::move(entry));
    } else {
      dump_.entries.push_back(std::move(entry));
    }
  }

  /// A module call whose only Op is known returned that Op's value.
  void add_module_outputs() {
    if (dump_.outputs.size() == 1) dump_.outputs.front().name = "output";
    std::unordered_map<std::string, std::pair<std::size_t, std::size_t>> calls;  // number of Ops, one of them
    for (std::size_t i = 0; i < dump_.entries.size(); ++i) {
      const auto& module = dump_.entries[i].module;
      if (module.empty()) continue;
      auto& [count, op] = calls[module];
      ++count;
      op = i;
    }
    std::vector<DumpEntry> entries;
    entries.reserve(2 * dump_.entries.size());
    for (std::size_t i = 0; i < dump_.entries.size(); ++i) {
      const auto module = dump_.entries[i].module;
      const bool only = !module.empty() && calls.at(module).first == 1 && !has_children(module);
      entries.push_back(std::move(dump_.entries[i]));
      if (!only) continue;
      auto entry = entries.back();
      std::tie(entry.name, entry.call) = split_pass(module);
      entry.is_op = false;
      entries.push_back(std::move(entry));
    }
    dump_.entries = std::move(entries);
  }

  /// True if Ops ran in a module below the address of `call`.
  bool has_children(const std::string& call) {
    if (parents_.empty()) {
      parents_.insert("");
      for (const auto& [label, sites] : sites_) {
        for (const auto& site : sites) {
          const auto address = split_pass(site.module).first;
          for (auto dot = address.rfind('.'); dot != std::string::npos && dot > 0; dot = address.rfind('.', dot - 1)) {
            if (!parents_.insert(address.substr(0, dot)).second) break;
          }
        }
      }
    }
    return parents_.contains(split_pass(call).first);
  }

  fs::path directory_;
  ForeignObject root_;
  Dump dump_;
  std::unordered_map<std::string, std::vector<Site>> sites_;
  std::unordered_set<std::string> parents_;
  ForeignNotes left_out_{"activations have no value"};
};

}  // namespace

Dump read_python_torchlens(const fs::path& directory, const JsonTape& manifest) {
  return PythonReader(directory, manifest).read();
}

}  // namespace tl
