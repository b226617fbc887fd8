#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "core/error.h"

namespace tl::cli {

/// `{"schema": "torchlens.<command>/1", "ok": …, …body}` and a newline. Everything outside ASCII is escaped, so that no
/// name from a file reaches a terminal as it is.
std::string json_envelope(std::string_view command, bool ok, const nlohmann::ordered_json& body);

/// The envelope of a command that failed: ok false, error {code, message, note, hint, exit}.
std::string json_error(std::string_view command, const Error& error);

/// A finite number, or one of the strings nan, inf, -inf, which JSON has no numbers for.
nlohmann::ordered_json json_number(double value);

}  // namespace tl::cli
