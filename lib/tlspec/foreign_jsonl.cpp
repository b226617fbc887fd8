#include <unordered_map>
#include <unordered_set>

#include "core/error.h"
#include "core/text.h"
#include "tlspec/foreign_files.h"
#include "tlspec/foreign_json.h"
#include "tlspec/foreign_notes.h"
#include "tlspec/foreign_readers.h"

namespace tl {
namespace {

/// One record holds a dozen numbers and a shape.
constexpr JsonLimits kLineLimits = {.bytes = std::size_t{1} << 20,
                                    .depth = 8,
                                    .tokens = 4'096,
                                    .string_bytes = std::size_t{64} << 10,
                                    .unique_keys = true,
                                    .non_finite_words = true};
constexpr std::size_t kMaxRecords = 4'000'000;
constexpr std::int64_t kMaxStep = std::int64_t{1} << 53;

/// The place in a structured output as the tracer writes it (`out`, `out[0]`, `out.key`) as a path of ours (``, `0`,
/// `key`).
std::string path_of(std::string_view tensor) {
  std::string path;
  if (tensor.starts_with("out")) tensor.remove_prefix(3);
  for (const char c : tensor) {
    if (c == '[') {
      path += '.';
    } else if (c != ']') {
      path += c;
    }
  }
  return path.starts_with('.') ? path.substr(1) : path;
}

class LinesReader {
 public:
  explicit LinesReader(const std::filesystem::path& path) : path_(path), file_(MappedFile::open(path)) {}

  Dump read() {
    dump_.kind = "FastVideo activation trace";
    auto text = text_of(*file_);
    while (!text.empty()) {
      const auto end = std::min(text.find('\n'), text.size());
      auto line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      ++number_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
      read_line(line);
    }
    number_calls();
    dump_.notes.emplace_back(
        "statistics only, which are weaker evidence than values: permuted elements have the same, and equal printed "
        "digits hide small differences");
    failed_.append_to(dump_.notes);
    return std::move(dump_);
  }

 private:
  void read_line(std::string_view line) {
    if (dump_.entries.size() == kMaxRecords) {
      throw Error(ErrorCode::kFileLimits, path_.string() + ": more than " + std::to_string(kMaxRecords) + " records");
    }
    const JsonTape tape(line, path_.string() + ": line " + std::to_string(number_), kLineLimits);
    const ForeignObject record(tape, tape.root(), "the record");
    DumpEntry entry;
    entry.name = record.string("module");
    if (!record.has("module") || !record.has("tensor")) {
      throw Error(ErrorCode::kFileDamaged, tape.shown_name() + ": has no module and tensor", {},
                  "a record of an activation trace has module, tensor, step and statistics");
    }
    if (entry.name.empty()) entry.name = "self";
    entry.path = path_of(record.string("tensor"));
    steps_.push_back(record.integer("step").value_or(0));
    entry.dtype = dtype_from_name(record.string("dtype")).value_or(DType::kNone);
    entry.has_sizes = record.has("shape") && record.list("shape");
    entry.sizes = record.sizes("shape");
    read_statistics(record, entry);
    dump_.entries.push_back(std::move(entry));
  }

  void read_statistics(const ForeignObject& record, DumpEntry& entry) {
    auto& numbers = entry.statistics;
    const auto read = [&](std::string_view key, std::optional<double>& number) {
      const auto found = record.value().find(key);
      if (!found || found.is_null()) return;
      number = number_of(found);
      if (number) return;
      if (!found.is_string()) record.fail(key, "is " + std::string(kind_name(found)) + ", not a number");
      failed_.add("line " + std::to_string(number_) + ": the tracer could not take " + std::string(key) + " of " +
                  elide(escape_for_terminal(entry.name), 80) + ": " + elide(escape_for_terminal(found.string()), 80));
    };
    read("abs_mean", numbers.abs_mean);
    read("sum", numbers.sum);
    read("min", numbers.min);
    read("max", numbers.max);
    read("mean", numbers.mean);
    read("std", numbers.std);
    const bool any = numbers.abs_mean || numbers.sum || numbers.min || numbers.max || numbers.mean || numbers.std;
    entry.evidence = any ? Evidence::kStatistics : Evidence::kShape;
  }

  /// A step is a call where each module ran once a step; else calls are counted in the order of the lines.
  void number_calls() {
    std::unordered_set<std::string> seen;
    bool one_a_step = true;
    for (std::size_t i = 0; i < dump_.entries.size() && one_a_step; ++i) {
      one_a_step = steps_[i] >= 0 && steps_[i] < kMaxStep &&
                   seen.insert(key_of(dump_.entries[i]) + '\0' + std::to_string(steps_[i])).second;
    }
    std::unordered_map<std::string, std::int64_t> counts;
    for (std::size_t i = 0; i < dump_.entries.size(); ++i) {
      auto& entry = dump_.entries[i];
      entry.call = one_a_step ? steps_[i] + 1 : ++counts[key_of(entry)];
    }
    if (!one_a_step) {
      dump_.notes.emplace_back("modules ran several times a step: calls are numbered in the order of the lines");
    }
  }

  static std::string key_of(const DumpEntry& entry) { return entry.name + '\0' + entry.path; }

  std::filesystem::path path_;
  std::shared_ptr<const MappedFile> file_;
  Dump dump_;
  std::vector<std::int64_t> steps_;
  std::size_t number_ = 0;
  ForeignNotes failed_{"statistics could not be taken"};
};

}  // namespace

Dump read_statistics_lines(const std::filesystem::path& path) { return LinesReader(path).read(); }

}  // namespace tl
