#pragma once

#include <string>
#include <string_view>

#include "archive/exported_program.h"
#include "engine/exported_interface.h"

namespace tl {

/// What the symbols in a text of the program's (`u0 >= 3` of an assertion) stand for, in the names that callers use:
/// `u0 is item of n, s77 is x.shape[0]`. Empty where the text holds none that the graph defines.
std::string explain_symbols(const ExportedProgram& program, const ExportedInterface& interface, std::string_view text);

}  // namespace tl
