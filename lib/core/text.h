#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/escape.h"

namespace tl {

/// Columns that `text` takes in our tables: its number of code points; a byte that is no UTF-8 counts 1.
std::size_t display_width(std::string_view text);

/// `text` followed (pad_right) or preceded (pad_left) by spaces up to `width` columns; longer texts stay as they are.
std::string pad_right(std::string_view text, std::size_t width);
std::string pad_left(std::string_view text, std::size_t width);

/// `text` cut to at most `width` columns, the last of them `…` where something was cut.
std::string elide(std::string_view text, std::size_t width);

/// Bytes in steps of 1024, one decimal below 100: `1000 B`, `1.5 KB`, `31.4 MB`, `784 KB`.
std::string format_bytes(std::uint64_t bytes);

/// A count in steps of 1000 with three significant digits: `128`, `9.41 K`, `11.7 M`, `3.65 G`.
std::string format_count(std::uint64_t count);

/// Seconds with one decimal below 100 of the unit: `850 ns`, `12.3 us`, `3.1 ms`, `2.5 s`, `3 min 20 s`, `2 h 5 min`.
/// `-` if not finite or negative.
std::string format_duration(double seconds);

/// At most `max` of the candidates that look like what was meant, best first: few edits away (insertion, deletion,
/// substitution, swap of neighbours; case is ignored), or one contains the other.
std::vector<std::string> did_you_mean(std::string_view wanted, std::span<const std::string> candidates,
                                      std::size_t max = 3);

}  // namespace tl
