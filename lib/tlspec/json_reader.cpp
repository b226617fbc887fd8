#include "tlspec/json_reader.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/bounded_json.h"
#include "core/error.h"

namespace tl {
namespace {

using Json = nlohmann::json;

const Json& empty_object() {
  static const Json object = Json::object();
  return object;
}

}  // namespace

nlohmann::json parse_untrusted_json(std::string_view text, const std::string& shown_name) {
  constexpr JsonLimits kLimits = {.bytes = std::size_t{16} << 20, .depth = 32, .tokens = 1'000'000};
  return parse_bounded_json(text, shown_name, kLimits);
}

JsonObject::JsonObject(const Json& value, std::string shown_name, std::string path)
    : value_(&value), shown_name_(std::move(shown_name)), path_(std::move(path)) {
  if (!value.is_object()) {
    throw Error(ErrorCode::kFileDamaged, shown_name_ + ": " + (path_.empty() ? "the document" : path_) +
                                             " is of type " + value.type_name() + ", not an object");
  }
}

const Json* JsonObject::find(const char* key) const {
  const auto found = value_->find(key);
  return found == value_->end() ? nullptr : &*found;
}

bool JsonObject::has(const char* key) const { return find(key) != nullptr; }

void JsonObject::fail(const char* key, const std::string& what) const {
  throw Error(ErrorCode::kFileDamaged, shown_name_ + ": " + (path_.empty() ? "" : path_ + ".") + key + " " + what);
}

void JsonObject::wrong_type(const char* key, const Json& value, const char* expected) const {
  fail(key, std::string("is of type ") + value.type_name() + ", not " + expected);
}

std::string JsonObject::string(const char* key, std::string fallback) const {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_string()) wrong_type(key, *value, "a string");
  return value->get<std::string>();
}

std::int64_t JsonObject::integer(const char* key, std::int64_t fallback) const {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_number_integer()) wrong_type(key, *value, "an integer");
  if (value->is_number_unsigned() &&
      value->get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    fail(key, "is " + std::to_string(value->get<std::uint64_t>()) + ", above 2^63 - 1");
  }
  return value->get<std::int64_t>();
}

bool JsonObject::boolean(const char* key, bool fallback) const { return optional_boolean(key).value_or(fallback); }

std::optional<bool> JsonObject::optional_boolean(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (!value->is_boolean()) wrong_type(key, *value, "a boolean");
  return value->get<bool>();
}

std::optional<double> JsonObject::real(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  const auto real = double_from_json(*value);
  if (!real) wrong_type(key, *value, "a number");
  return real;
}

const Json* JsonObject::list(const char* key) const {
  const Json* value = find(key);
  if (value != nullptr && !value->is_array()) wrong_type(key, *value, "a list");
  return value;
}

std::vector<std::string> JsonObject::strings(const char* key) const {
  std::vector<std::string> result;
  const Json* values = list(key);
  if (values == nullptr) return result;
  for (const auto& value : *values) {
    if (!value.is_string()) wrong_type(key, value, "a list of strings");
    result.push_back(value.get<std::string>());
  }
  return result;
}

std::vector<std::int64_t> JsonObject::integers(const char* key) const {
  std::vector<std::int64_t> result;
  const Json* values = list(key);
  if (values == nullptr) return result;
  for (const auto& value : *values) {
    if (!value.is_number_integer()) wrong_type(key, value, "a list of integers");
    result.push_back(value.get<std::int64_t>());
  }
  return result;
}

JsonObject JsonObject::object(const char* key) const {
  const Json* value = find(key);
  return {value == nullptr ? empty_object() : *value, shown_name_, (path_.empty() ? "" : path_ + ".") + key};
}

std::vector<JsonObject> JsonObject::objects(const char* key) const {
  std::vector<JsonObject> result;
  const Json* values = list(key);
  if (values == nullptr) return result;
  for (const auto& value : *values) {
    result.emplace_back(value, shown_name_,
                        (path_.empty() ? "" : path_ + ".") + key + "[" + std::to_string(result.size()) + "]");
  }
  return result;
}

std::vector<std::string> JsonObject::keys() const {
  std::vector<std::string> result;
  for (const auto& item : value_->items()) result.push_back(item.key());
  return result;
}

nlohmann::json json_from_double(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

std::optional<double> double_from_json(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

}  // namespace tl
