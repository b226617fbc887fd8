#include "core/json_scanner.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "core/error.h"
#include "core/utf8.h"

namespace tl {
namespace {

/// Characters of one number; a double written in full has at most 1,077.
constexpr std::size_t kMaxNumberCharacters = 1'100;

bool is_high_surrogate(std::uint32_t unit) { return unit >= 0xd800 && unit < 0xdc00; }
bool is_low_surrogate(std::uint32_t unit) { return unit >= 0xdc00 && unit < 0xe000; }
bool is_word_character(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::uint32_t hex_value(std::string_view four) {
  std::uint32_t value = 0;
  std::from_chars(four.data(), four.data() + four.size(), value, 16);
  return value;
}

char simple_escape(char c) {
  constexpr std::string_view kEscapes = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  const auto known = kEscapes.find(c);
  return known == std::string_view::npos ? '\0' : kMeanings[known];
}

}  // namespace

std::string JsonToken::decoded() const {
  if (!escaped) return std::string(text);
  std::string result;
  result.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '\\') {
      result += text[at++];
    } else if (text[at + 1] != 'u') {
      result += simple_escape(text[at + 1]);
      at += 2;
    } else {
      std::uint32_t point = hex_value(text.substr(at + 2, 4));
      at += 6;
      if (is_high_surrogate(point)) {
        point = 0x10000 + ((point - 0xd800) << 10) + (hex_value(text.substr(at + 2, 4)) - 0xdc00);
        at += 6;
      }
      append_utf8(result, point);
    }
  }
  return result;
}

JsonScanner::JsonScanner(std::string_view text, std::string_view shown_name, const JsonLimits& limits)
    : text_(text), shown_name_(shown_name), limits_(limits) {
  if (text.size() > limits.bytes) {
    throw Error(ErrorCode::kFileLimits, std::string(shown_name) + ": has " + std::to_string(text.size()) +
                                            " bytes of JSON, the limit is " + std::to_string(limits.bytes));
  }
}

double JsonScanner::real(const JsonToken& token) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (token.text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (token.text == "Infinity") return kInfinity;
  if (token.text == "-Infinity") return -kInfinity;
  double value = 0;
  const char* end = token.text.data() + token.text.size();
  if (std::from_chars(token.text.data(), end, value).ec == std::errc()) return value;
  value = std::strtod(std::string(token.text).c_str(), nullptr);  // from_chars does not tell tiny from huge
  if (std::isinf(value)) damaged(token.offset, "a number outside the range of a double");
  return value;
}

void JsonScanner::damaged(std::size_t offset, const std::string& what) const {
  throw Error(ErrorCode::kFileDamaged,
              std::string(shown_name_) + ": is not valid JSON: " + what + " at byte " + std::to_string(offset));
}

void JsonScanner::over_limit(std::size_t offset, const std::string& what) const {
  throw Error(ErrorCode::kFileLimits,
              std::string(shown_name_) + ": JSON " + what + " at byte " + std::to_string(offset));
}

void JsonScanner::unexpected() const {
  if (at_ == text_.size()) damaged(at_, "the text ends too early");
  const auto byte = static_cast<unsigned char>(text_[at_]);
  if (byte > 0x20 && byte < 0x7f) damaged(at_, std::string("unexpected '") + text_[at_] + "'");
  damaged(at_, "unexpected byte " + std::to_string(byte));
}

void JsonScanner::skip_space() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
    ++at_;
  }
}

void JsonScanner::take_comma() {
  if (peek() == ',') {
    ++at_;
    expect_ = open_.back() == '{' ? Expect::kKey : Expect::kValue;
    skip_space();
  } else if (peek() != (open_.back() == '{' ? '}' : ']')) {
    unexpected();
  }
}

void JsonScanner::count_token() {
  if (++tokens_ > limits_.tokens) over_limit(at_, "has more than " + std::to_string(limits_.tokens) + " tokens");
}

JsonToken JsonScanner::next() {
  skip_space();
  if (expect_ == Expect::kCommaOrEnd) take_comma();
  if (expect_ == Expect::kNothing) {
    if (at_ < text_.size()) unexpected();
    return {JsonTokenKind::kEnd, {}, at_, false};
  }
  if (at_ == text_.size()) unexpected();
  const char c = text_[at_];
  if (c == '}' || c == ']') return close(c);
  count_token();
  return expect_ == Expect::kKey || expect_ == Expect::kKeyOrEnd ? key() : value();
}

JsonToken JsonScanner::value() {
  const char c = text_[at_];
  if (c == '{' || c == '[') return open(c);
  const JsonToken token = c == '"' ? quoted(JsonTokenKind::kString) : c == '-' || is_digit(c) ? number() : word();
  value_is_complete();
  return token;
}

void JsonScanner::value_is_complete() { expect_ = open_.empty() ? Expect::kNothing : Expect::kCommaOrEnd; }

JsonToken JsonScanner::open(char bracket) {
  if (open_.size() == limits_.depth) {
    over_limit(at_, "is nested deeper than " + std::to_string(limits_.depth) + " levels");
  }
  open_ += bracket;
  expect_ = bracket == '{' ? Expect::kKeyOrEnd : Expect::kValueOrEnd;
  const auto kind = bracket == '{' ? JsonTokenKind::kBeginObject : JsonTokenKind::kBeginArray;
  return {kind, text_.substr(at_, 1), at_++, false};
}

JsonToken JsonScanner::close(char bracket) {
  const bool object = bracket == '}';
  const bool here = expect_ == Expect::kCommaOrEnd || expect_ == (object ? Expect::kKeyOrEnd : Expect::kValueOrEnd);
  if (!here || open_.back() != (object ? '{' : '[')) unexpected();
  open_.pop_back();
  value_is_complete();
  const auto kind = object ? JsonTokenKind::kEndObject : JsonTokenKind::kEndArray;
  return {kind, text_.substr(at_, 1), at_++, false};
}

JsonToken JsonScanner::key() {
  if (text_[at_] != '"') unexpected();
  const JsonToken token = quoted(JsonTokenKind::kKey);
  skip_space();
  if (peek() != ':') unexpected();
  ++at_;
  expect_ = Expect::kValue;
  return token;
}

JsonToken JsonScanner::word() {
  const std::size_t begin = at_;
  std::size_t end = begin;
  while (end < text_.size() && is_word_character(text_[end])) ++end;
  const std::string_view text = text_.substr(begin, end - begin);
  JsonTokenKind kind = JsonTokenKind::kEnd;
  if (text == "true") kind = JsonTokenKind::kTrue;
  if (text == "false") kind = JsonTokenKind::kFalse;
  if (text == "null") kind = JsonTokenKind::kNull;
  if (limits_.non_finite_words && (text == "NaN" || text == "Infinity")) kind = JsonTokenKind::kNumber;
  if (kind == JsonTokenKind::kEnd) unexpected();
  at_ = end;
  return {kind, text, begin, false};
}

std::size_t JsonScanner::digits() {
  const std::size_t begin = at_;
  while (is_digit(peek())) ++at_;
  return at_ - begin;
}

JsonToken JsonScanner::number() {
  constexpr std::string_view kMinusInfinity = "-Infinity";
  const std::size_t begin = at_;
  if (limits_.non_finite_words && text_.substr(at_).starts_with(kMinusInfinity)) {
    at_ += kMinusInfinity.size();
    return {JsonTokenKind::kNumber, kMinusInfinity, begin, false};
  }
  if (peek() == '-') ++at_;
  if (peek() == '0') {
    ++at_;
  } else if (digits() == 0) {
    unexpected();
  }
  if (peek() == '.') {
    ++at_;
    if (digits() == 0) unexpected();
  }
  if (peek() == 'e' || peek() == 'E') {
    ++at_;
    if (peek() == '+' || peek() == '-') ++at_;
    if (digits() == 0) unexpected();
  }
  if (at_ - begin > kMaxNumberCharacters) {
    over_limit(begin, "has a number of " + std::to_string(at_ - begin) + " characters, the limit is " +
                          std::to_string(kMaxNumberCharacters) + ",");
  }
  return {JsonTokenKind::kNumber, text_.substr(begin, at_ - begin), begin, false};
}

JsonToken JsonScanner::quoted(JsonTokenKind kind) {
  const std::size_t begin = at_++;
  bool escaped = false;
  for (;;) {
    if (at_ == text_.size()) damaged(begin, "a string without an end");
    const auto byte = static_cast<unsigned char>(text_[at_]);
    if (byte == '"') break;
    if (byte == '\\') {
      escaped = true;
      check_escape();
    } else if (byte < 0x20) {
      damaged(at_, "unescaped control character " + std::to_string(byte) + " in a string");
    } else if (byte < 0x80) {
      ++at_;
    } else {
      const CodePoint point = decode_utf8(text_.substr(at_));
      if (!point.valid) damaged(at_, "bytes that are not UTF-8 in a string");
      at_ += point.bytes;
    }
  }
  const std::size_t size = at_++ - begin - 1;
  if (size > limits_.string_bytes) {
    over_limit(begin, "has a string of " + std::to_string(size) + " bytes, the limit is " +
                          std::to_string(limits_.string_bytes) + ",");
  }
  return {kind, text_.substr(begin + 1, size), begin, escaped};
}

void JsonScanner::check_escape() {
  const std::size_t begin = at_++;
  if (at_ == text_.size()) damaged(begin, "an escape that is cut off");
  if (text_[at_] != 'u') {
    if (simple_escape(text_[at_]) == '\0') damaged(begin, "an escape that JSON does not have");
    ++at_;
    return;
  }
  ++at_;
  const std::uint32_t unit = hex4();
  if (is_low_surrogate(unit)) damaged(begin, "half of a surrogate pair");
  if (!is_high_surrogate(unit)) return;
  if (text_.substr(at_, 2) != "\\u") damaged(begin, "half of a surrogate pair");
  at_ += 2;
  if (!is_low_surrogate(hex4())) damaged(begin, "half of a surrogate pair");
}

std::uint32_t JsonScanner::hex4() {
  const std::string_view four = text_.substr(at_, 4);
  if (four.size() < 4 || four.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) {
    damaged(at_, "an escape without its four hexadecimal digits");
  }
  at_ += 4;
  return hex_value(four);
}

}  // namespace tl
