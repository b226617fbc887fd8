#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "archive/json_tape.h"

namespace tl {

/// What the JSON of a recording made elsewhere may hold: a manifest with a record a tensor (24 bytes a token), or
/// values in base64.
inline constexpr JsonLimits kForeignJsonLimits = {.bytes = std::size_t{2} << 30,
                                                  .depth = 64,
                                                  .tokens = std::size_t{16} << 20,
                                                  .string_bytes = std::size_t{1} << 30,
                                                  .unique_keys = true,
                                                  .non_finite_words = true};

/// Typed access to an object on a tape, which must outlive it. A missing member and null give nothing, a member of
/// another type Error(kFileDamaged) that names file, key and both types.
class ForeignObject {
 public:
  /// Throws Error(kFileDamaged) unless `value` is an object; `what` says in words what it should be.
  ForeignObject(const JsonTape& tape, JsonRef value, std::string_view what);

  bool has(std::string_view key) const;
  /// The text of a string; empty if missing.
  std::string string(std::string_view key) const;
  std::optional<std::int64_t> integer(std::string_view key) const;
  /// A number, or one of the strings nan, -nan, inf, -inf in any case.
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  /// Sizes of a tensor: none negative, and their product fits int64. Empty if missing.
  std::vector<std::int64_t> sizes(std::string_view key) const;
  /// The items of a list, each of which must be an object.
  std::vector<ForeignObject> objects(std::string_view key) const;
  std::vector<std::string> strings(std::string_view key) const;
  std::optional<ForeignObject> object(std::string_view key) const;
  /// The members of the object under the key, each of which must be a string, in the order of the text. Empty if
  /// missing.
  std::vector<std::pair<std::string, std::string>> texts(std::string_view key) const;
  /// The list under the key; none if it is missing.
  JsonRef list(std::string_view key) const;
  JsonRef value() const { return value_; }
  const JsonTape& tape() const { return *tape_; }

  /// Throws Error(kFileDamaged) `FILE: WHAT at byte N: KEY TEXT`.
  [[noreturn]] void fail(std::string_view key, const std::string& text) const;

 private:
  JsonRef member(std::string_view key) const;
  [[noreturn]] void wrong_type(std::string_view key, JsonRef found, std::string_view expected) const;

  const JsonTape* tape_;
  JsonRef value_;
  std::string_view what_;
};

/// The text with the words nan, -nan, inf and -inf, which C++ streams print and JSON has not, as NaN, Infinity and
/// -Infinity; what stands in strings is left alone. Empty if there is no such word.
std::string with_json_words(std::string_view text);

/// A number of a JSON text, or the word for one that is not finite, as runtimes print them.
std::optional<double> number_of(JsonRef value);

}  // namespace tl
