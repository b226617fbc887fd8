#pragma once

#include <string>
#include <vector>

#include "diff/align.h"
#include "diff/report.h"
#include "diff/side.h"

namespace tl {

/// How a recording describes itself.
DiffSide describe(const Side& side, const std::string& name);

/// How much was matched and compared. Sites are operations; neutral ones (is_neutral) without a partner do not count.
/// Where two traces are written in different operators, so that more of the module outputs than of the operations were
/// compared, the unit is module outputs; against a dump it is its entries.
DiffCoverage coverage_of(const Side& reference, const Side& subject, const Alignment& alignment,
                         const std::vector<DiffSite>& sites);

}  // namespace tl
