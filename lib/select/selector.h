#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace tl {

struct SelectorNode;

/// A query for places of a model that depends on no particular trace: parsed once, then resolved against finished
/// Traces (select/selection.h) or asked of events while a model runs (select/live_selector.h). A value type; copies
/// share the parsed form. The grammar is described in docs/selectors.md:
///
///     selector := or ;  or := and ("|" and)* ;  and := minus ("&" minus)* ;  minus := not ("-" not)* ;  not := "~" not
///     | term term     := "(" selector ")" | word | string | func("glob") | module("glob") | in_module("glob") |
///     label("label")
///               | contains("text") | regex("pattern") | where(expression) | input | output | buffer
///               | followed_by(selector) | preceded_by(selector)
class Selector {
 public:
  /// Throws Error: kSelectorSyntax with the source and a caret below it, kGradientNotSaved for grad(…).
  static Selector parse(std::string_view source);

  /// The canonical text; parsing it gives the same text.
  const std::string& text() const { return text_; }
  /// What was parsed.
  const std::string& source() const { return source_; }
  const SelectorNode& root() const { return *root_; }

  friend bool operator==(const Selector& a, const Selector& b) { return a.text_ == b.text_; }

 private:
  Selector() = default;

  std::string source_;
  std::string text_;
  std::shared_ptr<const SelectorNode> root_;
};

}  // namespace tl
