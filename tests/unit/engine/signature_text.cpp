#include "signature_text.h"

#include <cctype>
#include <map>
#include <stdexcept>

namespace tl::test {
namespace {

using Kind = TypeNode::Kind;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Signature signature() {
    Signature result;
    result.text = text_;
    result.method = word();
    expect('(');
    bool keyword_only = false;
    while (!take(')')) {
      take(',');
      if (take('*')) {
        keyword_only = true;
        continue;
      }
      SignatureArgument argument;
      argument.type = type();
      argument.name = word();
      argument.keyword_only = keyword_only;
      if (take('=')) {
        argument.has_default = true;
        argument.default_text = word();
      }
      result.arguments.push_back(argument);
    }
    return result;
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) throw std::invalid_argument("signature text at " + std::to_string(at_));
  }
  std::string word() {
    skip();
    const auto begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_' || text_[at_] == '.'))
      ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  TypeNode wrapped(TypeNode inner, Kind kind, std::size_t begin) const {
    TypeNode outer;
    outer.kind = kind;
    outer.text = text_.substr(begin, at_ - begin);
    outer.children.push_back(std::move(inner));
    return outer;
  }

  TypeNode type() {
    skip();
    const auto begin = at_;
    TypeNode node = base();
    node.text = text_.substr(begin, at_ - begin);
    for (;;) {
      if (at_ < text_.size() && text_[at_] == '?') {
        ++at_;
        node = wrapped(std::move(node), Kind::kOptional, begin);
      } else if (text_.substr(at_, 2) == "[]") {
        at_ += 2;
        node = wrapped(std::move(node), Kind::kList, begin);
      } else {
        return node;
      }
    }
  }

  TypeNode base() {
    static const std::map<std::string, Kind> kinds = {
        {"Tensor", Kind::kTensor}, {"int", Kind::kInt},       {"float", Kind::kFloat},  {"bool", Kind::kBool},
        {"str", Kind::kString},    {"Scalar", Kind::kNumber}, {"Device", Kind::kDevice}};
    TypeNode node;
    if (take('(')) {
      node.kind = Kind::kTuple;
      while (!take(')')) {
        take(',');
        node.children.push_back(type());
      }
      return node;
    }
    const auto name = word();
    if (const auto known = kinds.find(name); known != kinds.end()) {
      node.kind = known->second;
    } else if (name == "Dict") {
      node.kind = Kind::kDict;
      expect('(');
      node.children.push_back(type());
      expect(',');
      node.children.push_back(type());
      expect(')');
    } else if (take('(')) {
      node.kind = Kind::kNamedTuple;
      while (!take(')')) {
        take(',');
        node.field_names.push_back(word());
        expect(':');
        node.children.push_back(type());
      }
    }
    return node;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Signature signature_from_text(std::string_view text) { return Parser(text).signature(); }

}  // namespace tl::test
