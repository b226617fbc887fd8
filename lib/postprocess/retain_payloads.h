#pragma once

#include <vector>

#include "trace/trace.h"

namespace tl {

/// Lets go of the payloads and samples of Ops for which `keep` (by row of ops) is false, in a finished trace: rows of
/// payloads that no Op refers to any more are dropped, those that stay keep their order. Linear in Ops and payloads.
void retain_payloads(Trace& trace, const std::vector<bool>& keep);

}  // namespace tl
