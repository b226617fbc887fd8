#pragma once

#include <cstdint>
#include <vector>

#include "diff/side.h"

namespace tl {

/// The values that a module call returned, on either side. What the model itself returns is one of these for each
/// value.
struct CallValues {
  /// Rows of the side. Of a Dump the entries in order. Of a Trace the value returned first, or what it was taken for;
  /// then in order all that the call made and that is read outside of it, or nowhere: it may have returned these too.
  std::vector<std::uint32_t> rows;
  std::uint64_t place = 0;      ///< address after renaming, and number of the call
  std::uint64_t path = 0;       ///< of several values of the model, which
  std::uint64_t kind = 0;       ///< class and sizes of the first; 0 where no class is known
  std::uint64_t weights = 0;    ///< contents of the module's own parameters; 0 where none or unknown
  std::int32_t call = -1;       ///< row of module_calls; -1 for entries of a dump
  bool first_is_known = false;  ///< rows[0] is the value that was returned first: dumps, scripts
  bool first_is_read = false;   ///< the same of those that are read at all: traced modules return no others
};

/// All calls of a side in the order they returned, inner calls first.
std::vector<CallValues> call_values(const Side& side);

}  // namespace tl
