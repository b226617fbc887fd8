#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "archive/exported_program.h"
#include "archive/json_tape.h"
#include "core/error.h"

namespace tl {

/// Where in a program's JSON a reader is, for messages. The views are borrowed.
struct ExportedPlace {
  std::string where;           ///< file and entry
  std::string_view graph;      ///< name of the subgraph, or empty
  std::int64_t node = -1;      ///< index in its graph
  std::string_view node_name;  ///< or its target, where it has no name
  std::string_view part;       ///< in words: argument, payload …
  std::string_view part_name;  ///< which, where it has a name

  /// Throws Error with all of it before `what`.
  [[noreturn]] void fail(ErrorCode code, const std::string& what) const;
  [[noreturn]] void damaged(const std::string& what) const { fail(ErrorCode::kFileDamaged, what); }
};

/// The typed reads of a member or value; throw Error(kFileDamaged) naming place and field where the type differs.
JsonRef required(const ExportedPlace& place, JsonRef object, std::string_view key);
/// None if the member is absent or null.
JsonRef optional_member(const ExportedPlace& place, JsonRef object, std::string_view key);
JsonRef expect_object(const ExportedPlace& place, JsonRef value, std::string_view what);
JsonRef expect_array(const ExportedPlace& place, JsonRef value, std::string_view what);
std::string_view expect_string(const ExportedPlace& place, JsonRef value, std::string_view what);
std::int64_t expect_integer(const ExportedPlace& place, JsonRef value, std::string_view what);
bool expect_bool(const ExportedPlace& place, JsonRef value, std::string_view what);
/// Numbers, and the strings "Infinity", "-Infinity", "NaN".
double expect_float(const ExportedPlace& place, JsonRef value, std::string_view what);
/// Throws Error(kFileLimits) for a path of more modules than a program may nest.
void expect_module_path(const ExportedPlace& place, std::string_view path);
/// The only member that is not null of an object that stands for a union.
JsonMember expect_union(const ExportedPlace& place, JsonRef value, std::string_view what);

/// serde's numbers; throw Error(kUnsupportedProgram) for those this build does not know.
DType exported_dtype(const ExportedPlace& place, JsonRef value);
ExportedLayout exported_layout(const ExportedPlace& place, JsonRef value);
ExportedMemoryFormat exported_memory_format(const ExportedPlace& place, JsonRef value);
ExportedDevice exported_device(const ExportedPlace& place, JsonRef value);
/// SymInt of the schema.
ExportedSymInt exported_sym_int(const ExportedPlace& place, JsonRef value);
/// TensorMeta of the schema; sizes that are numbers are not negative, strides are as many as sizes.
ExportedTensorMeta exported_tensor_meta(const ExportedPlace& place, JsonRef value);

}  // namespace tl
