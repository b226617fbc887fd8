#include "engine/literal.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace tl {
namespace {

constexpr int kMaxDepth = 64;

void append_utf8(std::string& out, std::uint32_t point) {
  const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xc0 | point >> 6);
    put(0x80 | (point & 0x3f));
  } else if (point < 0x10000) {
    put(0xe0 | point >> 12);
    put(0x80 | (point >> 6 & 0x3f));
    put(0x80 | (point & 0x3f));
  } else {
    put(0xf0 | point >> 18);
    put(0x80 | (point >> 12 & 0x3f));
    put(0x80 | (point >> 6 & 0x3f));
    put(0x80 | (point & 0x3f));
  }
}

class LiteralParser {
 public:
  LiteralParser(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  std::optional<InputValue> whole() {
    auto result = value(0);
    skip_spaces();
    return at_ == text_.size() ? result : std::nullopt;
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  bool take(char wanted) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  InputValue made(decltype(InputValue::data) data) const { return InputValue{std::move(data), source_}; }

  std::optional<InputValue> value(int depth) {
    if (depth > kMaxDepth) return std::nullopt;
    if (take('[')) return list(depth);
    if (take('(')) return tuple(depth);
    if (take('{')) return dict(depth);
    if (take('"')) {
      if (auto text = string()) return made(std::move(*text));
      return std::nullopt;
    }
    return word();
  }

  std::optional<InputValue::List> elements(char close, int depth) {
    InputValue::List result;
    if (take(close)) return result;
    for (;;) {
      auto element = value(depth + 1);
      if (!element) return std::nullopt;
      result.push_back(std::move(*element));
      if (take(close)) return result;
      if (!take(',')) return std::nullopt;
      if (close == ')' && take(close)) return result;  // (1,)
    }
  }

  std::optional<InputValue> list(int depth) {
    auto result = elements(']', depth);
    if (!result) return std::nullopt;
    return made(std::move(*result));
  }

  std::optional<InputValue> tuple(int depth) {
    auto result = elements(')', depth);
    if (!result) return std::nullopt;
    return made(InputValue::Tuple{std::move(*result)});
  }

  std::optional<InputValue> dict(int depth) {
    InputValue::Dict result;
    if (take('}')) return made(std::move(result));
    for (;;) {
      auto key = value(depth + 1);
      if (!key || !take(':')) return std::nullopt;
      auto element = value(depth + 1);
      if (!element) return std::nullopt;
      result.emplace_back(std::move(*key), std::move(*element));
      if (take('}')) return made(std::move(result));
      if (!take(',')) return std::nullopt;
    }
  }

  std::optional<std::uint32_t> hex4() {
    std::uint32_t point = 0;
    if (text_.size() - at_ < 4) return std::nullopt;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + at_ + 4, point, 16);
    if (error != std::errc() || end != text_.data() + at_ + 4) return std::nullopt;
    at_ += 4;
    return point;
  }

  bool unicode_escape(std::string& out) {
    auto point = hex4();
    if (!point) return false;
    if (*point >= 0xd800 && *point < 0xdc00) {  // the first half of a surrogate pair
      if (text_.substr(at_, 2) != "\\u") return false;
      at_ += 2;
      const auto low = hex4();
      if (!low || *low < 0xdc00 || *low > 0xdfff) return false;
      point = 0x10000 + ((*point - 0xd800) << 10) + (*low - 0xdc00);
    } else if (*point >= 0xdc00 && *point <= 0xdfff) {
      return false;
    }
    append_utf8(out, *point);
    return true;
  }

  std::optional<std::string> string() {
    constexpr std::string_view kEscapes = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    std::string result;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') return result;
      if (c != '\\') {
        result += c;
        continue;
      }
      if (at_ >= text_.size()) return std::nullopt;
      const char escape = text_[at_++];
      if (escape == 'u') {
        if (!unicode_escape(result)) return std::nullopt;
      } else if (const auto known = kEscapes.find(escape); known != std::string_view::npos) {
        result += kMeanings[known];
      } else {
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

  std::optional<InputValue> word() {
    const auto begin = at_;
    while (at_ < text_.size() && std::string_view(" \t\r\n,:[](){}\"").find(text_[at_]) == std::string_view::npos)
      ++at_;
    const auto token = text_.substr(begin, at_ - begin);
    if (token == "none" || token == "None" || token == "null") return made(InputValue::None{});
    if (token == "true" || token == "True") return made(true);
    if (token == "false" || token == "False") return made(false);
    constexpr double kInf = std::numeric_limits<double>::infinity();
    if (token == "nan" || token == "NaN") return made(std::nan(""));
    if (token == "inf" || token == "Infinity") return made(kInf);
    if (token == "-inf" || token == "-Infinity") return made(-kInf);
    return number(token);
  }

  std::optional<InputValue> number(std::string_view token) const {
    if (token.empty() || token.find_first_not_of("0123456789+-.eE") != std::string_view::npos) return std::nullopt;
    const char* begin = token.data();
    const char* end = begin + token.size();
    if (token.find_first_of(".eE") == std::string_view::npos) {
      std::int64_t integer = 0;
      const auto [stop, error] = std::from_chars(begin, end, integer);
      if (error != std::errc() || stop != end) return std::nullopt;
      return made(integer);
    }
    double real = 0;
    const auto [stop, error] = std::from_chars(begin, end, real);
    if (error != std::errc() || stop != end) return std::nullopt;
    return made(real);
  }

  std::string_view text_;
  const std::string& source_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<InputValue> parse_literal(std::string_view text, const std::string& source) {
  return LiteralParser(text, source).whole();
}

}  // namespace tl
