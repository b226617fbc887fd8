#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "archive/exported_json.h"
#include "archive/exported_program.h"

namespace tl {

/// What the graphs of one program share while they are read: the place, the program, and its stacks by their text.
struct ExportedReading {
  ExportedPlace place;
  ExportedProgram& program;
  std::unordered_map<std::string_view, std::int32_t> module_stacks = {};
  std::unordered_map<std::string_view, std::int32_t> source_stacks = {};
};

/// Names of the values of one graph, and what the file states of them.
struct ExportedScope {
  std::unordered_map<std::string_view, std::uint32_t> values = {};
  std::unordered_map<std::string_view, std::int32_t> metas = {};
  std::unordered_map<std::string_view, JsonRef> symbols = {};  ///< SymInt, SymFloat, SymBool
};

/// Reads a Graph of the schema with all it nests. Throws Error as read_exported_program does.
ExportedGraph read_exported_graph(ExportedReading& reading, JsonRef json, std::string_view name, ExportedScope& scope);

/// Reads an Argument of the schema that uses values of `scope`, which must not hold graphs.
ExportedArgument read_exported_argument(ExportedReading& reading, JsonRef json, const ExportedScope& scope);

/// The value of a name. Throws Error(kFileDamaged) if there is none.
ExportedRef exported_value(const ExportedReading& reading, const ExportedScope& scope, std::string_view name);

/// Reads a GraphSignature and holds it against the graph. Throws Error as read_exported_program does.
void read_exported_signature(ExportedReading& reading, JsonRef json, const ExportedScope& scope);

/// Reads module_call_graph, with `treespec_namedtuple_fields` of the graph module (may be none).
void read_exported_module_calls(ExportedReading& reading, JsonRef json, JsonRef fields, const ExportedScope& scope);

}  // namespace tl
