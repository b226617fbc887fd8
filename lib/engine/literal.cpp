#include "engine/literal.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <variant>

#include "core/text.h"
#include "core/utf8.h"

namespace tl {
namespace {

constexpr int kMaxDepth = 64;

class LiteralParser {
 public:
  LiteralParser(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  std::optional<InputValue> whole() {
    for (std::string_view rest = text_; !rest.empty();) {
      const auto point = decode_utf8(rest);
      if (!point.valid) {
        at_ = text_.size() - rest.size();
        return fail("a byte that is no UTF-8");
      }
      rest.remove_prefix(point.bytes);
    }
    auto result = value(0);
    if (!result) return std::nullopt;
    skip_spaces();
    if (at_ != text_.size()) return fail("text after the value");
    return result;
  }

  /// Why there is no value; only then.
  std::string reason() const { return reason_ + " at character " + std::to_string(reason_at_ + 1); }

 private:
  std::nullopt_t fail(const std::string& why) { return fail(why, at_); }
  /// The first failure is the cause, those of the containers around it follow.
  std::nullopt_t fail(const std::string& why, std::size_t where) {
    if (reason_.empty()) {
      reason_ = why;
      reason_at_ = where;
    }
    return std::nullopt;
  }

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
    if (depth > kMaxDepth) return fail("more than " + std::to_string(kMaxDepth) + " levels");
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
      if (!take(',')) return fail(std::string("neither ',' nor '") + close + "'");
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
    std::set<Key> seen;
    if (take('}')) return made(std::move(result));
    for (;;) {
      skip_spaces();
      const auto key_at = at_;
      auto key = value(depth + 1);
      if (!key) return std::nullopt;
      if (!is_new_key(*key, seen)) return fail("a key that cannot be one, or is there already", key_at);
      if (!take(':')) return fail("no ':'");
      auto element = value(depth + 1);
      if (!element) return std::nullopt;
      result.emplace_back(std::move(*key), std::move(*element));
      if (take('}')) return made(std::move(result));
      if (!take(',')) return fail("neither ',' nor '}'");
    }
  }

  using Key = std::variant<bool, std::int64_t, std::string>;

  static bool is_new_key(const InputValue& key, std::set<Key>& seen) {
    if (const auto* boolean = std::get_if<bool>(&key.data)) return seen.insert(*boolean).second;
    if (const auto* integer = std::get_if<std::int64_t>(&key.data)) return seen.insert(*integer).second;
    if (const auto* text = std::get_if<std::string>(&key.data)) return seen.insert(*text).second;
    return std::holds_alternative<double>(key.data);
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
      if (at_ >= text_.size()) break;
      const char escape = text_[at_++];
      if (escape == 'u') {
        if (!unicode_escape(result)) return fail("an escape that names no character");
      } else if (const auto known = kEscapes.find(escape); known != std::string_view::npos) {
        result += kMeanings[known];
      } else {
        return fail("an unknown escape");
      }
    }
    return fail("a string without its closing quote");
  }

  std::optional<InputValue> word() {
    skip_spaces();
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
    return number(token, begin);
  }

  std::optional<InputValue> number(std::string_view token, std::size_t where) {
    if (token.empty()) return fail(begins_value(where), where);
    const auto shown = "'" + elide(token, 40) + "'";
    if (token.find_first_not_of("0123456789+-.eE") != std::string_view::npos)
      return fail(shown + ", which is no value", where);
    const char* begin = token.data();
    const char* end = begin + token.size();
    if (token.find_first_of(".eE") == std::string_view::npos) {
      std::int64_t integer = 0;
      const auto [stop, error] = std::from_chars(begin, end, integer);
      if (error == std::errc::result_out_of_range) return fail(shown + ", which is outside int64", where);
      if (error != std::errc() || stop != end) return fail(shown + ", which is no number", where);
      return made(integer);
    }
    double real = 0;
    const auto [stop, error] = std::from_chars(begin, end, real);
    if (error == std::errc::result_out_of_range) return fail(shown + ", which is outside float64", where);
    if (error != std::errc() || stop != end) return fail(shown + ", which is no number", where);
    return made(real);
  }

  std::string begins_value(std::size_t where) const {
    if (where >= text_.size()) return "nothing where a value should be";
    return std::string("'") + text_[where] + "' where a value should be";
  }

  std::string_view text_;
  const std::string& source_;
  std::size_t at_ = 0;
  std::string reason_;
  std::size_t reason_at_ = 0;
};

}  // namespace

std::optional<InputValue> parse_literal(std::string_view text, const std::string& source, std::string* reason) {
  LiteralParser parser(text, source);
  auto value = parser.whole();
  if (!value && reason != nullptr) *reason = parser.reason();
  return value;
}

}  // namespace tl
