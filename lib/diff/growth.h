#pragma once

#include <vector>

#include "diff/report.h"
#include "diff/side.h"

namespace tl {

/// Errors along rows of modules that differ only in a number (blocks.0 … blocks.29), of the values that their calls
/// return; the outermost numbering of each name, three modules or more. `site_of` as for find_causes.
std::vector<GrowthSeries> growth_of(const Side& graph, const std::vector<std::int64_t>& site_of,
                                    const std::vector<DiffSite>& sites);

}  // namespace tl
