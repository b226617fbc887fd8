#include "select/where.h"

#include <algorithm>

#include "core/text.h"

namespace tl {
namespace {

using Kind = Expression::Kind;
using ValueKind = FieldValue::Kind;

bool is_number(const FieldValue& value) {
  return value.kind == ValueKind::kInteger || value.kind == ValueKind::kReal || value.kind == ValueKind::kBool;
}

/// A long double holds every int64 and every double exactly.
long double number(const FieldValue& value) {
  return value.kind == ValueKind::kReal ? static_cast<long double>(value.real)
                                        : static_cast<long double>(value.integer);
}

bool equal(const FieldValue& a, const FieldValue& b) {
  if (is_number(a) && is_number(b)) return number(a) == number(b);
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case ValueKind::kString:
      return a.text == b.text;
    case ValueKind::kIntegers:
      return a.integers == b.integers;
    case ValueKind::kStrings:
      return a.strings == b.strings;
    default:
      return true;  // none
  }
}

bool less(const FieldValue& a, const FieldValue& b) {
  if (is_number(a) && is_number(b)) return number(a) < number(b);
  return a.kind == ValueKind::kString && b.kind == ValueKind::kString && a.text < b.text;
}

bool comparable(const FieldValue& a, const FieldValue& b) {
  return (is_number(a) && is_number(b)) || (a.kind == ValueKind::kString && b.kind == ValueKind::kString);
}

/// `a in b`, where b is a list of values, a text (a part of it) or a list field.
bool contained(const FieldValue& a, const FieldValue& b) {
  switch (b.kind) {
    case ValueKind::kString:
      return a.kind == ValueKind::kString && b.text.find(a.text) != std::string_view::npos;
    case ValueKind::kIntegers:
      return is_number(a) && std::ranges::any_of(b.integers, [&](std::int64_t item) { return number(a) == item; });
    case ValueKind::kStrings:
      return a.kind == ValueKind::kString &&
             std::ranges::any_of(b.strings, [&](const std::string& item) { return a.text == item; });
    default:
      return false;
  }
}

bool truth(const FieldValue& value) {
  switch (value.kind) {
    case ValueKind::kNone:
      return false;
    case ValueKind::kBool:
    case ValueKind::kInteger:
      return value.integer != 0;
    case ValueKind::kReal:
      return value.real != 0;
    case ValueKind::kString:
      return !value.text.empty();
    case ValueKind::kIntegers:
      return !value.integers.empty();
    case ValueKind::kStrings:
      return !value.strings.empty();
  }
  return false;
}

/// The text of a literal; set before each use, as values move.
void set_literal(FieldValue& value) { value.set_text(value.strings.front()); }

bool is_numeric(FieldType type) {
  return type == FieldType::kInteger || type == FieldType::kReal || type == FieldType::kBool;
}

}  // namespace

BoundExpression::BoundExpression(const Expression& expression, std::string_view source, const Names& names)
    : source_(source), names_(&names), root_(bind(expression)) {
  names_ = nullptr;
  source_ = {};
}

BoundExpression::Node BoundExpression::bind(const Expression& expression) const {
  Node node;
  node.kind = expression.kind;
  switch (expression.kind) {
    case Kind::kCompare:
      return bind_comparison(expression);
    case Kind::kField:
      return bind_field(expression);
    case Kind::kInteger:
      node.value.set_integer(expression.integer);
      return node;
    case Kind::kReal:
      node.type = FieldType::kReal;
      node.value.set_real(expression.real);
      return node;
    case Kind::kBool:
      node.type = FieldType::kBool;
      node.value.set_bool(expression.integer != 0);
      return node;
    case Kind::kString:
      node.type = FieldType::kString;
      node.value.strings.push_back(expression.text);
      return node;
    case Kind::kList:
      for (const auto& child : expression.children) node.children.push_back(bind(child));
      return node;
    default:
      for (const auto& child : expression.children) {
        if (child.kind == Kind::kList || child.kind == Kind::kString) {
          throw selector_error(ErrorCode::kSelectorSyntax, source_, child.at, "this is neither true nor false",
                               "compare it with a field: dtype == \"float32\"");
        }
        node.children.push_back(bind(child));
      }
      return node;
  }
}

BoundExpression::Node BoundExpression::bind_field(const Expression& expression) const {
  const auto found = names_->find(expression.text);
  if (!found) {
    std::string hint;
    for (const auto& close : did_you_mean(expression.text, names_->all())) hint += (hint.empty() ? "" : ", ") + close;
    throw selector_error(ErrorCode::kUnknownField, source_, expression.at,
                         "'" + expression.text + "': " + std::string(names_->table) + " have no such field",
                         hint.empty() ? "torchlens query TRACE --table " + std::string(names_->table) +
                                            " --list-columns shows the fields"
                                      : "did you mean " + hint + "?");
  }
  Node node;
  node.kind = Kind::kField;
  node.field = found->field;
  node.type = found->type;
  node.is_dtype = found->type == FieldType::kDType;
  return node;
}

void BoundExpression::fit_dtype(Node& literal, const Expression& expression) const {
  if (expression.kind == Kind::kList) {
    for (std::size_t i = 0; i < literal.children.size(); ++i) fit_dtype(literal.children[i], expression.children[i]);
    return;
  }
  if (expression.kind != Kind::kString) return;
  const auto dtype = dtype_from_name(expression.text);
  if (!dtype) {
    throw selector_error(ErrorCode::kSelectorSyntax, source_, expression.at,
                         "'" + expression.text + "' is no element type",
                         "such as float32 or f32, bfloat16, int64, bool");
  }
  literal.value.strings.clear();
  literal.value.set_integer(static_cast<std::int64_t>(*dtype));
  literal.type = FieldType::kInteger;
}

namespace {

std::string with_article(FieldType type) {
  const std::string name(to_string(type));
  return (name.starts_with('i') ? "an " : "a ") + name;
}

/// Why two sides can never compare, empty if they can.
std::string misfit(Comparison comparison, FieldType left, bool left_is_list, FieldType right, bool right_is_list) {
  const bool left_text = left == FieldType::kString;
  const bool right_text = right == FieldType::kString;
  if (comparison == Comparison::kIn || comparison == Comparison::kNotIn) {
    if (left_is_list) return "'in' needs one value on its left";
    if (right_is_list || right == FieldType::kStrings || right == FieldType::kIntegers || right_text) return {};
    return "'in' needs a list or a text on its right";
  }
  if (left_is_list || right_is_list) {
    const auto other = left_is_list ? right : left;
    const bool is_list_field = other == FieldType::kIntegers || other == FieldType::kStrings;
    const bool equality = comparison == Comparison::kEqual || comparison == Comparison::kNotEqual;
    return is_list_field && equality ? std::string() : "a list is compared by ==, != or in";
  }
  if (left == right) return {};
  if (is_numeric(left) && is_numeric(right)) return {};
  if (left_text || right_text || left == FieldType::kDType || right == FieldType::kDType) {
    return with_article(left) + " is compared with " + with_article(right);
  }
  return "a list is compared with " + with_article(is_numeric(left) ? left : right);
}

}  // namespace

BoundExpression::Node BoundExpression::bind_comparison(const Expression& expression) const {
  const auto& left = expression.children[0];
  const auto& right = expression.children[1];
  Node node;
  node.kind = Kind::kCompare;
  node.comparison = expression.comparison;
  node.children.push_back(bind(left));
  node.children.push_back(bind(right));
  for (auto& child : node.children) {
    if (child.kind == Kind::kOr || child.kind == Kind::kAnd || child.kind == Kind::kNot || child.kind == Kind::kCompare)
      child.type = FieldType::kBool;
  }
  if (node.children[0].is_dtype) fit_dtype(node.children[1], right);
  if (node.children[1].is_dtype) fit_dtype(node.children[0], left);
  auto types = std::pair(node.children[0].type, node.children[1].type);
  if (node.children[0].is_dtype && right.kind == Kind::kString) types.first = FieldType::kInteger;
  if (node.children[1].is_dtype && left.kind == Kind::kString) types.second = FieldType::kInteger;
  if (left.kind == Kind::kNone || right.kind == Kind::kNone) return node;
  const auto problem =
      misfit(node.comparison, types.first, left.kind == Kind::kList, types.second, right.kind == Kind::kList);
  if (!problem.empty()) {
    throw selector_error(ErrorCode::kSelectorSyntax, source_, expression.at, problem);
  }
  return node;
}

LiveAnswer BoundExpression::evaluate(const FieldSource& source) { return evaluate(root_, source); }

LiveAnswer BoundExpression::evaluate(Node& node, const FieldSource& source) const {
  switch (node.kind) {
    case Kind::kOr:
    case Kind::kAnd: {
      const auto deciding = node.kind == Kind::kOr ? LiveAnswer::kYes : LiveAnswer::kNo;
      auto result = negated(deciding);
      for (auto& child : node.children) {
        const auto match = evaluate(child, source);
        if (match == deciding) return deciding;
        if (match == LiveAnswer::kLater) result = LiveAnswer::kLater;
      }
      return result;
    }
    case Kind::kNot:
      return negated(evaluate(node.children[0], source));
    case Kind::kCompare:
      return compare(node, source);
    case Kind::kField:
      if (!source.get(node.field, node.value)) return LiveAnswer::kLater;
      return match_of(truth(node.value));
    default:
      return match_of(truth(node.value));
  }
}

namespace {

bool decide(Comparison comparison, const FieldValue& a, const FieldValue& b) {
  switch (comparison) {
    case Comparison::kEqual:
      return equal(a, b);
    case Comparison::kNotEqual:
      return !equal(a, b);
    case Comparison::kLess:
      return less(a, b);
    case Comparison::kLessEqual:
      return comparable(a, b) && (less(a, b) || equal(a, b));
    case Comparison::kGreater:
      return less(b, a);
    case Comparison::kGreaterEqual:
      return comparable(a, b) && (less(b, a) || equal(a, b));
    case Comparison::kIn:
      return contained(a, b);
    case Comparison::kNotIn:
      return !contained(a, b);
  }
  return false;
}

}  // namespace

LiveAnswer BoundExpression::compare(Node& node, const FieldSource& source) const {
  for (auto& child : node.children) {
    if (child.kind == Kind::kField) {
      if (!source.get(child.field, child.value)) return LiveAnswer::kLater;
    } else if (child.kind == Kind::kString && !child.value.strings.empty()) {
      set_literal(child.value);
    } else if (child.kind == Kind::kCompare || child.kind == Kind::kAnd || child.kind == Kind::kOr ||
               child.kind == Kind::kNot) {
      const auto match = evaluate(child, source);
      if (match == LiveAnswer::kLater) return match;
      child.value.set_bool(match == LiveAnswer::kYes);
    }
  }
  auto& left = node.children[0];
  auto& right = node.children[1];
  if (right.kind == Kind::kList) return match_of(compare_list(node.comparison, left.value, right.children));
  if (left.kind == Kind::kList) return match_of(compare_list(node.comparison, right.value, left.children));
  return match_of(decide(node.comparison, left.value, right.value));
}

bool BoundExpression::compare_list(Comparison comparison, const FieldValue& value, std::vector<Node>& items) {
  for (auto& item : items) {
    if (!item.value.strings.empty()) set_literal(item.value);
  }
  if (comparison == Comparison::kIn || comparison == Comparison::kNotIn) {
    const bool found = std::ranges::any_of(items, [&](const Node& item) { return equal(value, item.value); });
    return found == (comparison == Comparison::kIn);
  }
  bool same = value.kind == ValueKind::kIntegers
                  ? value.integers.size() == items.size()
                  : value.kind == ValueKind::kStrings && value.strings.size() == items.size();
  for (std::size_t i = 0; same && i < items.size(); ++i) {
    FieldValue item;
    if (value.kind == ValueKind::kIntegers) {
      item.set_integer(value.integers[i]);
    } else {
      item.set_text(value.strings[i]);
    }
    same = equal(item, items[i].value);
  }
  return same == (comparison == Comparison::kEqual);
}

}  // namespace tl
