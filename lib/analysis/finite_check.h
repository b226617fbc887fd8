#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "trace/trace.h"

namespace tl {

/// Says of every Op whether its value is finite, as far as the recording holds evidence: kOpNonFinite where some
/// element is NaN or an infinity, kOpFinite where every element was looked at and none is, neither where that is not
/// known. Evidence is the kept payload, read once; the counts of statistics; samples, which can only show that there is
/// one, unless they are all the elements. Values of integer types are finite; uninitialised memory is not looked at.
/// Sets run.health: nonfinite_checked; nonfinite with the label of every Op that is not finite while of none of its
/// parents this is known.
/// `seen` says of a row of payloads that is not at hand any more whether it held one; nullopt where it does not know.
void check_finite(Trace& trace, const std::function<std::optional<bool>(std::size_t row)>& seen = {});

/// How far the values of a recording were looked at.
struct CheckedCounts {
  std::int64_t values = 0;     ///< of any element type; uninitialised memory is none
  std::int64_t checkable = 0;  ///< of these, those whose element type has NaN or Inf
  std::int64_t checked = 0;    ///< of these, looked at in full, or in part and one was found
  std::int64_t sampled = 0;    ///< of these, looked at in part and none was found
  bool nothing_checked() const { return values == 0 || (checkable > 0 && checked == 0 && sampled == 0); }
};

/// As the flags that check_finite left say; a recording that it did not see counts as not looked at.
CheckedCounts count_checked(const Trace& trace);

}  // namespace tl
