#pragma once

#include <string>
#include <string_view>

namespace tl {

/// Texts from files (names, messages, strings) on their way into an output format. What a reader of that format could
/// take for anything but text is made visible: C0 controls and DEL as `\xNN`; C1 controls, line and paragraph
/// separators, bidirectional and invisible characters, noncharacters as `\u{NNNN}`; bytes that are no UTF-8 as `\xNN`.

/// One line for a terminal or a CI log. What a CI runner takes for a command (`::` at the start of a line, `##[` and
/// `##vso[` anywhere) gets backslashes between its characters. Idempotent.
std::string escape_for_terminal(std::string_view text);

/// Several lines, each escaped as for terminals; every line of the result ends with a newline.
std::string escape_lines_for_terminal(std::string_view text);

/// A text cell of a CSV file, escaped as for terminals; quoted where it holds a separator (comma, semicolon), a quote
/// or spaces at an end; prefixed by `'` where a spreadsheet would take it for a formula (it starts, spaces aside, with
/// = + - @ or their full-width forms, tab or carriage return). Not for numbers.
std::string escape_for_csv(std::string_view cell);

/// Text for HTML, SVG and XML content and attributes: markup (& < > " ') as entities.
std::string escape_for_html(std::string_view text);

/// Text for a cell of a Markdown table or a line of Markdown: shown as it is, with no emphasis, links, images, HTML,
/// mentions or automatic links. A single underscore between letters or digits, which is no emphasis, stays bare.
std::string escape_for_markdown(std::string_view text);

/// The text with every byte that is no UTF-8 as `\xNN`; all else stays. For strings of JSON documents.
std::string escape_invalid_utf8(std::string_view text);

/// A JSON document whose strings hold nothing that a CI runner takes for a command (`##[`); equal in value.
std::string escape_json_for_log(std::string json);

/// A JSON document that may stand in a `<script>` element; equal in value.
std::string escape_json_for_html(std::string_view json);

}  // namespace tl
