#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "core/json_limits.h"

namespace tl {

/// What a JSON text holds, counted before anything is built from it.
struct JsonExtent {
  std::size_t tokens = 0;          ///< keys, scalars, lists and objects
  std::size_t depth = 0;           ///< lists and objects around the innermost value
  std::size_t longest_string = 0;  ///< bytes as written
};

/// Reads a JSON text (RFC 8259, UTF-8, no byte order mark) once without building anything: memory is a byte a level and
/// 16 bytes a key of the open objects. `shown_name` is the file, or `FILE: entry 'NAME'`, for messages, which name the
/// offset in bytes. Throws Error: kFileDamaged where the text is not one JSON value, kFileLimits above a limit,
/// kFileHostile for a key that an object has twice.
JsonExtent check_json(std::string_view text, std::string_view shown_name, const JsonLimits& limits = {});

/// The document of an untrusted text that check_json accepts; throws as that does before it allocates, and kFileDamaged
/// for a number that a double cannot hold. Numbers without fraction and exponent are uint64, else int64, else double.
nlohmann::json parse_bounded_json(std::string_view text, std::string_view shown_name, const JsonLimits& limits = {});

}  // namespace tl
