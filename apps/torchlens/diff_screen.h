#pragma once

#include <cstdint>
#include <string>

#include "diff/report.h"
#include "output.h"

namespace tl::cli {

struct DiffScreenOptions {
  std::int64_t max_diffs = 0;   ///< rows of the table of differences
  std::string sort = "order";   ///< order, local, total, worst
  bool every_argument = false;  ///< -v: also those without effect
  bool verdict_only = false;    ///< -q
};

/// The comparison for a reader: both sides, what is the same, the first source with its cause, how the error grows, the
/// verdict, and the command to repeat.
void print_diff(Output& out, const DiffReport& report, const DiffScreenOptions& options);

/// Rows of report.sites that are out of tolerance, in the order asked for: of the run, by what the site adds itself
/// (local), by its error (total), by its worst sample (worst). At most `most` of them.
std::vector<std::size_t> listed_sites(const DiffReport& report, const std::string& sort, std::size_t most);

/// Bars of eight heights for errors on a logarithmic scale; a blank where nothing was compared.
std::string sparkline(const std::vector<double>& errors);

}  // namespace tl::cli
