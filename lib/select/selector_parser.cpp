#include <algorithm>
#include <array>

#include "select/lookup.h"
#include "select/scanner.h"
#include "select/selector.h"

namespace tl {
namespace {

using Kind = SelectorNode::Kind;

constexpr std::size_t kMaxSource = 64 * 1024;
constexpr std::size_t kMaxTerms = 4096;

enum class Takes : std::uint8_t { kText, kOptionalText, kSelector, kExpression };

struct Word {
  std::string_view name;
  Kind kind;
  Takes takes;
  std::string_view argument;  ///< as messages name it
};
constexpr std::array kWords = {
    Word{"func", Kind::kFunc, Takes::kText, "the name of a function, such as \"relu\""},
    Word{"module", Kind::kModule, Takes::kText, "the address of a module, such as \"encoder.layer.0\""},
    Word{"in_module", Kind::kInModule, Takes::kText, "the address of a module, such as \"encoder\""},
    Word{"label", Kind::kLabel, Takes::kText, "a label, such as \"relu_1_2:3\""},
    Word{"contains", Kind::kContains, Takes::kText, "a part of a label"},
    Word{"regex", Kind::kRegex, Takes::kText, "a regular expression"},
    Word{"where", Kind::kWhere, Takes::kExpression, "an expression"},
    Word{"input", Kind::kInput, Takes::kOptionalText, "the role of an input"},
    Word{"output", Kind::kOutput, Takes::kOptionalText, "the role of an output"},
    Word{"buffer", Kind::kBuffer, Takes::kOptionalText, "the address of a buffer"},
    Word{"followed_by", Kind::kFollowedBy, Takes::kSelector, "a selector"},
    Word{"preceded_by", Kind::kPrecededBy, Takes::kSelector, "a selector"},
};

const Word* word_of(std::string_view name) {
  const auto* found = std::ranges::find(kWords, name, &Word::name);
  return found == kWords.end() ? nullptr : found;
}

const Word& word_of(Kind kind) { return *std::ranges::find(kWords, kind, &Word::kind); }

/// Characters of a key that needs no quotes.
bool is_key_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == ':' || c == '@' || c == '$' || c == '/' || c == '*' || c == '?' || static_cast<unsigned char>(c) >= 0x80;
}

/// Bytes at the start of `text` that are a key without quotes: a word, a negative ordinal, `ops[-1]`.
std::size_t key_length(std::string_view text) {
  std::size_t end = !text.empty() && text[0] == '-' ? 1 : 0;
  const auto begin = end;
  while (end < text.size() && is_key_character(text[end])) ++end;
  if (end == begin) return 0;
  if (begin == 1 && text.substr(1, end - 1).find_first_not_of("0123456789") != std::string_view::npos) return 0;
  if (end < text.size() && text[end] == '[' && is_collection(text.substr(0, end))) {
    const auto close = text.find(']', end);
    return close == std::string_view::npos ? 0 : close + 1;
  }
  return end;
}

/// `ops["relu_1_2"]` is `ops[relu_1_2]`.
std::string without_quotes(std::string_view key) {
  const auto open = key.find('[');
  if (open == std::string_view::npos) return std::string(key);
  auto inner = key.substr(open + 1, key.size() - open - 2);
  for (const char quote : {'"', '\''}) {
    if (inner.size() >= 2 && inner.front() == quote && inner.back() == quote) {
      inner = inner.substr(1, inner.size() - 2);
      break;
    }
  }
  return std::string(key.substr(0, open + 1)) + std::string(inner) + "]";
}

class Parser {
 public:
  explicit Parser(std::string_view source) : scanner_(source) {}

  SelectorNode whole() {
    if (scanner_.source().size() > kMaxSource) {
      scanner_.fail_at(0, "the selector is " + std::to_string(scanner_.source().size()) + " bytes long, at most " +
                              std::to_string(kMaxSource) + " are read");
    }
    if (scanner_.peek() == '\0')
      scanner_.fail("the selector is empty", "such as func(\"relu\") or in_module(\"encoder\")");
    auto root = either();
    if (scanner_.at() < scanner_.source().size()) {
      scanner_.fail("expected |, &, - or the end, not " + scanner_.next_shown());
    }
    return root;
  }

 private:
  SelectorNode either() {
    if (++depth_ > Scanner::kMaxDepth) scanner_.fail("the selector is nested more than 64 deep");
    auto result = joined(Kind::kOr, "|", [this] { return joined(Kind::kAnd, "&", [this] { return difference(); }); });
    --depth_;
    return result;
  }

  template <typename Inner>
  SelectorNode joined(Kind kind, std::string_view sign, Inner inner) {
    auto first = inner();
    if (!scanner_.take(sign)) return first;
    SelectorNode result{.kind = kind, .text = {}, .children = {}, .where = {}, .at = first.at, .term = first.term};
    append(result, std::move(first));
    do {
      append(result, inner());
    } while (scanner_.take(sign));
    return result;
  }

  /// (a | b) | c is a | b | c.
  static void append(SelectorNode& result, SelectorNode child) {
    if (child.kind != result.kind) {
      result.children.push_back(std::move(child));
      return;
    }
    for (auto& inner : child.children) result.children.push_back(std::move(inner));
  }

  SelectorNode difference() {
    auto left = negated();
    std::size_t minuses = 0;
    while (scanner_.take("-")) {
      if (++minuses > Scanner::kMaxDepth) scanner_.fail("more than 64 differences in a row", "write a - (b | c | …)");
      SelectorNode result{
          .kind = Kind::kMinus, .text = {}, .children = {}, .where = {}, .at = left.at, .term = left.term};
      result.children.push_back(std::move(left));
      result.children.push_back(negated());
      left = std::move(result);
    }
    return left;
  }

  SelectorNode negated() {
    scanner_.peek();
    const auto at = scanner_.at();
    if (!scanner_.take("~")) return primary();
    if (++depth_ > Scanner::kMaxDepth) scanner_.fail("the selector is nested more than 64 deep");
    auto inner = negated();
    --depth_;
    SelectorNode result{.kind = Kind::kNot, .text = {}, .children = {}, .where = {}, .at = at, .term = inner.term};
    result.children.push_back(std::move(inner));
    return result;
  }

  SelectorNode primary() {
    const char c = scanner_.peek();
    if (c == '(') {
      scanner_.skip(1);
      auto inner = either();
      scanner_.expect(")", "after the selector");
      return inner;
    }
    auto node = term(Kind::kBare);
    if (c == '"' || c == '\'') {
      node.text = scanner_.string();
      if (node.text.empty()) scanner_.fail_at(node.at, "the key is empty");
      return node;
    }
    const auto length = key_length(scanner_.rest());
    if (length == 0) scanner_.fail("expected a key or a term such as func(\"relu\"), not " + scanner_.next_shown());
    const auto key = scanner_.rest().substr(0, length);
    scanner_.skip(length);
    if (scanner_.peek() == '(') return call(std::move(node), key);
    const auto* word = word_of(key);
    if (word == nullptr) {
      node.text = without_quotes(key);
      return node;
    }
    if (word->takes != Takes::kOptionalText) {
      scanner_.fail_at(node.at, std::string(key) + " needs " + std::string(word->argument) + " in parentheses",
                       "the key of that name is \"" + std::string(key) + "\", in quotes");
    }
    node.kind = word->kind;
    return node;
  }

  SelectorNode term(Kind kind) {
    if (terms_ == kMaxTerms) scanner_.fail("more than " + std::to_string(kMaxTerms) + " terms");
    SelectorNode node{.kind = kind, .text = {}, .children = {}, .where = {}, .at = scanner_.at(), .term = terms_};
    ++terms_;
    return node;
  }

  /// What begins with `name(`; the parenthesis comes next.
  SelectorNode call(SelectorNode node, std::string_view name) {
    if (name == "grad") {
      throw selector_error(ErrorCode::kGradientNotSaved, scanner_.source(), node.at,
                           "grad(…): recordings hold no gradients");
    }
    const auto* word = word_of(name);
    if (word == nullptr) unknown_word(node.at, name);
    node.kind = word->kind;
    scanner_.expect("(", "here");
    const auto where = "after " + std::string(word->argument);
    const char next = scanner_.peek();
    switch (word->takes) {
      case Takes::kSelector:
        node.children.push_back(either());
        break;
      case Takes::kExpression:
        node.where.push_back(parse_expression(scanner_));
        break;
      case Takes::kOptionalText:
        if (next == ')') break;
        [[fallthrough]];
      case Takes::kText:
        node.text = argument(*word);
        break;
    }
    if (!scanner_.take(")")) {
      scanner_.fail("'" + std::string(name) + "(' is not closed: expected ')' " + where + ", not " +
                    scanner_.next_shown());
    }
    return node;
  }

  /// A text in quotes, or a key without them.
  std::string argument(const Word& word) {
    const char next = scanner_.peek();
    const auto at = scanner_.at();
    std::string text;
    if (next == '"' || next == '\'') {
      text = scanner_.string();
    } else {
      const auto length = word.kind == Kind::kRegex ? 0 : key_length(scanner_.rest());
      text = std::string(scanner_.rest().substr(0, length));
      scanner_.skip(length);
    }
    if (text.empty()) {
      scanner_.fail_at(at, std::string(word.name) + "(…) needs " + std::string(word.argument) + " in quotes");
    }
    return text;
  }

  [[noreturn]] void unknown_word(std::size_t at, std::string_view name) {
    std::string known;
    for (const auto& word : kWords) known += (known.empty() ? "" : ", ") + std::string(word.name);
    scanner_.fail_at(at, "'" + std::string(name) + "(…)' is no term of a selector", "the terms are " + known);
  }

  Scanner scanner_;
  std::size_t depth_ = 0;
  std::uint32_t terms_ = 0;
};

int strength(const SelectorNode& node) {
  switch (node.kind) {
    case Kind::kOr:
      return 0;
    case Kind::kAnd:
      return 1;
    case Kind::kMinus:
      return 2;
    default:
      return 3;
  }
}

std::string wrapped(const SelectorNode& child, int least) {
  auto text = selector_text(child);
  return strength(child) < least ? "(" + text + ")" : text;
}

std::string bare_text(const std::string& key) {
  const bool plain = key_length(key) == key.size() && without_quotes(key) == key && word_of(key) == nullptr;
  return plain ? key : quoted(key);
}

}  // namespace

std::string selector_text(const SelectorNode& node) {
  std::string text;
  switch (node.kind) {
    case Kind::kOr:
    case Kind::kAnd:
      for (const auto& child : node.children) {
        if (!text.empty()) text += node.kind == Kind::kOr ? " | " : " & ";
        text += wrapped(child, node.kind == Kind::kOr ? 1 : 2);
      }
      return text;
    case Kind::kMinus:
      return wrapped(node.children[0], 2) + " - " + wrapped(node.children[1], 3);
    case Kind::kNot:
      return "~" + wrapped(node.children[0], 3);
    case Kind::kBare:
      return bare_text(node.text);
    default:
      break;
  }
  const auto& word = word_of(node.kind);
  text = word.name;
  if (word.takes == Takes::kOptionalText && node.text.empty()) return text;
  if (word.takes == Takes::kSelector) return text + "(" + selector_text(node.children[0]) + ")";
  if (word.takes == Takes::kExpression) return text + "(" + expression_text(node.where[0]) + ")";
  return text + "(" + quoted(node.text) + ")";
}

Selector Selector::parse(std::string_view source) {
  Selector selector;
  selector.source_ = source;
  auto root = std::make_shared<SelectorNode>(Parser(source).whole());
  selector.text_ = selector_text(*root);
  selector.root_ = std::move(root);
  return selector;
}

}  // namespace tl
