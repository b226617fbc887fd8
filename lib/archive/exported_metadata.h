#pragma once

#include <string>
#include <string_view>

#include "archive/exported_program.h"

namespace tl {

/// The module stack that a node's `nn_module_stack` holds: `key,path,class` joined by `;`, unescaped, so that commas
/// and semicolons in names are told apart by what keys look like (`L__self__` and the path, or an object's id, with
/// `@k`) and by brackets. Empty for the text that stands for none (`_empty_nn_module_stack_from_metadata_hook`).
ExportedModuleStack parse_module_stack(std::string_view text);

/// A module's address out of the path of a module stack: `L['self'].blocks[0]`, `L['self']._modules['a,b'].c`,
/// `_modules['e[0]'].c`, `_export_root.blocks.0` and `blocks.0` are `blocks.0`, `a,b.c`, `e[0].c`, `blocks.0` and
/// `blocks.0`; the root is empty. Takes time linear in the text.
std::string module_address(std::string_view path);

/// The frames of a node's `stack_trace`, both of traceback.format_list (two spaces before `File`, lines of carets where
/// Python knows the columns) and of non-strict exports. Columns count in `code`, the source line without its indent.
/// Lines that belong to no frame are left out.
ExportedSourceStack parse_stack_trace(std::string_view text);

}  // namespace tl
