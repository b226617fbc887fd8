#pragma once

#include <string>
#include <vector>

#include "trace/trace.h"

namespace tl {

/// One broken invariant: a defect of whoever made the trace.
struct Finding {
  std::string check;    ///< stable name of the family: columns, edges, slots, passes, labels, distances, modules …
  std::string message;  ///< which row, and both numbers that disagree
};

/// Checks the internal consistency of a trace and returns what is broken, at most 20 findings a family; empty when
/// sound. Safe on any columns: ranges come first, and nothing is followed when one is out of range. Tables that a step
/// has not built yet (no layers, no labels, no distances) are passed over unless the trace is finished. O(rows), plus a
/// sort of the Layers.
std::vector<Finding> check_invariants(const Trace& trace);

}  // namespace tl
