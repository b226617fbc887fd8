#include "summary_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "summary_table.h"

namespace tl::cli {
namespace {

constexpr int kMaxDepth = 64;

}  // namespace

void add_tree_options(CLI::App& app, SummaryScreenOptions& options) {
  app.add_option("--level", options.level, "rows of the table: auto, module (the tree of modules), op (and layers)")
      ->type_name("LEVEL")
      ->check(CLI::IsMember({"auto", "module", "op"}))
      ->group("Summary");
  app.add_option("--depth", options.depth, "levels of the tree of modules")
      ->type_name("N")
      ->check(CLI::Range(1, kMaxDepth))
      ->group("Summary");
}

void add_summary_options(CLI::App& app, SummaryScreenOptions& options) {
  app.add_option("--view", options.view, "columns for a purpose: overview, compute, memory")
      ->type_name("VIEW")
      ->check(CLI::IsMember({"overview", "compute", "memory"}))
      ->group("Summary");
  app.add_option("--columns", options.columns, "columns behind the module, by comma: " + summary_column_names())
      ->type_name("LIST")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group("Summary");
  app.add_flag("--stable", options.stable, "without times and paths: the same bytes for the same run")
      ->group("Summary");
}

void check_summary_options(const SummaryScreenOptions& options) {
  for (const auto& name : options.columns) {
    if (is_summary_column(name)) continue;
    std::vector<std::string> names;
    for (const auto& column : summary_columns()) names.emplace_back(column.name);
    const auto near = did_you_mean(name, names, 1);
    throw Error(ErrorCode::kUsage, "--columns: there is no column '" + name + "'",
                near.empty() ? "the columns are " + summary_column_names() : "did you mean " + near.front() + "?");
  }
}

SummaryOptions summary_options(const SummaryScreenOptions& options) {
  SummaryOptions chosen;
  chosen.level = options.level == "module" ? SummaryLevel::kModule
                 : options.level == "op"   ? SummaryLevel::kOp
                                           : SummaryLevel::kAuto;
  chosen.depth = options.depth;
  chosen.memory = options.view == "memory";
  if (options.all_rows) {
    chosen.fold = false;
    chosen.max_rows = 0;
  }
  return chosen;
}

}  // namespace tl::cli
