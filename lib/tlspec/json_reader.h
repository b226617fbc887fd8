#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tl {

/// Parses the JSON text of an untrusted file. Throws Error: kFileLimits above 16 MiB, 32 levels of nesting or a million
/// tokens, kFileHostile for a key that an object has twice, kFileDamaged for anything that is not one JSON value in
/// UTF-8.
nlohmann::json parse_untrusted_json(std::string_view text, const std::string& shown_name);

/// Typed access to an object of an untrusted file. A missing key gives the fallback, a value of another type
/// Error(kFileDamaged) that names the file, the path of the key and both types. Borrows the document.
class JsonObject {
 public:
  /// Throws Error(kFileDamaged) unless `value` is an object. `path` is the dotted path of the object, empty for the
  /// root.
  JsonObject(const nlohmann::json& value, std::string shown_name, std::string path = {});

  bool has(const char* key) const;
  std::string string(const char* key, std::string fallback = {}) const;
  std::int64_t integer(const char* key, std::int64_t fallback = 0) const;
  bool boolean(const char* key, bool fallback = false) const;
  /// A number, or one of the strings nan, inf, -inf; nullopt for null and for a missing key.
  std::optional<double> real(const char* key) const;
  std::optional<bool> optional_boolean(const char* key) const;
  std::vector<std::string> strings(const char* key) const;
  std::vector<std::int64_t> integers(const char* key) const;
  /// The object under `key`; an empty one if the key is missing.
  JsonObject object(const char* key) const;
  /// The objects of the list under `key`.
  std::vector<JsonObject> objects(const char* key) const;
  /// The names of all keys, sorted.
  std::vector<std::string> keys() const;
  /// The value under a key; null if there is none.
  const nlohmann::json* find(const char* key) const;

  [[noreturn]] void fail(const char* key, const std::string& what) const;

 private:
  [[noreturn]] void wrong_type(const char* key, const nlohmann::json& value, const char* expected) const;
  const nlohmann::json* list(const char* key) const;

  const nlohmann::json* value_;
  std::string shown_name_;
  std::string path_;
};

/// A double as JSON: a number if finite, else one of the strings nan, inf, -inf.
nlohmann::json json_from_double(double value);

/// The double that json_from_double wrote; nullopt for other values.
std::optional<double> double_from_json(const nlohmann::json& value);

}  // namespace tl
