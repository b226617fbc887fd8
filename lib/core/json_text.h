#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tl {

/// How the text of a JSON document is written.
enum class JsonStyle {
  kFile,  ///< indented UTF-8
  kLog,   ///< indented ASCII, with nothing in it that a CI runner takes for a command
};

/// The text of a document, ending with a newline. Its strings and keys may be any bytes, as names from files are: bytes
/// that are no UTF-8 become `\xNN` (escape.h), so that the text is valid JSON and says what was there.
std::string json_text(nlohmann::ordered_json document, JsonStyle style);

}  // namespace tl
