#include "trace/text_tokens.h"

#include <bit>
#include <charconv>
#include <cmath>

#include "core/error.h"

namespace tl::text_form {
namespace {

bool is_bare_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == ':' || c == '/' || c == '#' || c == '-' || c == '$' || c == '*';
}

bool is_name_char(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void append_hex64(std::string& out, std::uint64_t bits) {
  constexpr char kHex[] = "0123456789abcdef";
  out += "bits:0x";
  for (int shift = 60; shift >= 0; shift -= 4) out += kHex[bits >> shift & 15];
}

template <typename T>
void append_shortest(std::string& out, T value) {
  char buffer[40];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  out.append(buffer, result.ptr);
}

}  // namespace

bool is_bare(std::string_view word) {
  if (word.empty()) return false;
  for (const char c : word) {
    if (!is_bare_char(c)) return false;
  }
  return true;
}

void append_word(std::string& out, std::string_view word) {
  if (is_bare(word) && word[0] != '#' && word != "-" && word != "end") {
    out += word;
  } else {
    append_quoted(out, word);
  }
}

void append_quoted(std::string& out, std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_integer(std::string& out, std::int64_t value) { append_shortest(out, value); }

void append_double(std::string& out, double value) {
  if (std::isnan(value)) {
    append_hex64(out, std::bit_cast<std::uint64_t>(value));
  } else {
    append_shortest(out, value);
  }
}

void append_float(std::string& out, float value) {
  if (std::isnan(value)) {
    out += "nan";
  } else {
    append_shortest(out, value);
  }
}

void Cursor::skip_spaces() {
  while (peek() == ' ' || peek() == '\t') ++at_;
}

bool Cursor::accept(char c) {
  if (at_end() || line_[at_] != c) return false;
  ++at_;
  return true;
}

void Cursor::expect(char c) {
  if (!accept(c)) fail(std::string("expected `") + c + "`");
}

char Cursor::escape() {
  const char c = peek();
  ++at_;
  switch (c) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case '"':
    case '\\':
      return c;
    case 'x': {
      if (line_.size() - at_ < 2) break;
      const int high = hex_digit(line_[at_]);
      const int low = hex_digit(line_[at_ + 1]);
      if (high < 0 || low < 0) break;
      at_ += 2;
      return static_cast<char>(high * 16 + low);
    }
    default:
      break;
  }
  fail("unknown escape in a quoted text");
}

Word Cursor::word() {
  Word word;
  if (accept('"')) {
    word.quoted = true;
    while (!accept('"')) {
      if (at_end()) fail("a quoted text does not end");
      const char c = line_[at_++];
      if (c != '\\') {
        word.text += c;
      } else if (at_end()) {
        fail("a quoted text does not end");
      } else {
        word.text += escape();
      }
    }
    return word;
  }
  const auto begin = at_;
  while (!at_end() && is_bare_char(line_[at_])) ++at_;
  if (begin == at_) fail("expected a word");
  word.text = line_.substr(begin, at_ - begin);
  return word;
}

std::int64_t Cursor::integer() {
  std::int64_t value = 0;
  const auto* begin = line_.data() + at_;
  const auto result = std::from_chars(begin, line_.data() + line_.size(), value);
  if (result.ec != std::errc{}) fail("expected an integer");
  at_ += static_cast<std::size_t>(result.ptr - begin);
  return value;
}

double Cursor::number() {
  constexpr std::string_view kBits = "bits:0x";
  const auto rest = line_.substr(at_);
  const auto* end = line_.data() + line_.size();
  if (rest.starts_with(kBits)) {
    std::uint64_t bits = 0;
    const auto* begin = rest.data() + kBits.size();
    const auto result = std::from_chars(begin, end, bits, 16);
    if (result.ec != std::errc{}) fail("expected hexadecimal bits");
    at_ += kBits.size() + static_cast<std::size_t>(result.ptr - begin);
    return std::bit_cast<double>(bits);
  }
  double value = 0;
  const auto result = std::from_chars(rest.data(), end, value);
  if (result.ec != std::errc{}) fail("expected a number");
  at_ += static_cast<std::size_t>(result.ptr - rest.data());
  return value;
}

bool Cursor::at_field() const {
  auto at = at_;
  while (at < line_.size() && is_name_char(line_[at])) ++at;
  return at > at_ && at < line_.size() && line_[at] == '=';
}

std::string_view Cursor::field_name() {
  const auto begin = at_;
  while (!at_end() && is_name_char(line_[at_])) ++at_;
  const auto name = line_.substr(begin, at_ - begin);
  if (name.empty() || peek() != '=') fail("expected field=value");
  ++at_;
  return name;
}

void Cursor::fail(const std::string& what) const {
  throw Error(ErrorCode::kTextSyntax,
              "line " + std::to_string(line_number_) + ", column " + std::to_string(at_ + 1) + ": " + what);
}

bool parse_row_number(const Word& word, std::int64_t& row) {
  if (word.quoted || word.text.size() < 2 || word.text[0] != '#') return false;
  const auto* end = word.text.data() + word.text.size();
  const auto result = std::from_chars(word.text.data() + 1, end, row);
  return result.ec == std::errc{} && result.ptr == end;
}

}  // namespace tl::text_form
