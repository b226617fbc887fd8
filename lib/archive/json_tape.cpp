#include "archive/json_tape.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "archive/entry_name.h"
#include "core/error.h"
#include "core/json_scanner.h"

namespace tl {
JsonTape::JsonTape(std::string_view text, std::string shown_name, const JsonLimits& limits)
    : text_(text), shown_name_(std::move(shown_name)) {
  TL_CHECK(limits.bytes <= std::numeric_limits<std::uint32_t>::max(), "offsets have 32 bits");
  TL_CHECK(limits.unique_keys, "the members of a tape have distinct keys");
  build(limits);
}

void JsonTape::build(const JsonLimits& limits) {
  JsonScanner scanner(text_, shown_name_, limits);
  std::vector<std::uint32_t> open;
  // Measured on exported programs: 9 to 14 bytes a value. A wrong guess costs a move of what is there.
  nodes_.reserve(std::min(limits.tokens, text_.size() / 9 + 8));
  for (JsonToken token = scanner.next(); token.kind != JsonTokenKind::kEnd; token = scanner.next()) {
    if (token.kind == JsonTokenKind::kEndObject || token.kind == JsonTokenKind::kEndArray) {
      if (token.kind == JsonTokenKind::kEndObject) refuse_repeated_keys(open.back());
      nodes_[open.back()].span = {static_cast<std::uint32_t>(nodes_.size()),
                                  static_cast<std::uint32_t>(token.offset + 1)};
      open.pop_back();
      continue;
    }
    if (!open.empty() && (nodes_[open.back()].kind == Kind::kArray || token.kind == JsonTokenKind::kKey)) {
      ++nodes_[open.back()].size;
    }
    Node node{};
    node.offset = static_cast<std::uint32_t>(token.offset);
    switch (token.kind) {
      case JsonTokenKind::kBeginObject:
      case JsonTokenKind::kBeginArray:
        node.kind = token.kind == JsonTokenKind::kBeginObject ? Kind::kObject : Kind::kArray;
        open.push_back(static_cast<std::uint32_t>(nodes_.size()));
        break;
      case JsonTokenKind::kKey:
      case JsonTokenKind::kString: {
        const std::string_view string =
            token.escaped ? std::string_view(decoded_.emplace_back(token.decoded())) : token.text;
        node.kind = Kind::kString;
        node.data = string.data();
        node.size = static_cast<std::uint32_t>(string.size());
        break;
      }
      case JsonTokenKind::kNumber: {
        const char* end = token.text.data() + token.text.size();
        const auto read = std::from_chars(token.text.data(), end, node.integer);
        node.kind = read.ptr != end ? Kind::kReal : read.ec == std::errc() ? Kind::kInteger : Kind::kBigInteger;
        if (node.kind == Kind::kReal) node.real = scanner.real(token);
        break;
      }
      case JsonTokenKind::kTrue:
      case JsonTokenKind::kFalse:
        node.kind = token.kind == JsonTokenKind::kTrue ? Kind::kTrue : Kind::kFalse;
        break;
      default:
        node.kind = Kind::kNull;
    }
    nodes_.push_back(node);
  }
}

void JsonTape::refuse_repeated_keys(std::size_t object) {
  const std::uint32_t count = nodes_[object].size;
  if (count < 2) return;
  constexpr std::uint32_t kFew = 12;  // comparing all pairs beats sorting
  keys_.clear();
  for (auto index = static_cast<std::uint32_t>(object + 1); index < nodes_.size(); index = next_of(index + 1)) {
    const std::string_view key = string_at(index);
    const bool twice = count <= kFew && std::ranges::find(keys_, key) != keys_.end();
    keys_.push_back(key);
    if (twice) keys_.push_back(key);
  }
  if (count > kFew) std::ranges::sort(keys_);
  if (count <= kFew && keys_.size() == count) return;
  const auto twice = std::ranges::adjacent_find(keys_);
  if (twice == keys_.end()) return;
  throw Error(ErrorCode::kFileHostile, shown_name_ + ": the key " + quoted_name(*twice) +
                                           " stands twice in the object at byte " +
                                           std::to_string(nodes_[object].offset));
}

JsonRef JsonTape::root() const { return {this, 0}; }

JsonRef JsonRef::find(std::string_view key) const {
  for (const JsonMember member : members()) {
    if (member.key == key) return member.value;
  }
  return {};
}

JsonMember JsonRef::MemberIterator::operator*() const { return {tape_->string_at(index_), JsonRef(tape_, index_ + 1)}; }

std::string_view kind_name(JsonRef value) {
  static constexpr std::array<std::string_view, 9> kNames = {
      "null",     "a bool",   "a bool", "an integer", "an integer beyond 64 bits",
      "a number", "a string", "a list", "an object"};
  return value ? kNames[static_cast<std::size_t>(value.kind())] : "absent";
}

}  // namespace tl
