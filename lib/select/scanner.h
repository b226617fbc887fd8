#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "select/selector_node.h"

namespace tl {

/// Reads the source of a selector from left to right.
class Scanner {
 public:
  /// Nesting beyond this is refused: parsing and evaluating recurse.
  static constexpr std::size_t kMaxDepth = 64;

  explicit Scanner(std::string_view source) : source_(source) {}

  std::string_view source() const { return source_; }
  std::size_t at() const { return at_; }
  /// The next character that is no space; 0 at the end.
  char peek();
  /// What follows the current place, spaces included.
  std::string_view rest() const { return source_.substr(at_); }
  void skip(std::size_t bytes) { at_ += bytes; }
  /// Takes `text` if it comes next.
  bool take(std::string_view text);
  /// Takes `text` or throws: expected `text` `where`.
  void expect(std::string_view text, std::string_view where);
  /// A text in single or double quotes. A backslash before the quote or a backslash stands for that character; any
  /// other backslash stands for itself, so that patterns need not double theirs.
  std::string string();
  /// [A-Za-z_][A-Za-z0-9_]*, empty if none comes next.
  std::string_view identifier();

  [[noreturn]] void fail(std::string message, std::string hint = {}) {
    fail_at(at_, std::move(message), std::move(hint));
  }
  [[noreturn]] void fail_at(std::size_t at, std::string message, std::string hint = {});
  /// What comes next, as messages name it.
  std::string next_shown();

 private:
  std::string_view source_;
  std::size_t at_ = 0;
};

/// A text in double quotes that Scanner::string reads back.
std::string quoted(std::string_view text);

/// Reads the expression of a `where(…)`, up to the closing parenthesis, which is left.
Expression parse_expression(Scanner& scanner);

}  // namespace tl
