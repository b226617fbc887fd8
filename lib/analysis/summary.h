#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/trace.h"

namespace tl {

/// One line of the module table: a module that was called at the top level, or a run of operations that stand there
/// loose.
struct SummaryRow {
  ModuleId module;               ///< none for loose operations
  std::string name;              ///< address; names of the first loose operations
  std::string class_name;        ///< class; number of loose operations
  std::int64_t calls = 1;        ///< of the module
  OpId output;                   ///< first output of the first call; of the last loose operation
  std::int64_t params = 0;       ///< elements of the parameters below the module
  std::int64_t num_ops = 0;      ///< operations inside
  double seconds = 0;            ///< wall time of all calls, inclusive
  std::int64_t saved_bytes = 0;  ///< payloads first produced inside
};

/// What the first screen shows of a Trace.
struct TraceSummary {
  std::string base;                ///< address of the module whose parts the rows are; empty for the root
  std::vector<SummaryRow> rows;    ///< in order of first execution
  std::int64_t num_ops = 0;        ///< operations
  std::int64_t num_layers = 0;     ///< of operations
  std::int64_t num_recurrent = 0;  ///< of these, with several passes
  std::int64_t params = 0;         ///< elements of distinct parameters of the model
  double seconds = 0;              ///< sum of the rows
  std::int64_t saved_bytes = 0;    ///< all payloads, those of inputs and buffers included
};

/// Rows are the modules called from the root's forward, and the operations there. Where the root does nothing but call
/// one module once, the rows are that module's. Linear in Ops and calls.
TraceSummary summarise(const Trace& trace);

/// Elements of the parameters that lie below a module (the module's own included); constants are not counted.
std::int64_t params_below(const Trace& trace, ModuleId module);

}  // namespace tl
