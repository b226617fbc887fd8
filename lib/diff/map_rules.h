#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "diff/side.h"

namespace tl {

/// Rules that give addresses of the reference the names of the subject, one a line: `PATTERN -> REPLACEMENT`, where
/// PATTERN is an RE2 expression that must match the whole address of a module or parameter and REPLACEMENT may use
/// \1 … \9 and \0. The first rule that matches decides; addresses that none matches stay. `#` begins a comment. Throws
/// Error(kMapRules) with the line; `shown_name` stands for the file in messages.
Renamer parse_map_rules(std::string_view text, std::string_view shown_name);

/// Lines of such a text, as `FILE:LINE`, that decide no name of a module or parameter of the reference.
std::vector<std::string> unused_map_rules(std::string_view text, std::string_view shown_name, const Side& reference);

/// The rules for modules that were found to correspond, in the form that parse_map_rules reads.
std::string map_rules_text(const std::vector<std::pair<std::string, std::string>>& renamed);

}  // namespace tl
