#include "archive/script_outline.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "core/float_text.h"

namespace tl {
namespace {

/// A literal as LibTorch's values print: floats in their shortest form, strings in double quotes.
std::string literal_text(const ScriptToken& token) {
  if (token.kind == ScriptTokenKind::kString) return '"' + script_string_value(token.text) + '"';
  if (token.kind == ScriptTokenKind::kNumber && token.text.find_first_of(".eE") != std::string_view::npos &&
      token.text.back() != 'j') {
    double value = 0;
    const auto parsed = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    if (parsed.ec == std::errc() && parsed.ptr == token.text.data() + token.text.size()) return float_text(value);
  }
  return std::string(token.text);
}

/// The tokens of a type or default value as one text, a space after each comma.
std::string joined(std::span<const ScriptToken> tokens) {
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].text == ",") {
      const bool last = i + 1 == tokens.size() || tokens[i + 1].kind == ScriptTokenKind::kClose;
      if (!last) text += ", ";
    } else {
      text += literal_text(tokens[i]);
    }
  }
  return text;
}

// Hostile sources repeat a character a million times where a class has a few methods; what is kept of them is bounded.
constexpr std::size_t kMaxHeadTokens = 8'192;
constexpr std::size_t kMaxMethods = 100'000;
constexpr std::size_t kMaxNames = 1'000'000;

bool is_name(const ScriptToken& token) { return token.kind == ScriptTokenKind::kIdentifier; }

}  // namespace

std::string ScriptMethod::signature() const {
  std::string text = name + "(";
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ScriptParameter& parameter = parameters[i];
    text += (i > 0 ? ", " : "") + parameter.type + ' ' + parameter.name;
    if (parameter.has_default) text += '=' + parameter.default_text;
  }
  text += ')';
  return returns.empty() ? text : text + " -> " + returns;
}

const ScriptMethod* ScriptClass::method(std::string_view name) const {
  const auto found = std::ranges::find(methods, name, &ScriptMethod::name);
  return found == methods.end() ? nullptr : &*found;
}

void ScriptOutline::take(const ScriptToken& token, bool first) {
  if (first) begin_line(token);
  if (!collecting_) return;
  if (token.kind == ScriptTokenKind::kNewline || token.kind == ScriptTokenKind::kEnd) {
    collecting_ = false;
    end_line();
    line_.clear();
  } else if (line_.size() < kMaxHeadTokens) {
    line_.push_back(token);
  }
}

void ScriptOutline::begin_line(const ScriptToken& first) {
  if (in_def_ && first.indent <= def_indent_) {
    in_def_ = in_setstate_ = false;
    where_.clear();
  }
  if (in_class_ && first.indent <= class_indent_) {
    in_class_ = false;
    class_ = nullptr;
  }
  if (in_def_) return;
  collecting_ = first.text == "class" || first.text == "def" ||
                (class_ != nullptr && (first.text == "__parameters__" || first.text == "__buffers__"));
}

void ScriptOutline::end_line() {
  const std::string_view word = line_[0].text;
  if (word == "class") return read_class();
  if (word == "def") return read_def();
  if (class_ != nullptr) read_names(word == "__parameters__" ? class_->parameters : class_->buffers);
}

// class NAME ( BASE ) :
void ScriptOutline::read_class() {
  if (line_.size() < 2 || !is_name(line_[1])) return;
  in_class_ = true;
  class_indent_ = line_[0].indent;
  class_name_ = line_[1].text;
  if (classes_ == nullptr) return;
  class_ = &(*classes_)[module_ + '.' + class_name_];
  *class_ = {};
  if (line_.size() > 4 && line_[2].text == "(" && is_name(line_[3])) class_->base = line_[3].text;
}

// __parameters__ = [ "weight" , "bias" , ]
void ScriptOutline::read_names(std::vector<std::string>& names) {
  names.clear();
  for (const ScriptToken& token : line_) {
    if (token.kind == ScriptTokenKind::kString && names_++ < kMaxNames)
      names.push_back(script_string_value(token.text));
  }
}

// def NAME ( self : TYPE , x : TYPE = DEFAULT , … ) -> TYPE :
void ScriptOutline::read_def() {
  if (line_.size() < 4 || !is_name(line_[1]) || line_[2].text != "(") return;
  in_def_ = true;
  def_indent_ = line_[0].indent;
  const std::string name(line_[1].text);
  where_ = in_class_ ? class_name_ + '.' + name : name;
  in_setstate_ = in_class_ && name == "__setstate__";
  if (class_ == nullptr || line_.size() == kMaxHeadTokens || methods_++ > kMaxMethods) return;
  ScriptMethod method{name, line_[0].line, {}, {}};
  std::size_t depth = 0;
  std::size_t begin = 3;
  std::size_t at = 2;
  for (; at < line_.size(); ++at) {
    if (line_[at].kind == ScriptTokenKind::kOpen) ++depth;
    if (line_[at].kind == ScriptTokenKind::kClose) --depth;
    const bool ends = depth == 0 || (depth == 1 && line_[at].text == ",");
    if (!ends) continue;
    if (at > begin && names_++ < kMaxNames) method.parameters.push_back(read_parameter(begin, at));
    begin = at + 1;
    if (depth == 0) break;
  }
  if (!method.parameters.empty()) method.parameters.erase(method.parameters.begin());  // self
  std::size_t end = line_.size();
  for (++at; at < line_.size() && line_[at].text != "->"; ++at) {
  }
  while (end > at && line_[end - 1].text != ":") --end;  // a body on the same line follows the last colon
  if (at + 1 < end) method.returns = joined(std::span(line_).subspan(at + 1, end - at - 2));
  class_->methods.push_back(std::move(method));
}

ScriptParameter ScriptOutline::read_parameter(std::size_t begin, std::size_t end) const {
  const std::span<const ScriptToken> tokens = std::span(line_).subspan(begin, end - begin);
  ScriptParameter parameter;
  parameter.name = tokens[0].text;
  std::size_t depth = 0;
  std::size_t equals = tokens.size();
  for (std::size_t i = 0; i < tokens.size() && equals == tokens.size(); ++i) {
    if (tokens[i].kind == ScriptTokenKind::kOpen) ++depth;
    if (tokens[i].kind == ScriptTokenKind::kClose) --depth;
    if (depth == 0 && tokens[i].text == "=") equals = i;
  }
  parameter.type = "Tensor";  // what LibTorch takes where nothing is said
  if (tokens.size() > 2 && tokens[1].text == ":" && equals > 2) parameter.type = joined(tokens.subspan(2, equals - 2));
  if (equals + 1 < tokens.size()) {
    parameter.has_default = true;
    parameter.default_text = joined(tokens.subspan(equals + 1));
  }
  return parameter;
}

std::string demangled_class(std::string_view qualified) {
  std::string result;
  for (std::size_t begin = 0; begin <= qualified.size();) {
    const std::size_t dot = std::min(qualified.find('.', begin), qualified.size());
    const std::string_view part = qualified.substr(begin, dot - begin);
    if (part != "__torch__" && !part.starts_with("___torch_mangle_")) {
      if (!result.empty()) result += '.';
      result += part;
    }
    begin = dot + 1;
  }
  return result;
}

}  // namespace tl
