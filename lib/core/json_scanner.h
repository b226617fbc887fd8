#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/json_limits.h"

namespace tl {

enum class JsonTokenKind : std::uint8_t {
  kBeginObject,
  kEndObject,
  kBeginArray,
  kEndArray,
  kKey,
  kString,
  kNumber,
  kTrue,
  kFalse,
  kNull,
  kEnd,  ///< of the text; no token follows
};

/// One token of a JSON text; views into it.
struct JsonToken {
  JsonTokenKind kind = JsonTokenKind::kEnd;
  std::string_view text;   ///< keys and strings: between the quotes, escapes as written; numbers and words: as written
  std::size_t offset = 0;  ///< of the first byte of the token in the text
  bool escaped = false;    ///< the text holds escapes

  /// The text of a key or string with its escapes decoded, in UTF-8.
  std::string decoded() const;
};

/// Splits a JSON text (RFC 8259, UTF-8) into tokens and holds it against the grammar and the limits, in one pass,
/// without recursion and with one byte of memory a level. `unique_keys` is left to the caller.
class JsonScanner {
 public:
  /// Borrows both texts; `shown_name` stands at the head of messages. Throws Error(kFileLimits) for too many bytes.
  JsonScanner(std::string_view text, std::string_view shown_name, const JsonLimits& limits);

  /// The next token; commas and colons are none. Throws Error with the offset in bytes: kFileDamaged where the text is
  /// not JSON, kFileLimits where depth, tokens or the length of a string or number exceed the limits.
  JsonToken next();

  /// Lists and objects that are open.
  std::size_t depth() const { return open_.size(); }

  /// The number of a token of kind kNumber; NaN and infinities by the words Python writes. Throws Error(kFileDamaged)
  /// where a double cannot hold it.
  double real(const JsonToken& token) const;

  [[noreturn]] void damaged(std::size_t offset, const std::string& what) const;
  [[noreturn]] void over_limit(std::size_t offset, const std::string& what) const;

 private:
  enum class Expect : std::uint8_t { kValue, kValueOrEnd, kKey, kKeyOrEnd, kCommaOrEnd, kNothing };

  void skip_space();
  void take_comma();
  void count_token();
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  [[noreturn]] void unexpected() const;
  JsonToken open(char bracket);
  JsonToken close(char bracket);
  JsonToken key();
  JsonToken value();
  JsonToken word();
  JsonToken number();
  JsonToken quoted(JsonTokenKind kind);
  void check_escape();
  std::uint32_t hex4();
  void value_is_complete();
  std::size_t digits();

  std::string_view text_;
  std::string_view shown_name_;
  JsonLimits limits_;
  std::size_t at_ = 0;
  std::size_t tokens_ = 0;
  Expect expect_ = Expect::kValue;
  std::string open_;  // the brackets around the place, outermost first
};

}  // namespace tl
