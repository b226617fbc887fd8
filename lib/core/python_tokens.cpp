#include "core/python_tokens.h"

#include <algorithm>
#include <array>

namespace tl {
namespace {

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

/// Operators of more than one byte that the outline must not take for `=`, `:` or each other.
constexpr std::array<std::string_view, 25> kLongOperators = {
    "**=", "//=", ">>=", "<<=", "...", "==", "!=", "<=", ">=", ":=", "->", "+=", "-=",
    "*=",  "/=",  "%=",  "&=",  "|=",  "^=", "@=", "**", "//", ">>", "<<", "<>"};

class Cutter {
 public:
  Cutter(std::string_view text, PythonExtent extent) : text_(text), fragment_(extent == PythonExtent::kFragment) {}

  std::optional<PythonTokens> cut() {
    if (text_.size() > kPythonTextBytes) return std::nullopt;
    while (at_ < text_.size()) {
      if (!step()) return std::nullopt;
    }
    end_line();
    if (!open_.empty() && !fragment_) return std::nullopt;
    return std::move(out_);
  }

 private:
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  /// Reads one token, blank or line end; false if the text is no Python.
  bool step() {
    const char c = peek();
    if (c == '\n' || c == '\r') {
      ++at_;
      if (open_.empty()) end_line();
      return true;
    }
    if (c == ' ' || c == '\t' || c == '\f') {
      if (at_line_start_) indent_ = c == '\t' ? (indent_ / 8 + 1) * 8 : indent_ + (c == ' ' ? 1 : 0);
      ++at_;
      return true;
    }
    if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
      return true;
    }
    if (c == '\\') return join_lines();
    at_line_start_ = false;
    if (is_name_start(c)) return read_name();
    if (c == '"' || c == '\'') return read_string(at_);
    if (is_digit(c) || (c == '.' && is_digit(peek(1)))) return read_number();
    return read_symbol();
  }

  bool join_lines() {
    ++at_;
    if (peek() == '\r') ++at_;
    if (at_ == text_.size()) return fragment_;
    if (peek() != '\n') return false;
    ++at_;
    return true;
  }

  void end_line() {
    if (line_first_ < out_.tokens.size()) {
      out_.lines.push_back({line_indent_, line_first_, static_cast<std::uint32_t>(out_.tokens.size())});
    }
    line_first_ = static_cast<std::uint32_t>(out_.tokens.size());
    at_line_start_ = true;
    indent_ = 0;
  }

  void push(PythonTokenKind kind, std::size_t begin) {
    if (out_.tokens.size() == line_first_) line_indent_ = indent_;
    out_.tokens.push_back({kind, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(at_)});
  }

  bool read_name() {
    const auto begin = at_;
    while (is_name_part(peek())) ++at_;
    if (peek() == '"' || peek() == '\'') {
      constexpr std::string_view kPrefixLetters = "rRbBuUfFtT";
      const auto prefix = text_.substr(begin, at_ - begin);
      const auto is_prefix_letter = [&](char c) { return kPrefixLetters.find(c) != std::string_view::npos; };
      if (prefix.size() <= 2 && std::ranges::all_of(prefix, is_prefix_letter)) return read_string(begin);
    }
    push(PythonTokenKind::kName, begin);
    return true;
  }

  /// A backslash keeps the quote after it inside the string, in raw strings too.
  bool read_string(std::size_t begin) {
    const char quote = peek();
    const bool triple = peek(1) == quote && peek(2) == quote;
    at_ += triple ? 3 : 1;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\\') {
        ++at_;
      } else if (c == '\n' && !triple) {
        return false;
      } else if (c == quote && (!triple || (peek(1) == quote && peek(2) == quote))) {
        at_ += triple ? 3 : 1;
        push(PythonTokenKind::kLiteral, begin);
        return true;
      }
    }
    at_ = text_.size();
    if (triple && fragment_) push(PythonTokenKind::kLiteral, begin);
    return triple && fragment_;
  }

  bool read_number() {
    const auto begin = at_;
    while (is_name_part(peek()) || peek() == '.' || ((peek() == '+' || peek() == '-') && is_exponent(begin))) ++at_;
    push(PythonTokenKind::kLiteral, begin);
    return true;
  }

  bool is_exponent(std::size_t begin) const {
    if (at_ == begin || (text_[at_ - 1] != 'e' && text_[at_ - 1] != 'E')) return false;
    return text_.substr(begin, 2) != "0x" && text_.substr(begin, 2) != "0X";
  }

  bool read_symbol() {
    const auto begin = at_;
    const char c = peek();
    if (c == '(' || c == '[' || c == '{') {
      if (open_.size() >= kPythonDepth) return false;
      open_.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
      ++at_;
      push(PythonTokenKind::kOpen, begin);
      return true;
    }
    if (c == ')' || c == ']' || c == '}') {
      if (open_.empty() ? !fragment_ : open_.back() != c) return false;
      if (!open_.empty()) open_.pop_back();
      ++at_;
      push(PythonTokenKind::kClose, begin);
      return true;
    }
    constexpr std::string_view kSingle = "+-*/%@&|^~<>=:,.;!";
    const auto rest = text_.substr(at_);
    const auto* found =
        std::ranges::find_if(kLongOperators, [&](std::string_view symbol) { return rest.starts_with(symbol); });
    if (found == kLongOperators.end() && kSingle.find(c) == std::string_view::npos) return false;
    at_ += found == kLongOperators.end() ? 1 : found->size();
    push(PythonTokenKind::kOther, begin);
    return true;
  }

  std::string_view text_;
  bool fragment_;
  std::size_t at_ = 0;
  PythonTokens out_;
  std::vector<char> open_;  // closing brackets that are due
  std::uint32_t indent_ = 0;
  std::uint32_t line_indent_ = 0;
  std::uint32_t line_first_ = 0;
  bool at_line_start_ = true;
};

}  // namespace

std::optional<PythonTokens> python_tokens(std::string_view text, PythonExtent extent) {
  return Cutter(text, extent).cut();
}

}  // namespace tl
