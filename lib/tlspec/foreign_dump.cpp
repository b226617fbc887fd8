#include <algorithm>
#include <charconv>
#include <limits>

#include <unordered_map>

#include "core/error.h"
#include "core/text.h"
#include "tensor/safetensors.h"
#include "tlspec/foreign_files.h"
#include "tlspec/foreign_json.h"
#include "tlspec/foreign_notes.h"
#include "tlspec/foreign_readers.h"
#include "tlspec/manifest.h"
#include "tlspec/payload_encoding.h"
#include "tlspec/stored_tensor.h"

namespace tl {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRoot = "self";
constexpr std::size_t kMaxConstants = 1024;  // a recorder writes 64 of a module at most

std::string shown(std::string_view name) { return elide(escape_for_terminal(name), 120); }

std::optional<PayloadEncoding> encoding_from_name(std::string_view name) {
  if (name == "dense") return PayloadEncoding::kDense;
  if (name == "pairs") return PayloadEncoding::kPairs;
  if (name == "quantised") return PayloadEncoding::kQuantised;
  if (name == "sparse") return PayloadEncoding::kSparse;
  return std::nullopt;
}

class DumpReader {
 public:
  DumpReader(fs::path directory, const JsonTape& manifest)
      : directory_(std::move(directory)), root_(manifest, manifest.root(), "the manifest") {}

  Dump read() {
    dump_.kind = "recording of torchlens recorder";
    read_facts();
    read_files();
    read_modules();
    read_params();
    for (const auto& entry : root_.objects("entries")) read_entry(entry);
    skipped_.append_to(dump_.notes);
    return std::move(dump_);
  }

 private:
  void read_facts() {
    if (const auto producer = root_.object("producer")) {
      dump_.producer = producer->string("name") + " " + producer->string("version");
    }
    if (const auto source = root_.object("source")) dump_.engine = source->string("runtime");
    if (const auto model = root_.object("model")) dump_.model_class = model->string("class");
    if (const auto run = root_.object("run")) {
      dump_.device = run->string("device");
      dump_.mode = run->string("mode");
      const auto seed = run->string("seed");
      std::int64_t value = 0;
      const auto read = std::from_chars(seed.data(), seed.data() + seed.size(), value);
      if (!seed.empty() && read.ec == std::errc() && read.ptr == seed.data() + seed.size()) dump_.seed = value;
    }
    if (const auto outcome = root_.object("outcome")) {
      dump_.outcome = outcome->string("status") == "complete" ? "complete" : "failed";
      const auto type = outcome->string("error_type");
      const auto where = outcome->string("where");
      dump_.reason = (type.empty() ? "" : type + ": ") + outcome->string("reason");
      if (!where.empty()) dump_.reason += " (in " + where + ")";
    }
    for (const auto& module : root_.objects("unhooked")) {
      dump_.notes.push_back("the calls of " + shown(module.string("address")) +
                            " were not recorded: " + shown(module.string("reason")));
    }
  }

  /// Every tensors file is there and as long as the manifest says, before any of them is mapped.
  void read_files() {
    for (const auto& file : root_.objects("files")) {
      const auto name = file.string("name");
      const auto expected = shard_name(static_cast<std::int64_t>(shards_.size()));
      if (name != expected) file.fail("name", "is '" + shown(name) + "' where " + expected + " comes");
      const auto path = file_within(directory_, name);
      std::error_code error;
      const auto bytes = fs::file_size(path, error);
      const auto stated = file.integer("bytes").value_or(-1);
      if (error || stated < 0 || bytes != static_cast<std::uintmax_t>(stated)) {
        throw Error(ErrorCode::kFileDamaged, path.string() + ": has " + std::to_string(error ? 0 : bytes) +
                                                 " bytes, manifest.json says " + std::to_string(stated));
      }
      shards_.push_back(SafetensorsFile::open(path));
    }
  }

  void read_modules() {
    for (const auto& module : root_.objects("modules")) {
      DumpModule facts{module.string("address"),           module.string("class"),
                       module.string("qualified_class"),   module.string("file"),
                       module.integer("line").value_or(0), module.texts("attributes")};
      if (facts.constants.size() > kMaxConstants) {
        module.fail("attributes", "has " + std::to_string(facts.constants.size()) + " members, more than " +
                                      std::to_string(kMaxConstants));
      }
      row_of_module_[facts.address] = static_cast<std::int32_t>(dump_.modules.size());
      dump_.modules.push_back(std::move(facts));
    }
  }

  void read_params() {
    for (const auto& record : root_.objects("parameters")) {
      DumpParam param;
      param.address = record.string("address");
      for (auto& address : record.strings("addresses")) {
        if (address != param.address) param.other_addresses.push_back(std::move(address));
      }
      param.dtype = dtype_from_name(record.string("dtype")).value_or(DType::kNone);
      param.sizes = record.sizes("shape");
      param.digest = record.string("digest");
      const bool is_hex =
          std::ranges::all_of(param.digest, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
      if (!param.digest.empty() && (param.digest.size() != 32 || !is_hex)) {
        record.fail("digest", "is no 32 hex digits");
      }
      param.is_buffer = record.string("kind") == "buffer";
      dump_.params.push_back(std::move(param));
    }
  }

  void read_entry(const ForeignObject& record) {
    const auto kind = record.string("kind");
    DumpEntry entry;
    entry.name = record.string("name");
    entry.path = record.string("path");
    entry.call = record.integer("call").value_or(1);
    if (entry.call < 1) record.fail("call", "is " + std::to_string(entry.call) + ", calls count from 1");
    entry.dtype = dtype_from_name(record.string("dtype")).value_or(DType::kNone);
    entry.sizes = record.sizes("shape");
    entry.scalar = record.string("scalar");
    entry.is_tap = kind == "tap";
    if (const auto key = record.string("key"); !key.empty()) {
      entry.value = read_value(record, key, entry);
      entry.evidence = Evidence::kFull;
    } else {
      entry.evidence = Evidence::kShape;
      if (record.has("skipped")) {
        skipped_.add(shown(kind + " " + entry.name + (entry.path.empty() ? "" : "." + entry.path)) +
                     " has no value: " + shown(record.string("skipped")));
        if (entry.dtype == DType::kNone) return;
      }
    }
    place(kind, record, std::move(entry));
  }

  void place(const std::string& kind, const ForeignObject& record, DumpEntry entry) {
    if (kind == "input") {
      if (!entry.path.empty()) entry.name += "." + entry.path;
      entry.path.clear();
      dump_.inputs.push_back(std::move(entry));
      return;
    }
    if (!entry.scalar.empty()) return;  // host values that a module returned
    if (kind == "module") {
      if (const auto found = row_of_module_.find(entry.name); found != row_of_module_.end()) {
        const auto& module = dump_.modules[static_cast<std::size_t>(found->second)];
        entry.module_row = found->second;
        entry.class_name = module.class_name;
        entry.file = module.file;
        entry.line = module.line;
      }
      if (entry.name == kRoot) {
        auto output = entry;
        output.name = "output" + (entry.path.empty() ? "" : "." + entry.path);
        output.path.clear();
        dump_.outputs.push_back(std::move(output));
      }
    } else if (kind == "tap") {
      entry.file = record.string("file");
      entry.line = record.integer("line").value_or(0);
    } else {
      record.fail("kind", "is '" + shown(kind) + "', this build reads module, tap and input");
    }
    dump_.entries.push_back(std::move(entry));
  }

  TensorRefPtr read_value(const ForeignObject& record, const std::string& key, const DumpEntry& entry) {
    const auto encoding = encoding_from_name(record.string("encoding"));
    if (!encoding)
      record.fail("encoding", "is '" + shown(record.string("encoding")) + "', which this build does not read");
    const auto shard = record.integer("shard").value_or(-1);
    if (shard < 0 || static_cast<std::size_t>(shard) >= shards_.size()) {
      record.fail("shard", "is " + std::to_string(shard) + ", there are " + std::to_string(shards_.size()) + " files");
    }
    const auto& file = shards_[static_cast<std::size_t>(shard)];
    std::vector<TensorPart> parts;
    const bool one_part = *encoding == PayloadEncoding::kDense || *encoding == PayloadEncoding::kPairs;
    for (const auto suffix : part_suffixes().first(one_part ? 1 : part_suffixes().size())) {
      if (auto part = file.tensor(key + std::string(suffix))) parts.push_back({std::string(suffix), std::move(*part)});
    }
    try {
      const auto strides = contiguous_strides(entry.sizes);
      const PayloadShape shape{entry.dtype, entry.sizes, strides, 0};
      return std::make_shared<StoredTensor>(kind_of(*encoding), decode_payload(*encoding, shape, std::move(parts)));
    } catch (const Error& error) {
      throw Error(error.code, (directory_ / shard_name(shard)).string() + ": " + shown(key) + " " + error.message);
    }
  }

  fs::path directory_;
  ForeignObject root_;
  Dump dump_;
  std::vector<SafetensorsFile> shards_;
  std::unordered_map<std::string, std::int32_t> row_of_module_;
  ForeignNotes skipped_{"values were not written"};
};

}  // namespace

Dump read_recorder_dump(const fs::path& directory, const JsonTape& manifest) {
  return DumpReader(directory, manifest).read();
}

}  // namespace tl
