#include "select/scanner.h"

#include <algorithm>

#include "core/text.h"

namespace tl {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool starts_identifier(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

bool continues_identifier(char c) { return starts_identifier(c) || (c >= '0' && c <= '9'); }

}  // namespace

Error selector_error(ErrorCode code, std::string_view source, std::size_t at, std::string message, std::string hint) {
  constexpr std::size_t kBefore = 40;
  constexpr std::size_t kShown = 72;
  at = std::min(at, source.size());
  const auto begin = at > kBefore ? at - kBefore : 0;
  std::string line(source.substr(begin, kShown));
  const auto before = display_width(line.substr(0, at - begin));
  for (auto& c : line) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return {code, std::move(message), std::move(hint), line + "\n" + std::string(before, ' ') + "^"};
}

char Scanner::peek() {
  while (at_ < source_.size() && is_space(source_[at_])) ++at_;
  return at_ < source_.size() ? source_[at_] : '\0';
}

bool Scanner::take(std::string_view text) {
  peek();
  if (!rest().starts_with(text)) return false;
  at_ += text.size();
  return true;
}

void Scanner::expect(std::string_view text, std::string_view where) {
  if (take(text)) return;
  fail("expected '" + std::string(text) + "' " + std::string(where) + ", not " + next_shown());
}

std::string Scanner::string() {
  const auto begin = at_;
  const char quote = source_[at_++];
  std::string text;
  for (; at_ < source_.size(); ++at_) {
    const char c = source_[at_];
    if (c == quote) {
      ++at_;
      return text;
    }
    const char next = at_ + 1 < source_.size() ? source_[at_ + 1] : '\0';
    if (c == '\\' && (next == quote || next == '\\')) {
      text += next;
      ++at_;
    } else {
      text += c;
    }
  }
  fail_at(begin, "the text in quotes does not end");
}

std::string_view Scanner::identifier() {
  if (!starts_identifier(peek())) return {};
  const auto begin = at_;
  while (at_ < source_.size() && continues_identifier(source_[at_])) ++at_;
  return source_.substr(begin, at_ - begin);
}

void Scanner::fail_at(std::size_t at, std::string message, std::string hint) {
  throw selector_error(ErrorCode::kSelectorSyntax, source_, at, std::move(message), std::move(hint));
}

std::string Scanner::next_shown() {
  if (peek() == '\0' && at_ >= source_.size()) return "the end";
  return "'" + std::string(source_.substr(at_, 1)) + "'";
}

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

}  // namespace tl
