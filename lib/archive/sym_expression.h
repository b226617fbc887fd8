#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tl {

/// Value of a symbol; nullopt where it is not known.
using SymbolValue = std::function<std::optional<std::int64_t>(std::string_view symbol)>;

/// The value of an integer expression over symbols in the form that sympy_text gives: + - * // % ** and parentheses,
/// Max, Min, Mod, FloorDiv and CeilDiv calls. `//` and `%` round to minus infinity. nullopt where a symbol is not
/// known, the text is something else, is nested deeper than 64, or a result does not fit 64 bits.
std::optional<std::int64_t> evaluate_expression(std::string_view text, const SymbolValue& value_of);

/// Names of the symbols in an expression, each once; calls are none.
std::vector<std::string> symbols_of(std::string_view text);

/// The value of `symbol` for which the expression, linear in it, has the value `target`. nullopt where the expression
/// is not linear in it, another symbol is not known, or no integer solves it.
std::optional<std::int64_t> solve_expression(std::string_view text, std::string_view symbol, std::int64_t target,
                                             const SymbolValue& value_of);

/// True if `text` is one symbol: a letter or underscore, then letters, digits and underscores.
bool is_symbol(std::string_view text);

}  // namespace tl
