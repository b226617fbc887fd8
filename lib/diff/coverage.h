#pragma once

#include <string>
#include <vector>

#include "diff/align.h"
#include "diff/report.h"
#include "diff/side.h"

namespace tl {

/// How a recording describes itself.
DiffSide describe(const Side& side, const std::string& name);

/// How much was matched and compared. Sites are operations. Without a partner, three kinds do not count: neutral ones
/// (is_neutral); those of finished runs on which neither an output nor a
/// written buffer hangs; and steps of what the other side does in one operation: of
/// a fused or split change whose one operation on the one side is paired with the last on the other and compared, those
/// whose values nothing else reads.
/// Where two traces are written in different operators, so that more of the module outputs than of the operations were
/// compared, the unit is module outputs; against a dump it is its entries.
DiffCoverage coverage_of(const Side& reference, const Side& subject, const Alignment& alignment,
                         const std::vector<DiffSite>& sites, const std::vector<DiffChange>& changes);

}  // namespace tl
