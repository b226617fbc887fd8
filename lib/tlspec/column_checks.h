#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "trace/trace.h"

namespace tl {

/// A table of columns.def and its number of rows.
struct TableRows {
  std::string_view table;
  std::size_t rows = 0;
};

/// The rows of every table, in the order of columns.def: those of the table's first column.
std::vector<TableRows> table_rows(const Trace& trace);

/// What a reader must know before it follows a row number of a Trace: the columns of a table have equal length, every
/// row number and string code is inside its target table, ranges are monotone, parents come before children and form no
/// cycle, enumerations are known, the run-time arguments are whole. Linear in the columns; allocates nothing per row;
/// of 100,000 ops and more on several threads, which do not change what is found. In a sparse recording Ops are passes
/// of no Layer yet. Throws Error(code) that names `where`, the column, the row and both numbers.
void check_columns(const Trace& trace, ErrorCode code, const std::string& where, bool sparse = false);

}  // namespace tl
