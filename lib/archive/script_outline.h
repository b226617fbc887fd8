#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "archive/script_lexer.h"

namespace tl {

/// One parameter of a method, `self` left out. Types and defaults are written as LibTorch prints them.
struct ScriptParameter {
  std::string name;
  std::string type;  ///< Optional[Tensor]
  bool has_default = false;
  std::string default_text;
};

struct ScriptMethod {
  std::string name;
  std::uint32_t line = 0;
  std::vector<ScriptParameter> parameters;
  std::string returns;  ///< empty where the source does not say

  /// `forward(Tensor x, int times=3) -> Tensor`
  std::string signature() const;
};

/// One class statement of a source.
struct ScriptClass {
  std::string base;  ///< Module, NamedTuple, Enum, Interface …; empty for a plain class
  std::vector<std::string> parameters;
  std::vector<std::string> buffers;
  std::vector<ScriptMethod> methods;

  const ScriptMethod* method(std::string_view name) const;
};

/// By qualified name, mangling included: `__torch__.torch.nn.modules.conv.___torch_mangle_3.Conv2d`.
using ScriptClasses = std::map<std::string, ScriptClass, std::less<>>;

/// Picks class statements, their lists of parameters and buffers and the heads of their methods out of the tokens of
/// one source, without parsing bodies. What it does not understand it passes over: it informs, it does not judge.
class ScriptOutline {
 public:
  /// `module` is what the names of the source's classes are below: `__torch__.zoo_models`. Null `classes`: only `where`
  /// is kept.
  ScriptOutline(std::string module, ScriptClasses* classes) : module_(std::move(module)), classes_(classes) {}

  /// The next token; `first` if it begins a logical line.
  void take(const ScriptToken& token, bool first);

  /// The method or function that the last token was in: `Writer.__setstate__`, `helper`; empty outside.
  const std::string& where() const { return where_; }
  bool in_setstate() const { return in_setstate_; }

 private:
  void begin_line(const ScriptToken& first);
  void end_line();
  void read_class();
  void read_names(std::vector<std::string>& names);
  void read_def();
  ScriptParameter read_parameter(std::size_t begin, std::size_t end) const;

  std::string module_;
  ScriptClasses* classes_;
  std::vector<ScriptToken> line_;  // of a head that is being collected
  std::size_t methods_ = 0;
  std::size_t names_ = 0;
  bool collecting_ = false;
  ScriptClass* class_ = nullptr;
  std::string class_name_;
  bool in_class_ = false;
  std::uint32_t class_indent_ = 0;
  bool in_def_ = false;
  std::uint32_t def_indent_ = 0;
  std::string where_;
  bool in_setstate_ = false;
};

/// A qualified class name without `__torch__` and `___torch_mangle_N` parts, as Python knows it.
std::string demangled_class(std::string_view qualified);

}  // namespace tl
