#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost/memory_timeline.h"
#include "cost/module_costs.h"
#include "cost/op_costs.h"
#include "cost/parameters.h"
#include "trace/trace.h"

namespace tl {

/// What the rows of a summary are.
enum class SummaryLevel : std::uint8_t {
  kAuto,    ///< the parts of the model, gone into until they say something
  kModule,  ///< the tree of modules
  kOp,      ///< the tree of modules with a row a Layer in it
};

struct SummaryOptions {
  SummaryLevel level = SummaryLevel::kAuto;
  int depth = 0;              ///< levels of the tree; 0: one level (auto), all of them (module, op)
  bool fold = true;           ///< numbered neighbours of one class become one row
  std::size_t max_rows = 40;  ///< of the parts of one module; more are added up in one row. 0: all
  bool memory = false;        ///< work out the memory timeline, too
};

/// One line of the module table.
struct SummaryRow {
  enum class Kind : std::uint8_t {
    kModule,  ///< a module, or several folded ones
    kLoose,   ///< operations that stand between calls of modules
    kLayer,   ///< one Layer
    kElided,  ///< the rows that were too many, added up
  };
  Kind kind = Kind::kModule;
  int depth = 0;       ///< 0 for the rows that add up to the total; the parts of a row follow it, one deeper
  ModuleId module;     ///< the first of the folded; none for other kinds
  std::string name;    ///< address, below another row without what is common; names of the first operations, each once
  std::string folded;  ///< `0-11`: the numbers that were folded; empty for a single module
  bool numbers_apart = false;  ///< the folded ones stand in a module that was called: `layer1  0-1`, not `layer.0-11`
  std::string class_name;      ///< class; number of loose operations; func_name of a Layer
  std::int64_t modules = 1;    ///< how many were folded, or left out
  std::int64_t calls = 1;      ///< of the modules together; runs of loose operations; passes
  OpId output;                 ///< first output of the first call; of the last loose operation
  CostSum cost;                ///< inclusive
  ModuleParams params;
};

/// The row's name as it is shown: `layer1  0-1 ×2`, `encoder.layer.0-11 ×12`, `cell ×3`, `… 12 more`.
std::string display_name(const SummaryRow& row);

/// What the first screen shows of a Trace.
struct TraceSummary {
  std::string base;                ///< address of the module whose parts the rows are; empty for the root
  std::vector<SummaryRow> rows;    ///< in order of first execution
  std::int64_t num_ops = 0;        ///< operations
  std::int64_t num_layers = 0;     ///< of operations
  std::int64_t num_recurrent = 0;  ///< of these, with several passes
  std::int64_t min_passes = 0;     ///< of the recurrent ones
  std::int64_t max_passes = 0;
  ParamTotals params;
  CostTotals cost;
  double seconds = 0;            ///< sum of the rows of depth 0
  std::int64_t saved_bytes = 0;  ///< values and samples kept of operations
  MemoryTimeline memory;         ///< empty unless asked for
};

/// Rows are the modules called from the root's forward, and the operations there. Where the root does nothing but call
/// one module once, the rows are that module's. Linear in Ops and calls.
TraceSummary summarise(const Trace& trace, const SummaryOptions& options = {});

/// Elements of the parameters that lie below a module (the module's own included); constants are not counted.
std::int64_t params_below(const Trace& trace, ModuleId module);

}  // namespace tl
