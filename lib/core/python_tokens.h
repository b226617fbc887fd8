#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tl {

enum class PythonTokenKind : std::uint8_t {
  kName,     ///< names and keywords
  kLiteral,  ///< numbers and strings, an f-string whole
  kOpen,     ///< ( [ {
  kClose,    ///< ) ] }
  kOther,    ///< operators and delimiters
};

struct PythonToken {
  PythonTokenKind kind = PythonTokenKind::kOther;
  std::uint32_t begin = 0;  ///< in bytes of the text
  std::uint32_t end = 0;
};

/// A logical line: tokens first .. end-1, never none. Comments and empty lines are no lines.
struct PythonLine {
  std::uint32_t indent = 0;  ///< columns of white space before it, a tab filling up to the next multiple of 8
  std::uint32_t first = 0;
  std::uint32_t end = 0;
};

struct PythonTokens {
  std::vector<PythonToken> tokens;
  std::vector<PythonLine> lines;
};

/// Bounds on what is read of a source text, which is untrusted: Python itself allows 100 levels of indentation and
/// nests about as many brackets.
inline constexpr std::size_t kPythonTextBytes = std::size_t{1} << 20;
inline constexpr std::size_t kPythonDepth = 100;

/// What a text is a whole of.
enum class PythonExtent : std::uint8_t {
  kWhole,     ///< a function, a file: every bracket and string that opens also closes
  kFragment,  ///< one line out of a statement: brackets and triple-quoted strings may begin or end outside of it
};

/// Cuts Python source into tokens and logical lines: strings of all prefixes and quotes, comments, brackets, `\` at the
/// end of a line. Nothing where the text is no Python by these rules (an open string or bracket, a closing bracket that
/// fits none), or over the bounds. Linear in the size of the text.
std::optional<PythonTokens> python_tokens(std::string_view text, PythonExtent extent = PythonExtent::kWhole);

}  // namespace tl
