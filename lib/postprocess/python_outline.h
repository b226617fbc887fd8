#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "trace/tables.h"

namespace tl {

/// Bytes begin .. end-1 of a text.
struct TextSpan {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  bool holds(std::uint32_t at) const { return at >= begin && at < end; }
  bool empty() const { return begin >= end; }
};

/// An arm of an `if` or of a ternary.
struct PythonArm {
  ArmKind kind = ArmKind::kThen;
  std::uint32_t keyword = 0;  ///< where its `if`, `elif` or `else` stands
  TextSpan test;              ///< empty for else and fall-through arms
  TextSpan body;              ///< of a fall-through arm, the rest of the block that the chain stands in
  bool ends = false;          ///< its last statement provably leaves the block: return, raise, break, continue
};

/// One if / elif / else chain, or one ternary (arms then and else).
struct PythonConditional {
  bool ternary = false;
  TextSpan span;
  std::vector<PythonArm> arms;  ///< in the order of the text, a fall-through arm last
  bool has_exit = false;        ///< a return, raise, break or continue stands somewhere in an arm
};

/// A place where Python asks for a truth value.
struct PythonTest {
  BoolContext context = BoolContext::kUnknown;
  TextSpan span;
};

/// What the text of a function says of its conditionals.
struct PythonOutline {
  std::vector<PythonConditional> conditionals;  ///< by where they begin
  std::vector<PythonTest> tests;                ///< by where they begin; inner ones after the outer
  std::vector<std::uint32_t> asserts;           ///< where `assert` stands

  /// The innermost test that holds a byte.
  const PythonTest* test_at(std::uint32_t at) const;
};

/// Reads the outline of a Python text. A chain without else all of whose arms provably end gets a fall-through arm if
/// statements follow it in its block. An arm provably ends if its last statement is return, raise, break or continue,
/// or an `if` with an else all of whose arms provably end; try, with, match and loop bodies never count as ending.
/// Nothing where the text is not Python as far as this reads it, or over the bounds of core/python_tokens.h: half an
/// understanding could name a wrong arm. Time: linear in the text, times its depth.
std::optional<PythonOutline> outline_python(std::string_view text);

}  // namespace tl
