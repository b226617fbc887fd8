#pragma once

#include <string>
#include <string_view>

namespace tl {

/// A symbolic expression as people write it: `Add(Mul(Integer(2), Symbol('s27', integer=True)), Integer(1))`, which is
/// what sympy's srepr gives and torch 2.6 and later store, becomes `2*s27 + 1`, with the terms in the order of the
/// text. Functions that have no sign stay calls (`FloorDiv(s0, 2)` is `s0//2`, `Max(1, u0)`). What is no such text, or
/// is nested deeper than 64 levels, comes back as it is.
std::string sympy_text(std::string_view srepr);

}  // namespace tl
