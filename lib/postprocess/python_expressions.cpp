#include "postprocess/python_expressions.h"

#include <algorithm>
#include <array>

namespace tl {
namespace {

/// Words and symbols at which a new expression begins on the same level of brackets.
constexpr std::array<std::string_view, 26> kBreaks = {
    ",",  "=",  ":",   ";",   ":=",  "+=", "-=",     "*=",    "/=",     "//=",   "%=",  "&=",   "|=",
    "^=", "@=", "**=", ">>=", "<<=", "->", "return", "yield", "assert", "raise", "del", "from", "import"};

}  // namespace

std::string_view PythonExpressions::word(std::size_t token) const {
  return text_.substr(tokens_[token].begin, tokens_[token].end - tokens_[token].begin);
}

TextSpan PythonExpressions::span_of(std::size_t first, std::size_t end) const {
  return first < end ? TextSpan{tokens_[first].begin, tokens_[end - 1].end} : TextSpan{};
}

void PythonExpressions::add_test(BoolContext context, std::size_t first, std::size_t end) {
  if (first < end) out_.tests.push_back({context, span_of(first, end)});
}

/// The token after the bracket that closes the one at `open`.
std::size_t PythonExpressions::closing(std::size_t open, std::size_t end) const {
  std::size_t depth = 0;
  for (auto token = open; token < end; ++token) {
    if (tokens_[token].kind == PythonTokenKind::kOpen) ++depth;
    if (tokens_[token].kind == PythonTokenKind::kClose && --depth == 0) return token + 1;
  }
  throw NotUnderstood{};
}

std::size_t PythonExpressions::find_word(std::size_t first, std::size_t end, std::string_view what) const {
  std::size_t depth = 0;
  for (auto token = first; token < end; ++token) {
    if (tokens_[token].kind == PythonTokenKind::kOpen) ++depth;
    if (tokens_[token].kind == PythonTokenKind::kClose) --depth;
    if (depth == 0 && tokens_[token].kind != PythonTokenKind::kLiteral && is(token, what)) return token;
  }
  return end;
}

std::size_t PythonExpressions::header_end(std::size_t first, std::size_t end) const {
  std::size_t depth = 0;
  std::size_t lambdas = 0;  // the colons of lambdas are not the header's
  for (auto token = first; token < end; ++token) {
    const auto kind = tokens_[token].kind;
    if (kind == PythonTokenKind::kOpen) ++depth;
    if (kind == PythonTokenKind::kClose) --depth;
    if (depth > 0) continue;
    if (kind == PythonTokenKind::kName && is(token, "lambda")) ++lambdas;
    if (kind != PythonTokenKind::kOther || !is(token, ":")) continue;
    if (lambdas == 0) return token;
    --lambdas;
  }
  return end;
}

std::size_t PythonExpressions::statement_end(std::size_t first, std::size_t end) const {
  return find_word(first, end, ";");
}

void PythonExpressions::read_header(std::size_t first, std::size_t end) {
  const auto keyword = word(first);
  auto body = first + (keyword == "async" ? 2 : 1);
  if (keyword == "if") add_test(BoolContext::kIfTest, body, end);
  if (keyword == "elif") add_test(BoolContext::kElifTest, body, end);
  if (keyword == "while") add_test(BoolContext::kWhile, body, end);
  if (keyword == "case") {
    const auto guard = find_word(body, end, "if");
    add_test(BoolContext::kMatchGuard, guard + 1, end);
    read_level(body, guard);
    body = std::min(guard + 1, end);
  }
  if (keyword == "for" || keyword == "async") {
    const auto in = find_word(body, end, "in");
    read_level(body, in);
    body = std::min(in + 1, end);
  }
  read_level(body, end);
}

void PythonExpressions::read_statement(std::size_t first, std::size_t end) {
  if (tokens_[first].kind == PythonTokenKind::kName && is(first, "assert")) {
    out_.asserts.push_back(tokens_[first].begin);
    add_test(BoolContext::kAssert, first + 1, find_word(first + 1, end, ","));
  }
  read_level(first, end);
}

/// Expressions on one level of brackets, and all that is bracketed in them.
void PythonExpressions::read_level(std::size_t first, std::size_t end) {
  bool comprehension = false;
  auto segment = first;
  for (auto token = first; token < end;) {
    if (tokens_[token].kind == PythonTokenKind::kOpen) {
      const auto after = closing(token, end);
      read_level(token + 1, after - 1);
      token = after;
      continue;
    }
    const bool word_like = tokens_[token].kind != PythonTokenKind::kLiteral;
    if (word_like && std::ranges::find(kBreaks, word(token)) != kBreaks.end()) {
      read_segment(segment, token, comprehension);
      comprehension = false;
      segment = token + 1;
    } else if (word_like && is(token, "for")) {
      read_segment(segment, token, comprehension);
      comprehension = true;
      token = find_word(token + 1, end, "in");  // commas of the target are no breaks
      if (token == end) throw NotUnderstood{};
      segment = token + 1;
    }
    ++token;
  }
  read_segment(segment, end, comprehension);
}

/// One expression; of a comprehension what follows its `for`.
void PythonExpressions::read_segment(std::size_t first, std::size_t end, bool comprehension) {
  if (comprehension) return read_filters(first, end);
  std::size_t chained = 0;
  while (first < end) {
    if (++chained > kPythonDepth) throw NotUnderstood{};
    const auto test = find_word(first, end, "if");
    const auto other = find_word(first, end, "else");
    if (test == end && other == end) return;
    if (test == first || test == end || other == end || other < test + 2 || other + 1 == end) throw NotUnderstood{};
    read_ternary(first, test, other, end);
    first = other + 1;
  }
}

/// `target in source if filter if filter`: no ternary stands there without brackets.
void PythonExpressions::read_filters(std::size_t first, std::size_t end) {
  if (find_word(first, end, "else") != end) throw NotUnderstood{};
  for (auto filter = find_word(first, end, "if"); filter < end;) {
    const auto next = find_word(filter + 1, end, "if");
    add_test(BoolContext::kComprehensionFilter, filter + 1, next);
    filter = next;
  }
}

void PythonExpressions::read_ternary(std::size_t first, std::size_t test, std::size_t other, std::size_t end) {
  PythonConditional ternary;
  ternary.ternary = true;
  ternary.span = span_of(first, end);
  ternary.arms.push_back({ArmKind::kThen, tokens_[test].begin, span_of(test + 1, other), span_of(first, test), false});
  ternary.arms.push_back({ArmKind::kElse, tokens_[other].begin, {}, span_of(other + 1, end), false});
  out_.conditionals.push_back(std::move(ternary));
  add_test(BoolContext::kIfExp, test + 1, other);
}

}  // namespace tl
