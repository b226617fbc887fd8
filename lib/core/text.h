#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tl {

/// One line of text from a file, made safe for a terminal or a CI log: C0 controls and DEL become `\xNN`, C1 controls,
/// line and paragraph separators and bidirectional controls `\u{NNNN}`, bytes that are no UTF-8 `\xNN`. What a CI
/// runner takes for a command (`::` at the start of a line, `##[` anywhere) gets backslashes between its characters.
/// Idempotent.
std::string escape_for_terminal(std::string_view text);

/// A text cell of a CSV file, escaped as for terminals; quoted where it holds a comma, a quote or spaces at an end;
/// prefixed by
/// `'` where a spreadsheet would take it for a formula (starts with = + - @, tab or carriage return). Not for numbers.
std::string escape_for_csv(std::string_view cell);

/// Text for HTML and SVG content and attributes: controls escaped as for terminals, markup (& < > " ') as entities.
std::string escape_for_html(std::string_view text);

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
