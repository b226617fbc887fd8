#include "archive/source_texts.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "archive/limits.h"
#include "archive/unpickler.h"
#include "archive/zip_directory.h"
#include "core/error.h"

namespace tl {
namespace {

constexpr std::string_view kPositionsEnding = ".debug_pkl";

/// Collects the texts of one `.debug_pkl`: (offset, ((text, file, line), start, end), tag) for pieces of a source, in a
/// tuple; or ("FORMAT_WITH_STRING_TABLE", strings, that tuple) with texts as lists of indices into the strings
/// (torch/csrc/jit/serialization/source_range_serialization.cpp).
class Collector {
 public:
  /// `total` counts the bytes of texts over all entries of an archive.
  Collector(std::string where, std::vector<SourceText>& texts, std::uint64_t& total)
      : where_(std::move(where)), texts_(texts), total_(total) {}

  void collect(const PickleValue& root) {
    const auto* items = &tuple(root, 1);
    const std::string* format = items->front().string();
    if (format != nullptr && *format == "FORMAT_WITH_STRING_TABLE") {
      if (items->size() < 3) damaged("a table without rows");
      strings_ = &tuple((*items)[1], 0);
      items = &tuple((*items)[2], 0);
    }
    for (const PickleValue& row : *items) add(tuple(tuple(tuple(row, 2)[1], 3)[0], 3));
  }

 private:
  [[noreturn]] void damaged(const std::string& what) const {
    throw Error(ErrorCode::kFileDamaged, where_ + ": source positions with " + what);
  }

  const std::vector<PickleValue>& tuple(const PickleValue& value, std::size_t least) const {
    const PickleSequence* sequence = value.sequence();
    if (sequence == nullptr) damaged("a " + std::string(type_name(value)) + " where a tuple belongs");
    if (sequence->items.size() < least) damaged("a tuple of " + std::to_string(sequence->items.size()) + " values");
    return sequence->items;
  }

  std::int64_t number(const PickleValue& value) const {
    if (value.integer() == nullptr) damaged("a " + std::string(type_name(value)) + " where a number belongs");
    return *value.integer();
  }

  const std::string& string_at(const PickleValue& value) const {
    const std::string* text = value.string();
    if (strings_ != nullptr) {
      const std::int64_t index = number(value);
      if (index < 0 || static_cast<std::uint64_t>(index) >= strings_->size()) {
        damaged("text " + std::to_string(index) + " of " + std::to_string(strings_->size()));
      }
      text = (*strings_)[static_cast<std::size_t>(index)].string();
    }
    if (text == nullptr) damaged("a " + std::string(type_name(value)) + " where a text belongs");
    return *text;
  }

  /// Rows share their source; each is looked at once.
  void add(const std::vector<PickleValue>& source) {
    if (!seen_.insert(&source).second) return;
    const std::int64_t line = number(source[2]);
    if (strings_ == nullptr && source[1].is_none()) return;
    SourceText text{string_at(source[1]), line, {}};
    if (strings_ == nullptr) {
      text.text = string_at(source[0]);
    } else {
      for (const PickleValue& piece : tuple(source[0], 0)) text.text += string_at(piece);
    }
    total_ += text.text.size();
    if (total_ > limits::kPickleBytes) {
      throw Error(ErrorCode::kFileLimits, where_ + ": source positions make more than " +
                                              std::to_string(limits::kPickleBytes) + " bytes out of repeated texts");
    }
    if (!text.file.empty() && !text.text.empty() && line > 0) texts_.push_back(std::move(text));
  }

  std::string where_;
  std::vector<SourceText>& texts_;
  const std::vector<PickleValue>* strings_ = nullptr;  // null: texts stand in the rows
  std::unordered_set<const void*> seen_;
  std::uint64_t& total_;
};

}  // namespace

std::vector<SourceText> read_source_texts(const ZipDirectory& zip) {
  std::vector<SourceText> texts;
  std::uint64_t total = 0;
  const auto key = [](const SourceText& text) { return std::tie(text.file, text.first_line, text.text); };
  for (const ZipEntry& entry : zip.entries()) {
    if (!entry.name.ends_with(kPositionsEnding)) continue;
    const std::string where = zip.file_name() + ": " + entry.name;
    if (entry.size > limits::kPickleBytes) {
      throw Error(ErrorCode::kFileLimits, where + " has " + std::to_string(entry.size) + " bytes, the limit is " +
                                              std::to_string(limits::kPickleBytes));
    }
    Collector(where, texts, total).collect(unpickle(zip.read(entry), where));
  }
  std::ranges::sort(texts, {}, key);
  const auto repeated = std::ranges::unique(texts, {}, key);
  texts.erase(repeated.begin(), repeated.end());
  return texts;
}

}  // namespace tl
