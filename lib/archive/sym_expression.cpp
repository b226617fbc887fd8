#include "archive/sym_expression.h"

#include <algorithm>
#include <charconv>
#include <vector>

namespace tl {
namespace {

using Value = std::optional<std::int64_t>;

constexpr int kMaxDepth = 64;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

Value floor_divide(std::int64_t a, std::int64_t b) {
  if (b == 0 || (a == INT64_MIN && b == -1)) return std::nullopt;
  const auto quotient = a / b;
  return quotient * b != a && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Value modulo(std::int64_t a, std::int64_t b) {
  if (b == 0) return std::nullopt;
  if (b == -1) return 0;
  const auto rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Value power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0 || exponent > 63) return std::nullopt;
  std::int64_t result = 1;
  for (std::int64_t i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) return std::nullopt;
  }
  return result;
}

/// Recursive descent: sum of terms of factors.
class Evaluator {
 public:
  Evaluator(std::string_view text, const SymbolValue& value_of) : text_(text), value_of_(value_of) {}

  Value run() {
    const auto value = sum(0);
    skip();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view token) {
    skip();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  Value sum(int depth) {
    if (depth > kMaxDepth) return std::nullopt;
    auto left = term(depth);
    while (left) {
      const bool plus = take("+");
      if (!plus && !take("-")) return left;
      const auto right = term(depth);
      std::int64_t result = 0;
      if (!right ||
          (plus ? __builtin_add_overflow(*left, *right, &result) : __builtin_sub_overflow(*left, *right, &result))) {
        return std::nullopt;
      }
      left = result;
    }
    return left;
  }

  Value term(int depth) {
    auto left = factor(depth);
    while (left) {
      if (take("//")) {
        const auto right = factor(depth);
        left = right ? floor_divide(*left, *right) : std::nullopt;
      } else if (take("%")) {
        const auto right = factor(depth);
        left = right ? modulo(*left, *right) : std::nullopt;
      } else if (take("*")) {
        const auto right = factor(depth);
        std::int64_t result = 0;
        if (!right || __builtin_mul_overflow(*left, *right, &result)) return std::nullopt;
        left = result;
      } else {
        return left;
      }
    }
    return left;
  }

  Value factor(int depth) {
    if (depth > kMaxDepth) return std::nullopt;
    if (take("-")) {
      const auto value = factor(depth + 1);
      std::int64_t result = 0;
      if (!value || __builtin_sub_overflow(std::int64_t{0}, *value, &result)) return std::nullopt;
      return result;
    }
    auto base = atom(depth);
    if (base && take("**")) {
      const auto exponent = factor(depth + 1);
      base = exponent ? power(*base, *exponent) : std::nullopt;
    }
    return base;
  }

  Value atom(int depth) {
    skip();
    if (take("(")) {
      const auto value = sum(depth + 1);
      return take(")") ? value : std::nullopt;
    }
    if (at_ < text_.size() && is_digit(text_[at_])) {
      std::int64_t value = 0;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
      if (error != std::errc()) return std::nullopt;
      at_ = static_cast<std::size_t>(end - text_.data());
      return value;
    }
    const auto begin = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
    const auto name = text_.substr(begin, at_ - begin);
    if (name.empty()) return std::nullopt;
    return take("(") ? call(name, depth) : value_of_(name);
  }

  Value call(std::string_view name, int depth) {
    std::vector<std::int64_t> arguments;
    do {
      const auto value = sum(depth + 1);
      if (!value) return std::nullopt;
      arguments.push_back(*value);
    } while (take(","));
    if (!take(")")) return std::nullopt;
    if (name == "Max") return *std::ranges::max_element(arguments);
    if (name == "Min") return *std::ranges::min_element(arguments);
    if (arguments.size() != 2) return std::nullopt;
    if (name == "Mod" || name == "PythonMod") return modulo(arguments[0], arguments[1]);
    if (name == "FloorDiv" || name == "CleanDiv") return floor_divide(arguments[0], arguments[1]);
    if (name == "CeilDiv" || name == "CeilToInt") {
      const auto down = arguments[0] == INT64_MIN ? std::nullopt : floor_divide(-arguments[0], arguments[1]);
      return down && *down != INT64_MIN ? Value(-*down) : std::nullopt;
    }
    return std::nullopt;
  }

  std::string_view text_;
  const SymbolValue& value_of_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::int64_t> evaluate_expression(std::string_view text, const SymbolValue& value_of) {
  return Evaluator(text, value_of).run();
}

std::vector<std::string> symbols_of(std::string_view text) {
  std::vector<std::string> symbols;
  for (std::size_t at = 0; at < text.size();) {
    if (!is_letter(text[at])) {
      ++at;
      continue;
    }
    const auto begin = at;
    while (at < text.size() && (is_letter(text[at]) || is_digit(text[at]))) ++at;
    std::string name(text.substr(begin, at - begin));
    const bool call = at < text.size() && text[at] == '(';
    if (!call && std::ranges::find(symbols, name) == symbols.end()) symbols.push_back(std::move(name));
  }
  return symbols;
}

std::optional<std::int64_t> solve_expression(std::string_view text, std::string_view symbol, std::int64_t target,
                                             const SymbolValue& value_of) {
  const auto at = [&](std::int64_t value) {
    return evaluate_expression(text, [&](std::string_view name) { return name == symbol ? value : value_of(name); });
  };
  const auto zero = at(0);
  const auto one = at(1);
  const auto two = at(2);
  std::int64_t slope = 0, second = 0, rest = 0;
  if (!zero || !one || !two || __builtin_sub_overflow(*one, *zero, &slope) ||
      __builtin_sub_overflow(*two, *one, &second) || slope != second || slope == 0 ||
      __builtin_sub_overflow(target, *zero, &rest) || (slope == -1 && rest == INT64_MIN) || rest % slope != 0) {
    return std::nullopt;
  }
  const auto value = rest / slope;
  return at(value) == target ? std::optional(value) : std::nullopt;
}

bool is_symbol(std::string_view text) {
  return !text.empty() && is_letter(text[0]) &&
         std::ranges::all_of(text, [](char c) { return is_letter(c) || is_digit(c); });
}

}  // namespace tl
