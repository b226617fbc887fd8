#include "archive/python_calls.h"

#include <algorithm>
#include <array>
#include <span>

#include "core/python_tokens.h"

namespace tl {
namespace {

/// The operator that stands for a function; empty if there is none.
std::string_view operator_of(std::string_view func_name) {
  struct Spelling {
    std::string_view name;
    std::string_view text;
  };
  static constexpr std::array<Spelling, 11> kSpellings = {{{"add", "+"},
                                                           {"sub", "-"},
                                                           {"mul", "*"},
                                                           {"div", "/"},
                                                           {"matmul", "@"},
                                                           {"bitwise_and", "&"},
                                                           {"and", "&"},
                                                           {"bitwise_or", "|"},
                                                           {"or", "|"},
                                                           {"floor_divide", "//"},
                                                           {"pow", "**"}}};
  const auto* found = std::ranges::find(kSpellings, func_name, &Spelling::name);
  return found == kSpellings.end() ? std::string_view() : found->text;
}

/// Names after which an expression begins, so that an operator is a sign or unpacks.
bool begins_expression(std::string_view name) {
  static constexpr std::array<std::string_view, 14> kKeywords = {
      "return", "in", "and", "or", "not", "is", "if", "elif", "else", "while", "yield", "await", "from", "assert"};
  return name == "lambda" || std::ranges::find(kKeywords, name) != kKeywords.end();
}

/// Walks the tokens of a line, keeping what they mean together.
class LineReader {
 public:
  LineReader(std::string_view line, std::span<const PythonToken> tokens) : line_(line), tokens_(tokens) {}

  std::vector<std::size_t> calls(std::string_view name, std::string_view symbol) {
    std::vector<std::size_t> found;
    for (std::size_t at = 0; at < tokens_.size(); ++at) {
      const auto& token = tokens_[at];
      if (token.kind == PythonTokenKind::kOpen) open(at);
      if (token.kind == PythonTokenKind::kClose) close();
      const bool named = token.kind == PythonTokenKind::kName && names(at, name);
      const bool spelled = !symbol.empty() && token.kind == PythonTokenKind::kOther && spells(at, symbol);
      if (named || spelled) found.push_back(token.begin);
    }
    return found;
  }

 private:
  std::string_view text(std::size_t at) const {
    return line_.substr(tokens_[at].begin, tokens_[at].end - tokens_[at].begin);
  }

  /// True if a value ends just before a token: what follows is a binary operator, a call or a subscript.
  bool follows_value(std::size_t at) const {
    if (at == 0) return false;
    const auto kind = tokens_[at - 1].kind;
    if (kind == PythonTokenKind::kName) return !begins_expression(text(at - 1));
    return kind == PythonTokenKind::kLiteral || kind == PythonTokenKind::kClose;
  }

  /// In-place forms of a function end with an underscore.
  bool names(std::size_t at, std::string_view name) const {
    auto called = text(at);
    while (called.ends_with('_')) called.remove_suffix(1);
    return called == name && at + 1 < tokens_.size() && text(at + 1) == "(";
  }

  bool spells(std::size_t at, std::string_view symbol) const {
    auto token = text(at);
    if (subscripts_ > 0) return false;
    if (token == symbol) return follows_value(at);
    return token.size() == symbol.size() + 1 && token.starts_with(symbol) && token.ends_with('=');
  }

  void open(std::size_t at) {
    const bool subscript = text(at) == "[" && follows_value(at);
    subscripts_ += subscript ? 1 : 0;
    open_.push_back(subscript);
  }
  void close() {
    if (open_.empty()) return;
    subscripts_ -= open_.back() ? 1 : 0;
    open_.pop_back();
  }

  std::string_view line_;
  std::span<const PythonToken> tokens_;
  std::vector<bool> open_;  // brackets: true for those of a subscript
  int subscripts_ = 0;
};

}  // namespace

std::vector<std::size_t> calls_in_line(std::string_view line, std::string_view func_name) {
  while (func_name.ends_with('_')) func_name.remove_suffix(1);
  while (func_name.starts_with('_')) func_name.remove_prefix(1);
  if (func_name.empty()) return {};
  const auto tokens = python_tokens(line, PythonExtent::kFragment);
  if (!tokens) return {};
  return LineReader(line, tokens->tokens).calls(func_name, operator_of(func_name));
}

}  // namespace tl
