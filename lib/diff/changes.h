#pragma once

#include <cstdint>
#include <vector>

#include "diff/align.h"
#include "diff/report.h"
#include "diff/side.h"

namespace tl {

/// What was put in, taken out, fused, split, rewritten, moved, quantised or exchanged, in order of the subject. Rows
/// without a partner belong to the first matched row that reads them. `site_of_subject` gives the row of the report's
/// sites for a row of the subject. For dumps: entries without a partner.
std::vector<DiffChange> find_changes(const Side& reference, const Side& subject, const Alignment& alignment,
                                     const std::vector<std::int64_t>& site_of_subject);

/// True if the change may alter what the model returns: it holds an operation that matters (Side::matters) and is not
/// neutral (is_neutral).
bool is_material(const DiffChange& change, const Side& reference, const Side& subject);

}  // namespace tl
