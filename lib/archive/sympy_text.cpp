#include "archive/sympy_text.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

namespace tl {
namespace {

constexpr int kMaxDepth = 64;

/// How tightly the text of a term binds.
enum class Binding : int { kRelation, kSum, kProduct, kSign, kPower, kAtom };

struct Term {
  std::string text;
  Binding binding = Binding::kAtom;
};

std::string within(const Term& term, Binding outer) { return term.binding < outer ? '(' + term.text + ')' : term.text; }

struct Operator {
  std::string_view function;
  std::string_view sign;
  Binding binding;
};

// Of two operands; Add and Mul take any number.
constexpr std::array kOperators = {
    Operator{"Add", " + ", Binding::kSum},
    Operator{"Mul", "*", Binding::kProduct},
    Operator{"Pow", "**", Binding::kPower},
    Operator{"PowByNatural", "**", Binding::kPower},
    Operator{"FloorDiv", "//", Binding::kProduct},
    Operator{"CleanDiv", "//", Binding::kProduct},
    Operator{"IntTrueDiv", "/", Binding::kProduct},
    Operator{"FloatTrueDiv", "/", Binding::kProduct},
    Operator{"Mod", "%", Binding::kProduct},
    Operator{"PythonMod", "%", Binding::kProduct},
    Operator{"Equality", " == ", Binding::kRelation},
    Operator{"Unequality", " != ", Binding::kRelation},
    Operator{"GreaterThan", " >= ", Binding::kRelation},
    Operator{"StrictGreaterThan", " > ", Binding::kRelation},
    Operator{"LessThan", " <= ", Binding::kRelation},
    Operator{"StrictLessThan", " < ", Binding::kRelation},
};

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '-' || c == '+';
}

/// Recursive descent over `Name(argument, …, keyword=word)`, 'text', and bare words.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::optional<Term> whole() {
    auto term = value(0);
    return term && at_ == text_.size() ? term : std::nullopt;
  }

 private:
  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void skip_space() {
    while (take(' ')) {
    }
  }
  std::string_view word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  std::optional<Term> value(int depth) {
    if (depth > kMaxDepth) return std::nullopt;
    if (at_ < text_.size() && (text_[at_] == '\'' || text_[at_] == '"')) {
      const char quote = text_[at_++];
      const std::size_t begin = at_;
      at_ = text_.find(quote, at_);
      if (at_ == std::string_view::npos) return std::nullopt;
      return Term{std::string(text_.substr(begin, at_++ - begin)), Binding::kAtom};
    }
    const std::string_view name = word();
    if (name.empty()) return std::nullopt;
    if (!take('(')) return Term{std::string(name), Binding::kAtom};
    std::vector<Term> operands;
    bool first = true;
    for (skip_space(); !take(')'); skip_space()) {
      if (!first && !take(',')) return std::nullopt;
      skip_space();
      first = false;
      auto operand = value(depth + 1);
      if (!operand) return std::nullopt;
      if (take('=')) {  // positive=True, precision=53: assumptions
        if (!value(depth + 1)) return std::nullopt;
        continue;
      }
      operands.push_back(std::move(*operand));
    }
    return call(name, std::move(operands));
  }

  static Term call(std::string_view name, std::vector<Term> operands) {
    if ((name == "Symbol" || name == "Dummy" || name == "Integer" || name == "Float") && operands.size() == 1) {
      const bool negative = operands[0].text.starts_with('-');
      return Term{operands[0].text, negative ? Binding::kSign : Binding::kAtom};
    }
    if (name == "Rational" && operands.size() == 2) {
      return Term{operands[0].text + '/' + operands[1].text, Binding::kProduct};
    }
    const auto row = std::ranges::find(kOperators, name, &Operator::function);
    const bool any = name == "Add" || name == "Mul";
    if (row == kOperators.end() || operands.size() < 2 || (!any && operands.size() != 2)) {
      return function(name, operands);
    }
    if (name == "Mul" && operands[0].text == "-1") {
      Term product{'-' + within(operands[1], Binding::kSign), Binding::kSign};
      for (std::size_t i = 2; i < operands.size(); ++i) product.text += '*' + within(operands[i], Binding::kSign);
      return product;
    }
    // Of equal operators only the left one goes without brackets, unless the order of evaluation does not matter.
    const auto tighter = static_cast<Binding>(static_cast<int>(row->binding) + 1);
    Term term{within(operands[0], row->sign == "**" ? tighter : row->binding), row->binding};
    for (std::size_t i = 1; i < operands.size(); ++i) {
      const Term& operand = operands[i];
      if (row->binding == Binding::kSum && operand.text.starts_with('-') && operand.binding == Binding::kSign) {
        term.text += " - " + operand.text.substr(1);
      } else {
        term.text += std::string(row->sign) + within(operand, tighter);
      }
    }
    return term;
  }

  static Term function(std::string_view name, const std::vector<Term>& operands) {
    Term term{std::string(name) + '(', Binding::kAtom};
    for (std::size_t i = 0; i < operands.size(); ++i) term.text += (i == 0 ? "" : ", ") + operands[i].text;
    term.text += ')';
    return term;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::string sympy_text(std::string_view srepr) {
  const auto term = Reader(srepr).whole();
  return term ? term->text : std::string(srepr);
}

}  // namespace tl
