#pragma once

#include <string>
#include <vector>

#include "analysis/summary.h"

namespace CLI {
class App;
}

namespace tl::cli {

/// How a recording is summed up on a screen, as on the command line.
struct SummaryScreenOptions {
  std::string level = "auto";        ///< auto, module, op
  int depth = 0;                     ///< 0: not given
  std::string view = "overview";     ///< overview, compute, memory
  std::vector<std::string> columns;  ///< names of summary_columns(); empty: those of the view
  bool all_rows = false;             ///< nothing is folded or left out
  bool stable = false;               ///< without times and paths, so that two runs print the same bytes
};

/// Adds --level and --depth.
void add_tree_options(CLI::App& app, SummaryScreenOptions& options);

/// Adds --view, --columns and --stable.
void add_summary_options(CLI::App& app, SummaryScreenOptions& options);

/// Throws Error(kUsage) where a column has no such name.
void check_summary_options(const SummaryScreenOptions& options);

/// What `summarise` is asked for.
SummaryOptions summary_options(const SummaryScreenOptions& options);

}  // namespace tl::cli
