#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace tl {

/// How two values are compared in `where(…)`.
enum class Comparison : std::uint8_t { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };

/// An expression of `where(…)` as parsed; names are not looked up yet.
struct Expression {
  enum class Kind : std::uint8_t {
    kOr,       ///< children
    kAnd,      ///< children
    kNot,      ///< one child
    kCompare,  ///< two children and `comparison`
    kField,    ///< `text` names it
    kInteger,
    kReal,
    kString,
    kBool,  ///< `integer` is 0 or 1
    kNone,
    kList,  ///< children are literals
  };
  Kind kind = Kind::kNone;
  Comparison comparison = Comparison::kEqual;
  std::string text = {};
  std::int64_t integer = 0;
  double real = 0;
  std::vector<Expression> children = {};
  std::size_t at = 0;  ///< byte of the source it begins at
};

/// One node of a parsed selector. Leaves are terms; each has a number, counted in the order of the text.
struct SelectorNode {
  enum class Kind : std::uint8_t {
    kBare,        ///< `text` goes through the lookup order
    kFunc,        ///< glob over function names
    kModule,      ///< glob over module addresses: what they return
    kInModule,    ///< glob over module addresses: what runs in them
    kLabel,       ///< one label
    kContains,    ///< a part of the label
    kRegex,       ///< RE2 over the label
    kWhere,       ///< `where`
    kInput,       ///< what was handed to the model; `text` is the role, empty for all
    kOutput,      ///< what the model returned; `text` is the role, empty for all
    kBuffer,      ///< buffers; `text` is a glob over addresses, empty for all
    kFollowedBy,  ///< some descendant is in the child
    kPrecededBy,  ///< some ancestor is in the child
    kOr,          ///< children, at least two
    kAnd,         ///< children, at least two
    kMinus,       ///< two children
    kNot,         ///< one child
  };
  Kind kind = Kind::kBare;
  std::string text = {};
  std::vector<SelectorNode> children = {};
  std::vector<Expression> where = {};  ///< one for kWhere
  std::size_t at = 0;                  ///< byte of the source it begins at
  std::uint32_t term = 0;              ///< number of the term; of inner nodes that of their first

  bool is_term() const { return kind < Kind::kOr; }
};

/// The text of a node in canonical form: what `Selector::text` gives for it.
std::string selector_text(const SelectorNode& node);
/// The same for an expression.
std::string expression_text(const Expression& expression);

/// An error about the place `at` of a selector's source, which it shows with a caret below.
Error selector_error(ErrorCode code, std::string_view source, std::size_t at, std::string message,
                     std::string hint = {});

}  // namespace tl
