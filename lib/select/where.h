#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "select/fields.h"
#include "select/selector_node.h"
#include "trace/op_policy.h"

namespace tl {

constexpr LiveAnswer match_of(bool value) { return value ? LiveAnswer::kYes : LiveAnswer::kNo; }
constexpr LiveAnswer negated(LiveAnswer match) {
  return match == LiveAnswer::kLater ? match : match_of(match == LiveAnswer::kNo);
}

/// Gives the values of fields by the numbers they were bound to.
class FieldSource {
 public:
  virtual ~FieldSource() = default;
  /// False if the value is not known yet.
  virtual bool get(std::size_t field, FieldValue& value) const = 0;
};

/// An expression of `where(…)` whose names are bound to the fields of a table, with literals turned to what they are
/// compared with (the names of dtypes to their numbers).
class BoundExpression {
 public:
  /// What a name stands for: its number for FieldSource, and its type.
  struct Named {
    std::size_t field;
    FieldType type;
  };
  struct Names {
    std::string_view table;                                      ///< for messages
    std::function<std::optional<Named>(std::string_view)> find;  ///< nullopt: no such field
    std::function<std::vector<std::string>()> all;               ///< for did-you-mean
  };

  /// Throws Error: kUnknownField, and kSelectorSyntax where types do not fit, with the source and a caret.
  BoundExpression(const Expression& expression, std::string_view source, const Names& names);

  /// A bare field holds if it is true, not zero, not empty. Comparisons with none are false but for == and !=. Not
  /// const: values of rows are kept in place.
  LiveAnswer evaluate(const FieldSource& source);

 private:
  struct Node {
    Expression::Kind kind = Expression::Kind::kNone;
    Comparison comparison = Comparison::kEqual;
    FieldType type = FieldType::kInteger;
    bool is_dtype = false;
    std::size_t field = 0;
    std::vector<Node> children;
    FieldValue value;  ///< of literals; of fields that of the current row
  };

  Node bind(const Expression& expression) const;
  Node bind_comparison(const Expression& expression) const;
  Node bind_field(const Expression& expression) const;
  void fit_dtype(Node& literal, const Expression& expression) const;
  LiveAnswer evaluate(Node& node, const FieldSource& source) const;
  LiveAnswer compare(Node& node, const FieldSource& source) const;
  static bool compare_list(Comparison comparison, const FieldValue& value, std::vector<Node>& items);

  std::string_view source_;
  const Names* names_;
  Node root_;
};

}  // namespace tl
