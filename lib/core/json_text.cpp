#include "core/json_text.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/escape.h"
#include "core/utf8.h"

namespace tl {
namespace {

using Json = nlohmann::ordered_json;

void make_utf8(Json& value) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (!is_utf8(text)) value = escape_invalid_utf8(text);
  } else if (value.is_array()) {
    for (auto& element : value) make_utf8(element);
  } else if (value.is_object()) {
    Json::object_t renamed;
    renamed.reserve(value.size());
    for (auto& [key, element] : value.get_ref<Json::object_t&>()) {
      make_utf8(element);
      renamed.emplace_back(is_utf8(key) ? key : escape_invalid_utf8(key), std::move(element));
    }
    value = std::move(renamed);
  }
}

}  // namespace

std::string json_text(Json document, JsonStyle style) {
  make_utf8(document);
  const bool for_log = style == JsonStyle::kLog;
  auto text = document.dump(2, ' ', for_log);
  return (for_log ? escape_json_for_log(std::move(text)) : std::move(text)) + "\n";
}

}  // namespace tl
