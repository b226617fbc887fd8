#pragma once

#include <string_view>

namespace tl {

/// True if `text` fits `pattern` as a whole: `*` stands for any text (dots too), `?` for one byte, `[abc]`, `[a-z]`,
/// `[!a]` for one byte of a set. A pattern without these is the text itself. O(pattern × text).
bool glob_matches(std::string_view pattern, std::string_view text);

/// True if the pattern has one of * ? [.
bool is_glob(std::string_view pattern);

}  // namespace tl
