#include "archive/script_lexer.h"

#include <algorithm>
#include <array>
#include <cctype>

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

std::size_t ScriptLexer::symbol_length() const {
  // Only these continue a symbol, so that most characters are told by one look.
  constexpr std::string_view kSecond = "=*/<>.|&:";
  if (at_ + 1 >= source_.size() || kSecond.find(source_[at_ + 1]) == std::string_view::npos) return 1;
  const auto symbol = std::ranges::find_if(kSymbols, [&](std::string_view s) { return starts_with(s); });
  return symbol == kSymbols.end() ? 1 : symbol->size();
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
  const std::size_t length = symbol_length();
  if (c == '.' && length == 1) return make(ScriptTokenKind::kDot, 1);
  return make(is_operator(source_.substr(at_, length)) ? ScriptTokenKind::kOperator : ScriptTokenKind::kPunctuation,
              length);
}

std::string script_string_value(std::string_view literal) {
  const std::size_t quotes = literal.size() >= 6 && literal[1] == literal[0] && literal[2] == literal[0] ? 3 : 1;
  const std::string_view body = literal.substr(quotes, literal.size() - 2 * quotes);
  std::string value;
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\' || i + 1 >= body.size()) {
      value.push_back(body[i]);
      continue;
    }
    ++i;
    const bool hex = body[i] == 'x';
    const auto is_octal = [](char c) { return c >= '0' && c <= '7'; };
    if (body[i] == '\n') continue;
    if (hex || is_octal(body[i])) {
      std::size_t end = hex ? ++i : i;
      const std::size_t limit = std::min(body.size(), i + (hex ? 2 : 3));
      while (end < limit && (hex ? std::isxdigit(static_cast<unsigned char>(body[end])) != 0 : is_octal(body[end])))
        ++end;
      const std::string digits(body.substr(i, end - i));
      value.push_back(digits.empty() ? 'x' : static_cast<char>(std::stoi(digits, nullptr, hex ? 16 : 8)));
      i = end - 1;
    } else {
      value.push_back(body[i]);
    }
  }
  return value;
}

}  // namespace tl
