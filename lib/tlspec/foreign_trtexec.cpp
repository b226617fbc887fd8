#include <charconv>
#include <cstring>

#include "core/error.h"
#include "core/text.h"
#include "tensor/npy.h"
#include "tlspec/foreign_files.h"
#include "tlspec/foreign_json.h"
#include "tlspec/foreign_notes.h"
#include "tlspec/foreign_readers.h"
#include "tlspec/stored_tensor.h"

namespace tl {
namespace {

namespace fs = std::filesystem;

std::string shown(std::string_view name) { return elide(escape_for_terminal(name), 120); }

/// `1x3x224x224`; nothing or `scalar` for a 0-d tensor. nullopt for anything else.
std::optional<std::vector<std::int64_t>> parse_dimensions(std::string_view text) {
  std::vector<std::int64_t> sizes;
  if (text.empty() || text == "scalar") return sizes;
  while (true) {
    std::int64_t size = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), size);
    if (read.ec != std::errc() || size < 0 || size > (std::int64_t{1} << 40) || sizes.size() == 16) return std::nullopt;
    sizes.push_back(size);
    text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
    if (text.empty()) return sizes;
    if (text.front() != 'x') return std::nullopt;
    text.remove_prefix(1);
  }
}

/// The product of sizes that parse_dimensions gave; -1 where it exceeds what a JSON text can hold.
std::int64_t count_of(const std::vector<std::int64_t>& sizes) {
  std::int64_t count = 1;
  for (const auto size : sizes) {
    if (size != 0 && count > (std::int64_t{1} << 40) / size) return -1;
    count *= size;
  }
  return count;
}

HostTensor read_values(const ForeignObject& record, std::vector<std::int64_t> sizes) {
  const auto values = record.list("values");
  if (!values) record.fail("values", "is missing");
  const auto count = count_of(sizes);
  if (count < 0 || static_cast<std::uint64_t>(count) != values.size()) {
    record.fail("values", "has " + std::to_string(values.size()) + " numbers, the dimensions ask for " +
                              (count < 0 ? "more than fit" : std::to_string(count)));
  }
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::size_t at = 0;
  for (const auto item : values.items()) {
    const auto number = number_of(item);
    if (!number) record.fail("values", "holds " + std::string(kind_name(item)) + ", not only numbers");
    const auto value = static_cast<float>(*number);
    std::memcpy(bytes.data() + at, &value, sizeof value);
    at += sizeof value;
  }
  return make_host_tensor(DType::kF32, std::move(sizes), std::move(bytes));
}

/// TensorRT's names of element types.
DType dtype_of(std::string_view name) {
  struct Row {
    std::string_view name;
    DType dtype;
  };
  constexpr Row kRows[] = {{"FP32", DType::kF32},  {"FLOAT", DType::kF32}, {"FP16", DType::kF16},
                           {"HALF", DType::kF16},  {"BF16", DType::kBF16}, {"INT8", DType::kI8},
                           {"INT32", DType::kI32}, {"INT64", DType::kI64}, {"UINT8", DType::kU8},
                           {"BOOL", DType::kBool}, {"FP8", DType::kF8E4M3}};
  for (const auto& row : kRows) {
    if (row.name == name) return row.dtype;
  }
  return dtype_from_name(name).value_or(DType::kNone);
}

class TensorsReader {
 public:
  explicit TensorsReader(fs::path directory)
      : directory_(std::move(directory)),
        file_(MappedFile::open(file_within(directory_, "tensor_summary.json"))),
        json_(text_of(*file_), file_->path().string(), kForeignJsonLimits) {}

  Dump read() {
    dump_.kind = "trtexec debug tensors";
    dump_.producer = "trtexec";
    const ForeignObject root(json_, json_.root(), "the document");
    if (const auto metadata = root.object("metadata")) dump_.model_class = metadata->string("engine_name");
    for (const auto& record : root.objects("tensors")) read_tensor(record);
    without_values_.append_to(dump_.notes);
    converted_.append_to(dump_.notes);
    return std::move(dump_);
  }

 private:
  void read_tensor(const ForeignObject& record) {
    DumpEntry entry;
    entry.name = record.string("name");
    entry.sizes = record.sizes("shape");
    entry.dtype = dtype_of(record.string("type"));
    if (const auto statistics = record.object("statistics")) {
      entry.statistics.min = statistics->number("min");
      entry.statistics.max = statistics->number("max");
      entry.statistics.mean = statistics->number(statistics->has("avg") ? "avg" : "mean");
    }
    const auto files = record.object("files");
    const auto numpy = files ? files->string("numpy") : "";
    if (numpy.empty()) {
      const auto& numbers = entry.statistics;
      entry.evidence = numbers.min || numbers.max || numbers.mean ? Evidence::kStatistics : Evidence::kShape;
      without_values_.add(shown(entry.name) + " has statistics only: --saveAllDebugTensors=summary,numpy keeps values");
    } else {
      read_numpy(record, numpy, entry);
    }
    dump_.entries.push_back(std::move(entry));
  }

  void read_numpy(const ForeignObject& record, const std::string& name, DumpEntry& entry) {
    const auto mapped = MappedFile::open(file_within(directory_, name));
    auto tensor = read_npy(mapped->bytes(), mapped, mapped->path().string());
    if (tensor.sizes != entry.sizes) record.fail("shape", "is another than that of " + shown(name));
    if (entry.dtype != DType::kNone && tensor.dtype != entry.dtype) {
      converted_.add(shown(entry.name) + " was " + record.string("type") + " and was written as " +
                     std::string(short_name(tensor.dtype)));
    }
    entry.dtype = tensor.dtype;
    entry.value = stored_tensor(std::move(tensor));
  }

  fs::path directory_;
  std::shared_ptr<const MappedFile> file_;
  JsonTape json_;
  Dump dump_;
  ForeignNotes without_values_{"tensors have statistics only"};
  ForeignNotes converted_{"tensors were written in another element type"};
};

}  // namespace

Dump read_trtexec_output(const fs::path&, const JsonTape& json) {
  Dump dump;
  dump.kind = "trtexec output";
  dump.producer = "trtexec";
  for (const auto item : json.root().items()) {
    const ForeignObject record(json, item, "an output");
    auto sizes = parse_dimensions(record.string("dimensions"));
    if (!sizes) record.fail("dimensions", "is '" + shown(record.string("dimensions")) + "', not sizes joined by x");
    DumpEntry entry;
    entry.name = record.string("name");
    auto tensor = read_values(record, std::move(*sizes));
    entry.dtype = tensor.dtype;
    entry.sizes = tensor.sizes;
    entry.value = stored_tensor(std::move(tensor));
    dump.entries.push_back(std::move(entry));
  }
  dump.notes.emplace_back("trtexec prints values with six digits and without their element type: they are read as f32");
  return dump;
}

Dump read_trtexec_tensors(const fs::path& directory) { return TensorsReader(directory).read(); }

}  // namespace tl
