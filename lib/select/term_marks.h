#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "select/fields.h"
#include "select/lookup.h"
#include "select/selector_node.h"

namespace tl {

/// One flag a row: 1 where it is taken.
using Flags = std::vector<std::uint8_t>;

/// Whether an instruction goes under a name that fits `pattern`: its function name (relu_, __add__ and, without the
/// underscores around it, add), its operator (aten::add) or that with its overload (aten::add.Tensor). Takes the tables
/// of a Trace and of a Capture.
bool instruction_fits(const StringPool& strings, const InstructionsTable& instructions, std::size_t row,
                      std::string_view pattern);

/// A glob over modules, with the call that is meant: block:2; 0 for all.
struct ModulePattern {
  std::string_view address;
  std::int32_t call = 0;
};
ModulePattern module_pattern(std::string_view text);

/// Modules that have an address (any alias) that fits the pattern.
Flags modules_named(const StringPool& strings, const ModulesTable& modules, std::string_view pattern);
/// The same and all modules below them by address.
Flags modules_in(const StringPool& strings, const ModulesTable& modules, std::string_view pattern);
/// Calls of flagged modules (of call number `call`, 0 for all); with `inner`, also every call made in one of these.
Flags calls_of(const ModuleCallsTable& calls, const Flags& modules, std::int32_t call, bool inner);

/// Whether a role (input.x, output.0) or what comes after its first dot fits a glob; for addresses of buffers the same.
bool role_fits(std::string_view pattern, std::string_view role);

/// The Ops that a term takes which is neither a key nor an expression nor made of other terms: func, module, in_module,
/// contains, regex, input, output, buffer. Throws kSelectorSyntax for a regular expression that RE2 does not take.
Flags ops_of_term(const SelectorNode& term, std::string_view source, const Trace& trace);

/// The Ops that a found record stands for where Ops are meant: the passes of a Layer, what a module or one call of it
/// returned, the readers of a parameter, the versions of a buffer.
std::vector<std::uint32_t> ops_of_found(const Trace& trace, const Found& found);

}  // namespace tl
