#pragma once

#include <span>
#include <string>
#include <string_view>

#include "analysis/summary.h"
#include "output.h"
#include "summary_options.h"
#include "trace/trace.h"

namespace tl::cli {

/// A column of the module table, behind the name of the module.
struct SummaryColumn {
  std::string_view name;     ///< on the command line
  std::string_view title;    ///< above the column
  std::string_view meaning;  ///< with its unit; docs/reading-a-recording.md has it
  bool is_time = false;      ///< left out where the output must be stable
  bool right = true;         ///< aligned to the right
  std::size_t max_width = 0;
  std::size_t min_width = 0;
};

std::span<const SummaryColumn> summary_columns();
bool is_summary_column(std::string_view name);
/// All names, by comma.
std::string summary_column_names();

/// The module table with its total, and below it what the total does not say: operators without a count, parameters
/// that are tied or were not read, the peak of the memory.
void print_summary_table(Output& out, const Trace& trace, const TraceSummary& summary,
                         const SummaryScreenOptions& options);

/// `69 ops, 61 layers (8 run twice)`
std::string ops_and_layers(const TraceSummary& summary);

/// `≥ 3.65 G` where some calls have no count, `?` where none has, `-` for none.
std::string format_flops(std::int64_t count, std::int64_t uncounted_calls);

}  // namespace tl::cli
