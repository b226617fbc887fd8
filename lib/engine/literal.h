#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/input_value.h"

namespace tl {

/// A host value as text: none, true, 3, -0.5, nan, inf, "text", [1, 2], (1, 2), {"k": 3}. JSON is a subset, so JSON
/// files are read by the same rules; None, True, False and null are understood too. nullopt if the text as a whole is
/// none of these: trailing text, an integer outside int64, a real outside float64, a key twice in a dict, bytes that
/// are no UTF-8, more than 64 levels. Then `reason`, if given, says what and where, in words that follow a colon.
/// `source` is put into every value.
std::optional<InputValue> parse_literal(std::string_view text, const std::string& source,
                                        std::string* reason = nullptr);

}  // namespace tl
