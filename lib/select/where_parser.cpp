#include <charconv>
#include <cmath>
#include <optional>

#include "select/scanner.h"

namespace tl {
namespace {

using Kind = Expression::Kind;

struct Operator {
  std::string_view text;
  Comparison comparison;
};
// Longer ones first.
constexpr Operator kOperators[] = {{"==", Comparison::kEqual},     {"!=", Comparison::kNotEqual},
                                   {"<=", Comparison::kLessEqual}, {">=", Comparison::kGreaterEqual},
                                   {"<", Comparison::kLess},       {">", Comparison::kGreater},
                                   {"not in", Comparison::kNotIn}, {"in", Comparison::kIn}};

std::string_view text_of(Comparison comparison) {
  for (const auto& [text, value] : kOperators) {
    if (value == comparison) return text;
  }
  return {};
}

class ExpressionParser {
 public:
  explicit ExpressionParser(Scanner& scanner) : scanner_(scanner) {}

  Expression any() {
    if (++depth_ > Scanner::kMaxDepth) scanner_.fail("the expression is nested more than 64 deep");
    auto result = joined(Kind::kOr, "or", [this] { return joined(Kind::kAnd, "and", [this] { return negated(); }); });
    --depth_;
    return result;
  }

 private:
  /// Takes a word that is not the beginning of a longer one.
  bool take_word(std::string_view word) {
    scanner_.peek();
    auto copy = scanner_;
    if (copy.identifier() != word) return false;
    scanner_ = copy;
    return true;
  }

  template <typename Inner>
  Expression joined(Kind kind, std::string_view word, Inner inner) {
    auto first = inner();
    if (!take_word(word)) return first;
    Expression result{.kind = kind, .at = first.at};
    result.children.push_back(std::move(first));
    do {
      auto next = inner();
      if (next.kind == kind) {  // (a and b) and c is a and b and c
        for (auto& child : next.children) result.children.push_back(std::move(child));
      } else {
        result.children.push_back(std::move(next));
      }
    } while (take_word(word));
    if (result.children.front().kind == kind) {
      auto inner_children = std::move(result.children.front().children);
      result.children.erase(result.children.begin());
      result.children.insert(result.children.begin(), std::make_move_iterator(inner_children.begin()),
                             std::make_move_iterator(inner_children.end()));
    }
    return result;
  }

  Expression negated() {
    scanner_.peek();
    const auto at = scanner_.at();
    if (!take_word("not")) return compared();
    if (++depth_ > Scanner::kMaxDepth) scanner_.fail("the expression is nested more than 64 deep");
    Expression result{.kind = Kind::kNot, .at = at};
    result.children.push_back(negated());
    --depth_;
    return result;
  }

  std::optional<Comparison> comparison() {
    for (const auto& [text, value] : kOperators) {
      if (value == Comparison::kIn) {
        if (take_word("in")) return value;
      } else if (value == Comparison::kNotIn) {
        auto copy = scanner_;
        if (take_word("not") && take_word("in")) return value;
        scanner_ = copy;
      } else if (scanner_.take(text)) {
        return value;
      }
    }
    return std::nullopt;
  }

  /// a < b <= c is a < b and b <= c.
  Expression compared() {
    auto left = operand();
    std::vector<Expression> parts;
    while (const auto found = comparison()) {
      // The middle of a chain stands twice in what it means; only what is small may.
      if (!parts.empty() && !left.children.empty()) scanner_.fail_at(left.at, "write this comparison with 'and'");
      auto right = operand();
      Expression part{.kind = Kind::kCompare, .comparison = *found, .at = left.at};
      part.children.push_back(std::move(left));
      part.children.push_back(right);
      left = std::move(right);
      parts.push_back(std::move(part));
    }
    if (parts.empty()) return left;
    if (parts.size() == 1) return std::move(parts.front());
    Expression all{.kind = Kind::kAnd, .at = parts.front().at};
    all.children = std::move(parts);
    return all;
  }

  Expression operand() {
    const char c = scanner_.peek();
    const auto at = scanner_.at();
    if (c == '(') {
      scanner_.skip(1);
      auto inner = any();
      scanner_.expect(")", "after the expression");
      return inner;
    }
    if (c == '[') return list(at);
    return literal_or_field(at, c);
  }

  Expression list(std::size_t at) {
    scanner_.skip(1);
    Expression result{.kind = Kind::kList, .at = at};
    if (scanner_.take("]")) return result;
    do {
      scanner_.peek();
      const auto item_at = scanner_.at();
      auto item = literal_or_field(item_at, scanner_.peek());
      if (item.kind == Kind::kField) scanner_.fail_at(item_at, "a list holds numbers and texts in quotes");
      result.children.push_back(std::move(item));
    } while (scanner_.take(","));
    scanner_.expect("]", "after the list");
    return result;
  }

  Expression literal_or_field(std::size_t at, char c) {
    if (c == '"' || c == '\'') return {.kind = Kind::kString, .text = scanner_.string(), .at = at};
    if ((c >= '0' && c <= '9') || c == '-' || c == '.') return number(at);
    const auto name = scanner_.identifier();
    if (name.empty()) scanner_.fail("expected a field, a number or a text in quotes, not " + scanner_.next_shown());
    if (name == "true" || name == "True") return {.kind = Kind::kBool, .integer = 1, .at = at};
    if (name == "false" || name == "False") return {.kind = Kind::kBool, .integer = 0, .at = at};
    if (name == "none" || name == "None" || name == "null") return {.kind = Kind::kNone, .at = at};
    if (name == "and" || name == "or" || name == "in" || name == "not") {
      scanner_.fail_at(at, "expected a field, a number or a text in quotes, not '" + std::string(name) + "'");
    }
    return {.kind = Kind::kField, .text = std::string(name), .at = at};
  }

  Expression number(std::size_t at) {
    const auto rest = scanner_.rest();
    const auto end = std::min(rest.find_first_not_of("0123456789.eE+-"), rest.size());
    std::int64_t integer = 0;
    const auto whole = std::from_chars(rest.data(), rest.data() + end, integer);
    double real = 0;
    const auto full = std::from_chars(rest.data(), rest.data() + end, real);
    if (full.ec != std::errc() || !std::isfinite(real)) scanner_.fail_at(at, "not a number");
    scanner_.skip(static_cast<std::size_t>(full.ptr - rest.data()));
    const bool is_integer = whole.ec == std::errc() && whole.ptr == full.ptr;
    if (is_integer) return {.kind = Kind::kInteger, .integer = integer, .at = at};
    return {.kind = Kind::kReal, .real = real, .at = at};
  }

  Scanner& scanner_;
  std::size_t depth_ = 0;
};

std::string real_text(double value) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  // An exponent or a point keeps it from being read as an integer.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

int strength(const Expression& expression) {
  switch (expression.kind) {
    case Kind::kOr:
      return 0;
    case Kind::kAnd:
      return 1;
    case Kind::kNot:
      return 2;
    case Kind::kCompare:
      return 3;
    default:
      return 4;
  }
}

std::string wrapped(const Expression& child, int least) {
  auto text = expression_text(child);
  return strength(child) < least ? "(" + text + ")" : text;
}

}  // namespace

std::string expression_text(const Expression& expression) {
  std::string text;
  switch (expression.kind) {
    case Kind::kOr:
    case Kind::kAnd:
      for (const auto& child : expression.children) {
        if (!text.empty()) text += expression.kind == Kind::kOr ? " or " : " and ";
        text += wrapped(child, expression.kind == Kind::kOr ? 1 : 2);
      }
      return text;
    case Kind::kNot:
      return "not " + wrapped(expression.children[0], 2);
    case Kind::kCompare:
      return wrapped(expression.children[0], 4) + " " + std::string(text_of(expression.comparison)) + " " +
             wrapped(expression.children[1], 4);
    case Kind::kField:
      return expression.text;
    case Kind::kInteger:
      return std::to_string(expression.integer);
    case Kind::kReal:
      return real_text(expression.real);
    case Kind::kString:
      return quoted(expression.text);
    case Kind::kBool:
      return expression.integer != 0 ? "true" : "false";
    case Kind::kNone:
      return "none";
    case Kind::kList:
      for (const auto& child : expression.children) text += (text.empty() ? "" : ", ") + expression_text(child);
      return "[" + text + "]";
  }
  return text;
}

Expression parse_expression(Scanner& scanner) { return ExpressionParser(scanner).any(); }

}  // namespace tl
