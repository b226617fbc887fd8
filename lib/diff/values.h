#pragma once

#include <cstdint>

#include "diff/report.h"
#include "diff/side.h"

namespace tl {

struct ValueOptions {
  double rtol = 0;  ///< of the count of mismatches; CompareOptions
  double atol = 0;
  bool equal_nan = true;
  bool equal_inf = true;
};

/// Compares the values of a pair and fills evidence, metrics or statistics, the worst element and `error` of `site`.
/// Leaves evidence at kShape where a side has no value. A pair with different counts of elements has infinite error.
/// What cannot be read (a damaged tensors file) is thrown as Error.
void compare_values(const Side& reference, std::size_t reference_row, const Side& subject, std::size_t subject_row,
                    const ValueOptions& options, DiffSite& site);

/// What is judged of a comparison: rel L2, ‖s − r‖ / max(‖r‖, ‖s‖), for numbers with a fraction; the share of unequal
/// elements for integers and bools; infinite where NaN or infinities disagree.
double error_of(const TensorComparison& metrics, DType reference, DType subject);

}  // namespace tl
