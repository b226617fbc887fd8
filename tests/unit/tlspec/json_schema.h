#pragma once

#include <regex.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace tl::test {

/// The part of JSON Schema draft 7 that schemas/ uses. An unknown keyword is a finding, so that no rule goes unchecked.
class JsonSchema {
 public:
  explicit JsonSchema(nlohmann::json schema) : root_(std::move(schema)) {}

  /// One line a violation, `path: what`; empty if the document is valid.
  std::vector<std::string> violations(const nlohmann::json& document) {
    found_.clear();
    check(root_, document, "$");
    return found_;
  }

 private:
  using Json = nlohmann::json;

  void check(const Json& schema, const Json& value, const std::string& path) {
    for (const auto& [keyword, rule] : schema.items()) {
      if (keyword == "$ref") {
        check(root_.at(Json::json_pointer(rule.get<std::string>().substr(1))), value, path);
      } else if (keyword == "type") {
        if (!has_type(rule, value)) add(path, "is of type " + std::string(value.type_name()) + ", not " + rule.dump());
      } else if (keyword == "const") {
        if (value != rule) add(path, "is not " + rule.dump());
      } else if (keyword == "enum") {
        if (std::find(rule.begin(), rule.end(), value) == rule.end()) add(path, "is none of " + rule.dump());
      } else if (keyword == "anyOf") {
        check_any(rule, value, path);
      } else if (keyword == "minimum") {
        if (value.is_number() && value.get<double>() < rule.get<double>()) add(path, "is below " + rule.dump());
      } else if (keyword == "pattern") {
        if (value.is_string() && !matches(rule.get<std::string>(), value.get<std::string>()))
          add(path, "does not match");
      } else if (keyword == "required") {
        for (const auto& key : rule) {
          if (value.is_object() && !value.contains(key)) add(path, "lacks " + key.dump());
        }
      } else if (value.is_array() && (keyword == "items" || keyword == "minItems" || keyword == "maxItems")) {
        check_list(keyword, rule, value, path);
      } else if (value.is_object() && keyword == "properties") {
        check_properties(schema, value, path);
      } else if (!is_silent(keyword)) {
        add(path, "the schema has the unknown keyword " + keyword);
      }
    }
  }

  void check_list(const std::string& keyword, const Json& rule, const Json& value, const std::string& path) {
    if (keyword == "minItems" && value.size() < rule.get<std::size_t>()) add(path, "is too short");
    if (keyword == "maxItems" && value.size() > rule.get<std::size_t>()) add(path, "is too long");
    for (std::size_t i = 0; keyword == "items" && i < value.size(); ++i) {
      check(rule, value[i], path + "[" + std::to_string(i) + "]");
    }
  }

  void check_properties(const Json& schema, const Json& value, const std::string& path) {
    const auto& known = schema["properties"];
    for (const auto& [key, child] : value.items()) {
      if (known.contains(key)) {
        check(known[key], child, path + "." + key);
      } else if (schema.value("additionalProperties", Json(true)) == Json(false)) {
        add(path, "has the unknown key " + key);
      }
    }
  }

  void check_any(const Json& rules, const Json& value, const std::string& path) {
    for (const auto& rule : rules) {
      JsonSchema branch(root_);
      branch.check(rule, value, path);
      if (branch.found_.empty()) return;
    }
    add(path, "fits no alternative");
  }

  static bool has_type(const Json& rule, const Json& value) {
    if (rule.is_array()) {
      return std::any_of(rule.begin(), rule.end(), [&](const Json& one) { return has_type(one, value); });
    }
    const auto name = rule.get<std::string>();
    if (name == "integer") return value.is_number_integer();
    return name == value.type_name();  // nlohmann names the types as JSON Schema does
  }

  static bool matches(const std::string& pattern, const std::string& text) {
    regex_t compiled;
    if (::regcomp(&compiled, pattern.c_str(), REG_EXTENDED | REG_NOSUB) != 0) return false;
    const bool found = ::regexec(&compiled, text.c_str(), 0, nullptr, 0) == 0;
    ::regfree(&compiled);
    return found;
  }

  static bool is_silent(const std::string& keyword) {
    static const std::vector<std::string> kSilent = {
        "$schema",    "$id",   "title",    "description", "definitions", "additionalProperties",
        "properties", "items", "minItems", "maxItems"};
    return std::find(kSilent.begin(), kSilent.end(), keyword) != kSilent.end();
  }

  void add(const std::string& path, const std::string& what) { found_.push_back(path + ": " + what); }

  Json root_;
  std::vector<std::string> found_;
};

}  // namespace tl::test
