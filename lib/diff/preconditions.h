#pragma once

#include <vector>

#include "diff/align.h"
#include "diff/report.h"
#include "diff/side.h"

namespace tl {

/// What must be equal before numbers mean anything: inputs (by value), weights (by digest), buffers (by value), mode,
/// seed (where random numbers were drawn), branches taken. `weights` tells of parameters how they differ. With `values`
/// false nothing but records is looked at.
std::vector<Precondition> check_preconditions(const Side& reference, const Side& subject, const Alignment& alignment,
                                              const Renamer& rename, const std::vector<WeightDifference>& weights,
                                              bool values);

/// In words why two inputs differ: element types, layouts (NCHW against NHWC), ranges (0 .. 255 against 0 .. 1). Both
/// values may be null.
std::string input_hint(const Side& reference, std::size_t reference_row, const Side& subject, std::size_t subject_row);

}  // namespace tl
