#include "core/escape.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

#include "core/utf8.h"

namespace tl {
namespace {

struct Range {
  std::uint32_t first;
  std::uint32_t last;
};

/// Characters that move the cursor, reorder or hide what stands beside them: Unicode's categories Cc, Cf, Zl, Zp, the
/// fillers and variation selectors that show nothing, and U+FFFE, U+FFFF, which XML forbids.
constexpr std::array kUnsafe = {
    Range{0x00, 0x1F},       Range{0x7F, 0x9F},       Range{0xAD, 0xAD},       Range{0x34F, 0x34F},
    Range{0x600, 0x605},     Range{0x61C, 0x61C},     Range{0x6DD, 0x6DD},     Range{0x70F, 0x70F},
    Range{0x890, 0x891},     Range{0x8E2, 0x8E2},     Range{0x115F, 0x1160},   Range{0x17B4, 0x17B5},
    Range{0x180B, 0x180F},   Range{0x200B, 0x200F},   Range{0x2028, 0x202E},   Range{0x2060, 0x206F},
    Range{0x3164, 0x3164},   Range{0xFE00, 0xFE0F},   Range{0xFEFF, 0xFEFF},   Range{0xFFA0, 0xFFA0},
    Range{0xFFF0, 0xFFFB},   Range{0xFFFE, 0xFFFF},   Range{0x110BD, 0x110BD}, Range{0x110CD, 0x110CD},
    Range{0x13430, 0x1343F}, Range{0x1BCA0, 0x1BCA3}, Range{0x1D173, 0x1D17A}, Range{0xE0000, 0xE0FFF},
};

bool is_unsafe(std::uint32_t point) {
  if (point >= 0x20 && point < 0x7F) return false;
  const auto* range = std::ranges::lower_bound(kUnsafe, point, {}, &Range::last);
  return range != kUnsafe.end() && point >= range->first;
}

/// What .NET's TrimStart, which runners apply to a line before they look for a command, takes away.
bool is_space(std::uint32_t point) {
  return point == 0x20 || point == 0xA0 || point == 0x1680 || (point >= 0x2000 && point <= 0x200A) || point == 0x202F ||
         point == 0x205F || point == 0x3000;
}

void append_escape(std::string& out, const CodePoint& point) {
  std::array<char, 16> escape{};
  const bool single_byte = !point.valid || point.value < 0x80;
  std::snprintf(escape.data(), escape.size(), single_byte ? "\\x%02x" : "\\u{%x}", static_cast<unsigned>(point.value));
  out += escape.data();
}

/// Appends what `keep` does not accept as its escape.
template <typename Keep>
std::string escape_points(std::string_view text, Keep keep) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = decode_utf8(text);
    if (keep(point)) {
      out += text.substr(0, point.bytes);
    } else {
      append_escape(out, point);
    }
    text.remove_prefix(point.bytes);
  }
  return out;
}

std::string escape_controls(std::string_view text) {
  return escape_points(text, [](const CodePoint& point) { return point.valid && !is_unsafe(point.value); });
}

std::size_t skip_spaces(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const CodePoint point = decode_utf8(text.substr(at));
    if (!point.valid || !is_space(point.value)) break;
    at += point.bytes;
  }
  return at;
}

/// The position of the next `##word[` from `at` on, where a runner looks for a command of its own; npos if none.
std::size_t find_log_command(std::string_view text, std::size_t at) {
  for (at = text.find("##", at); at != std::string_view::npos; at = text.find("##", at + 1)) {
    const auto end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", at + 2);
    if (end != std::string_view::npos && text[end] == '[') return at;
  }
  return std::string_view::npos;
}

/// Puts `between` in place of the second character of every `##word[`.
std::string break_log_commands(std::string text, std::string_view between) {
  for (auto at = find_log_command(text, 0); at != std::string::npos; at = find_log_command(text, at + between.size())) {
    text.replace(at + 1, 1, between);
  }
  return text;
}

std::string_view entity_of(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return {};
  }
}

bool is_word(std::string_view text, std::size_t at) {
  const auto c = static_cast<unsigned char>(at < text.size() ? text[at] : ' ');
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// Breaks what Markdown and GitHub make of a character, given what stands around it.
std::string markdown_of(std::string_view text, std::size_t at) {
  constexpr std::string_view kNothing = "<!-- -->";  // shows nothing and ends a mention or an address
  const char c = text[at];
  if (c == '_' && at > 0 && is_word(text, at - 1) && is_word(text, at + 1)) return "_";
  if (c == '&' || c == '<' || c == '>') return std::string(entity_of(c));
  if (c == '@' || (c == ':' && text.substr(at + 1).starts_with("//"))) return c + std::string(kNothing);
  if (c == '.' && at >= 3 && (text.substr(at - 3, 3) == "www" || text.substr(at - 3, 3) == "WWW")) {
    return std::string(kNothing) + c;
  }
  // At the start of a line these begin a heading, a list or a rule.
  const bool starts = text.substr(0, at).find_first_not_of(' ') == std::string_view::npos;
  if (starts && std::string_view("-+=").find(c) != std::string_view::npos) return std::string("\\") + c;
  if (std::string_view("\\`*_[]|~$#!{}").find(c) != std::string_view::npos) return std::string("\\") + c;
  if ((c == '.' || c == ')') && text.substr(0, at).find_first_not_of("0123456789 ") == std::string_view::npos) {
    return std::string("\\") + c;
  }
  return std::string(1, c);
}

}  // namespace

std::string escape_for_terminal(std::string_view text) {
  std::string out = escape_controls(text);
  const auto start = skip_spaces(out);
  if (out.compare(start, 2, "::") == 0) out.replace(start, 2, "\\:\\:");
  return break_log_commands(std::move(out), "\\#");
}

std::string escape_lines_for_terminal(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto end = text.find('\n');
    out += escape_for_terminal(text.substr(0, end)) + '\n';
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return out;
}

std::string escape_for_csv(std::string_view cell) {
  std::string out = escape_for_terminal(cell);
  const auto start = cell.substr(skip_spaces(cell));
  constexpr std::array<std::string_view, 10> kFormulas = {"=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠"};
  const bool formula = std::ranges::any_of(kFormulas, [&](std::string_view head) { return start.starts_with(head); });
  if (formula) out.insert(0, 1, '\'');
  const bool quote =
      out.find_first_of(",;\"") != std::string::npos || (!out.empty() && (out.front() == ' ' || out.back() == ' '));
  if (!quote) return out;
  std::string quoted = "\"";
  for (const char c : out) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string escape_for_html(std::string_view text) {
  std::string out;
  for (const char c : escape_controls(text)) {
    const auto entity = entity_of(c);
    if (entity.empty()) {
      out += c;
    } else {
      out += entity;
    }
  }
  return out;
}

std::string escape_for_markdown(std::string_view text) {
  const std::string safe = escape_controls(text);
  std::string out;
  for (std::size_t at = 0; at < safe.size(); ++at) out += markdown_of(safe, at);
  return out;
}

std::string escape_invalid_utf8(std::string_view text) {
  return escape_points(text, [](const CodePoint& point) { return point.valid; });
}

std::string escape_json_for_log(std::string json) { return break_log_commands(std::move(json), "\\u0023"); }

std::string escape_json_for_html(std::string_view json) {
  std::string out;
  for (std::size_t at = 0; at < json.size(); ++at) {
    const char c = json[at];
    if (c == '<' || c == '>' || c == '&') {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(c));
      out += escape.data();
    } else if (json.substr(at).starts_with("\u2028") || json.substr(at).starts_with("\u2029")) {
      out += json[at + 2] == '\xa8' ? "\\u2028" : "\\u2029";
      at += 2;
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace tl
