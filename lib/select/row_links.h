#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "select/fields.h"

namespace tl {

/// For each row of `table` the first mark (not 0) of an Op that belongs to it: the passes of a Layer, the Ops whose
/// innermost module or module call it is, the readers of a parameter, the versions of a buffer, the reader of an edge,
/// what an instruction or a line ran as, what ran in an arm or a loop, the Op that came after a host value, the Ops
/// that share a payload.
std::vector<std::uint16_t> rows_of_ops(const FieldContext& context, TableId table,
                                       const std::vector<std::uint16_t>& ops);

/// A place that a parameter stands in: an address of it and the module that has it there.
struct ParamPlace {
  std::size_t module = 0;    ///< row of modules
  std::string_view address;  ///< of the parameter
};

/// Where a parameter stands, its owner first: several places for tied weights, of which the owner is the module of one.
std::vector<ParamPlace> places_of_param(const Trace& trace, std::size_t param);

/// The column of the module that a row of `table` belongs to, nullptr where it is not one; of modules it is the row
/// itself, which `own` says.
struct ModuleColumn {
  const Column<std::int32_t>* column = nullptr;
  bool own = false;
};
std::optional<ModuleColumn> module_column(const Trace& trace, TableId table);

}  // namespace tl
