#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tl {

/// The code point at the start of a text and the bytes it takes; not valid where the bytes are no UTF-8 (then 1 byte).
struct CodePoint {
  std::uint32_t value = 0;
  std::size_t bytes = 1;
  bool valid = false;
};

/// Decodes the code point at the start of `text`, which is not empty. Overlong forms, surrogates, values above U+10FFFF
/// and truncated sequences are not valid.
CodePoint decode_utf8(std::string_view text);

/// True if all of `text` is valid UTF-8.
bool is_utf8(std::string_view text);

/// Appends a code point below 0x110000 that is no surrogate.
void append_utf8(std::string& out, std::uint32_t point);

}  // namespace tl
