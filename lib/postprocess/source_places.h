#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/source_text.h"
#include "postprocess/python_outline.h"
#include "trace/trace.h"

namespace tl {

/// A call site found in a source text.
struct SourcePlace {
  std::int32_t text = -1;  ///< number of the text; -1 if no text holds the place
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// What the instruction of a conditional is, by the text at its place.
struct ConditionalMatch {
  ConditionalKind kind = ConditionalKind::kUnknown;
  std::int32_t text = -1;
  std::int32_t conditional = -1;  ///< number in the outline, of an if chain or a ternary
  std::int32_t test = 0;          ///< which test of the chain, from 0
  std::uint32_t at = 0;           ///< where its place begins in the text
};

/// Finds call sites in the source texts of the file. Where two texts disagree about a line, or a text is no Python,
/// nothing is found: unknown stays unknown.
class SourcePlaces {
 public:
  SourcePlaces(std::span<const SourceText> texts, const Trace& trace);

  /// Of a row of call_sites; computed once a row. -1 has none.
  const SourcePlace& place(std::int32_t call_site);
  /// Null if the text is not understood.
  const PythonOutline* outline(std::int32_t text);
  /// The line of the file that a byte of a text is in.
  std::int32_t line_of(std::int32_t text, std::uint32_t at) const;
  std::string_view text(std::int32_t number, TextSpan span) const;
  /// What stands at the place of a conditional's instruction.
  ConditionalMatch match(std::int32_t instruction);

 private:
  struct Lines {
    std::vector<std::uint32_t> begins;  ///< of the lines of a text
    bool outlined = false;
    std::optional<PythonOutline> outline;
  };

  SourcePlace find(std::int32_t call_site) const;
  std::string_view line_text(std::int32_t number, std::int64_t line) const;
  bool starts_ternary(const SourcePlace& place, const PythonConditional& ternary) const;
  ConditionalMatch match_expression(const SourcePlace& place, const PythonOutline& outline) const;

  std::span<const SourceText> texts_;
  const Trace& trace_;
  std::vector<Lines> lines_;
  std::map<std::string_view, std::vector<std::int32_t>> of_file_;
  std::vector<std::optional<SourcePlace>> places_;
};

}  // namespace tl
