#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "core/python_tokens.h"
#include "postprocess/python_outline.h"

namespace tl {

/// Reads the expressions of statements: finds ternaries, and the places that ask for a truth value. Part of
/// outline_python.
class PythonExpressions {
 public:
  /// Thrown where `if` and `else` of an expression do not pair.
  struct NotUnderstood {};

  PythonExpressions(std::string_view text, const std::vector<PythonToken>& tokens, PythonOutline& out)
      : text_(text), tokens_(tokens), out_(out) {}

  /// The token of the colon that ends a header, `end` if there is none.
  std::size_t header_end(std::size_t first, std::size_t end) const;
  /// The token of the semicolon that ends a statement, `end` if there is none.
  std::size_t statement_end(std::size_t first, std::size_t end) const;
  /// The header of a compound statement, without its colon.
  void read_header(std::size_t first, std::size_t end);
  /// A simple statement.
  void read_statement(std::size_t first, std::size_t end);

 private:
  std::string_view word(std::size_t token) const;
  bool is(std::size_t token, std::string_view what) const { return word(token) == what; }
  std::size_t closing(std::size_t open, std::size_t end) const;
  TextSpan span_of(std::size_t first, std::size_t end) const;
  void read_level(std::size_t first, std::size_t end);
  void read_segment(std::size_t first, std::size_t end, bool comprehension);
  void read_ternary(std::size_t first, std::size_t test, std::size_t other, std::size_t end);
  void read_filters(std::size_t first, std::size_t end);
  std::size_t find_word(std::size_t first, std::size_t end, std::string_view what) const;
  void add_test(BoolContext context, std::size_t first, std::size_t end);

  std::string_view text_;
  const std::vector<PythonToken>& tokens_;
  PythonOutline& out_;
};

}  // namespace tl
