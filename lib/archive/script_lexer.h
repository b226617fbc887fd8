#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tl {

/// Kinds of tokens of serialised TorchScript, as far as a name scan needs them apart.
enum class ScriptTokenKind : std::uint8_t {
  kIdentifier,  ///< names and keywords
  kNumber,
  kString,  ///< text is the literal with its quotes
  kOpen,    ///< ( [ {
  kClose,   ///< ) ] }
  kDot,
  kPunctuation,  ///< , : = -> and whatever else is no operator
  kOperator,
  kNewline,  ///< end of a logical line; none inside brackets
  kEnd,
};

struct ScriptToken {
  ScriptTokenKind kind = ScriptTokenKind::kEnd;
  std::string_view text;
  std::uint32_t line = 1;    ///< from 1
  std::uint32_t indent = 0;  ///< columns of white space before the logical line that this token is in
};

/// Cuts serialised TorchScript into tokens by the rules of LibTorch's lexer (torch/csrc/jit/frontend/lexer.h): comments
/// vanish, except that what follows `# type:` is read as code, since LibTorch does; strings end where it ends them.
class ScriptLexer {
 public:
  /// `file` is used in messages only.
  ScriptLexer(std::string_view source, std::string_view file) : source_(source), file_(file) {}

  /// Throws Error(kFileDamaged) at a string that does not end, or a byte outside ASCII that is not in a string.
  ScriptToken next();

  /// `file:line` for messages.
  std::string place() const;

 private:
  void skip_blank();
  void measure_indent();
  ScriptToken make(ScriptTokenKind kind, std::size_t length);
  std::size_t string_length() const;
  std::size_t number_length() const;
  std::size_t symbol_length() const;
  bool starts_with(std::string_view text) const { return source_.substr(at_).starts_with(text); }

  std::string_view source_;
  std::string_view file_;
  std::size_t at_ = 0;
  std::uint32_t line_ = 1;
  std::uint32_t indent_ = 0;
  std::size_t nesting_ = 0;
  bool line_start_ = true;
};

/// The value of a string literal (with its quotes) as LibTorch reads it, as far as names need it.
std::string script_string_value(std::string_view literal);

}  // namespace tl
