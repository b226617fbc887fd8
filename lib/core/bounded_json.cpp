#include "core/bounded_json.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/json_scanner.h"
#include "core/text.h"

namespace tl {
namespace {

using Json = nlohmann::json;

/// The keys of the objects that are open, as one stack; each object is held against itself when it ends.
class OpenKeys {
 public:
  OpenKeys(std::string_view text, std::string_view shown_name) : text_(text), shown_name_(shown_name) {}

  void begin_object() { starts_.push_back(keys_.size()); }

  void add(const JsonToken& token) {
    keys_.push_back(token.escaped ? std::string_view(decoded_.emplace_back(token.decoded())) : token.text);
  }

  void end_object() {
    const auto first = keys_.begin() + static_cast<std::ptrdiff_t>(starts_.back());
    std::sort(first, keys_.end());
    const auto twice = std::adjacent_find(first, keys_.end());
    if (twice != keys_.end()) refuse(*twice, *(twice + 1));
    keys_.erase(first, keys_.end());
    starts_.pop_back();
    if (starts_.empty()) decoded_.clear();
  }

 private:
  [[noreturn]] void refuse(std::string_view one, std::string_view other) const {
    const auto offset = [&](std::string_view key) {
      const bool inside = key.data() >= text_.data() && key.data() < text_.data() + text_.size();
      return inside ? static_cast<std::size_t>(key.data() - text_.data()) : std::size_t{0};
    };
    const std::size_t at = std::max(offset(one), offset(other));
    throw Error(ErrorCode::kFileHostile, std::string(shown_name_) + ": the key '" + elide(one, 80) +
                                             "' stands twice in one object" +
                                             (at == 0 ? "" : " at byte " + std::to_string(at)));
  }

  std::string_view text_;
  std::string_view shown_name_;
  std::vector<std::string_view> keys_;
  std::vector<std::size_t> starts_;
  std::deque<std::string> decoded_;  // of keys with escapes; a deque keeps them in place
};
Json to_number(const JsonToken& token, const JsonScanner& scanner) {
  const char* begin = token.text.data();
  const char* end = begin + token.text.size();
  std::uint64_t natural = 0;
  if (const auto read = std::from_chars(begin, end, natural); read.ec == std::errc() && read.ptr == end) return natural;
  std::int64_t integer = 0;
  if (const auto read = std::from_chars(begin, end, integer); read.ec == std::errc() && read.ptr == end) return integer;
  return scanner.real(token);
}

Json to_value(const JsonToken& token, const JsonScanner& scanner) {
  switch (token.kind) {
    case JsonTokenKind::kBeginObject:
      return Json::object();
    case JsonTokenKind::kBeginArray:
      return Json::array();
    case JsonTokenKind::kString:
      return token.decoded();
    case JsonTokenKind::kNumber:
      return to_number(token, scanner);
    case JsonTokenKind::kTrue:
      return true;
    case JsonTokenKind::kFalse:
      return false;
    default:
      return nullptr;
  }
}

/// Builds the document from the tokens; the containers that are open stand on a stack of pointers.
class Builder {
 public:
  explicit Builder(JsonScanner scanner) : scanner_(std::move(scanner)) {}

  Json build() {
    for (JsonToken token = scanner_.next(); token.kind != JsonTokenKind::kEnd; token = scanner_.next()) {
      if (token.kind == JsonTokenKind::kKey) {
        key_ = token.decoded();
      } else if (token.kind == JsonTokenKind::kEndObject || token.kind == JsonTokenKind::kEndArray) {
        open_.pop_back();
      } else {
        Json& placed = place(to_value(token, scanner_));
        if (placed.is_structured()) open_.push_back(&placed);
      }
    }
    return std::move(root_);
  }

 private:
  Json& place(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return open_.back()->back();
    }
    return (*open_.back())[std::move(key_)] = std::move(value);
  }

  JsonScanner scanner_;
  Json root_;
  std::vector<Json*> open_;
  std::string key_;
};

}  // namespace

JsonExtent check_json(std::string_view text, std::string_view shown_name, const JsonLimits& limits) {
  JsonScanner scanner(text, shown_name, limits);
  OpenKeys keys(text, shown_name);
  JsonExtent extent;
  for (;;) {
    const JsonToken token = scanner.next();
    extent.depth = std::max(extent.depth, scanner.depth());
    switch (token.kind) {
      case JsonTokenKind::kEnd:
        return extent;
      case JsonTokenKind::kEndArray:
        break;
      case JsonTokenKind::kEndObject:
        if (limits.unique_keys) keys.end_object();
        break;
      case JsonTokenKind::kBeginObject:
        if (limits.unique_keys) keys.begin_object();
        ++extent.tokens;
        break;
      case JsonTokenKind::kKey:
        if (limits.unique_keys) keys.add(token);
        [[fallthrough]];
      case JsonTokenKind::kString:
        extent.longest_string = std::max(extent.longest_string, token.text.size());
        [[fallthrough]];
      default:
        ++extent.tokens;
    }
  }
}

nlohmann::json parse_bounded_json(std::string_view text, std::string_view shown_name, const JsonLimits& limits) {
  check_json(text, shown_name, limits);
  return Builder(JsonScanner(text, shown_name, limits)).build();
}

}  // namespace tl
