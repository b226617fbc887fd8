#include "archive/script_lexer.h"

#include <algorithm>
#include <array>

#include "core/error.h"

namespace tl {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_part(char c) { return is_letter(c) || is_digit(c); }

// Longest first. `->` and the assignments are punctuation: nothing nests in them.
constexpr std::array<std::string_view, 27> kSymbols = {
    "**=", "//=", "<<=", ">>=", "...", "->", "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=",
    "==",  "!=",  "<=",  ">=",  "<<",  ">>", "**", "//", ":=", "<>", "||", "&&", "::"};

bool is_operator(std::string_view symbol) {
  static constexpr std::array<std::string_view, 20> kOperators = {
      "+", "-", "*", "/", "%", "@", "&", "|", "^", "~", "<", ">", "==", "!=", "<=", ">=", "<<", ">>", "**", "//"};
  return std::ranges::find(kOperators, symbol) != kOperators.end();
}

}  // namespace

std::string ScriptLexer::place() const { return std::string(file_) + ":" + std::to_string(line_); }

ScriptToken ScriptLexer::make(ScriptTokenKind kind, std::size_t length) {
  const ScriptToken token{kind, source_.substr(at_, length), line_, indent_};
  line_ += static_cast<std::uint32_t>(std::ranges::count(token.text, '\n'));
  at_ += length;
  return token;
}

void ScriptLexer::measure_indent() {
  indent_ = 0;
  while (at_ < source_.size() && (source_[at_] == ' ' || source_[at_] == '\t')) {
    ++at_;
    ++indent_;
  }
  line_start_ = false;
}

// White space, comments and continued lines; stops at a newline that counts.
void ScriptLexer::skip_blank() {
  while (at_ < source_.size()) {
    const char c = source_[at_];
    if (c == '\n') {
      if (nesting_ == 0) return;
      ++line_;
      ++at_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
      ++at_;
    } else if (starts_with("\\\n") || starts_with("\\\r\n")) {
      at_ += source_[at_ + 1] == '\n' ? 2 : 3;
      ++line_;
    } else if (c == '#') {
      constexpr std::string_view kTypeComment = "# type:";
      if (starts_with(kTypeComment)) {
        at_ += kTypeComment.size();
      } else {
        at_ = std::min(source_.find('\n', at_), source_.size());
      }
    } else {
      return;
    }
  }
}

std::size_t ScriptLexer::string_length() const {
  const char quote = source_[at_];
  const std::string_view triple = source_.substr(at_, 3);
  const bool is_triple = triple.size() == 3 && triple[1] == quote && triple[2] == quote;
  const std::string_view close = is_triple ? triple : triple.substr(0, 1);
  for (std::size_t end = at_ + close.size(); end < source_.size(); ++end) {
    if (source_.substr(end).starts_with(close)) return end + close.size() - at_;
    if (source_[end] == '\n' && !is_triple) break;
    if (source_[end] == '\\') ++end;
  }
  throw Error(ErrorCode::kFileDamaged, place() + ": a string literal does not end");
}

// Digits, a fraction and an exponent, as strtod takes them, and the j of an imaginary number. Never more than LibTorch
// takes, so that no name can hide behind a number.
std::size_t ScriptLexer::number_length() const {
  std::size_t end = at_;
  const auto digits = [&] {
    while (end < source_.size() && is_digit(source_[end])) ++end;
  };
  digits();
  if (end < source_.size() && source_[end] == '.') ++end;
  digits();
  if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
    std::size_t exponent = end + 1;
    if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
    if (exponent < source_.size() && is_digit(source_[exponent])) {
      end = exponent;
      digits();
    }
  }
  if (end < source_.size() && source_[end] == 'j') ++end;
  return end - at_;
}

ScriptToken ScriptLexer::next() {
  if (line_start_) measure_indent();
  skip_blank();
  if (at_ >= source_.size()) return make(ScriptTokenKind::kEnd, 0);
  const char c = source_[at_];
  if (c == '\n') {
    const ScriptToken token = make(ScriptTokenKind::kNewline, 1);
    line_start_ = true;
    return token;
  }
  if (is_letter(c)) {
    std::size_t end = at_ + 1;
    while (end < source_.size() && is_name_part(source_[end])) ++end;
    return make(ScriptTokenKind::kIdentifier, end - at_);
  }
  const bool fraction = c == '.' && at_ + 1 < source_.size() && is_digit(source_[at_ + 1]);
  if (is_digit(c) || fraction) return make(ScriptTokenKind::kNumber, number_length());
  if (c == '"' || c == '\'') return make(ScriptTokenKind::kString, string_length());
  if (c == '(' || c == '[' || c == '{') {
    ++nesting_;
    return make(ScriptTokenKind::kOpen, 1);
  }
  if (c == ')' || c == ']' || c == '}') {
    if (nesting_ > 0) --nesting_;
    return make(ScriptTokenKind::kClose, 1);
  }
  if (c < ' ' || c >= 0x7f) {
    throw Error(ErrorCode::kFileDamaged, place() + ": byte " + std::to_string(static_cast<unsigned char>(c)) +
                                             " where TorchScript source has none");
  }
  const auto symbol = std::ranges::find_if(kSymbols, [&](std::string_view s) { return starts_with(s); });
  const std::size_t length = symbol == kSymbols.end() ? 1 : symbol->size();
  if (c == '.' && length == 1) return make(ScriptTokenKind::kDot, 1);
  return make(is_operator(source_.substr(at_, length)) ? ScriptTokenKind::kOperator : ScriptTokenKind::kPunctuation,
              length);
}

}  // namespace tl
