#pragma once

#include "cost/call_facts.h"
#include "cost/counts.h"
#include "ops/flop_rules.h"

namespace tl {

/// Floating-point operations of one call, a fused multiply-add counted as two, and its multiply-adds:
/// flops = 2 * macs + the rest. Unknown where the operator has no formula, or where the recording lacks what it needs.
struct FlopCount {
  Count flops;
  Count macs;
};

/// Counts for the call that `facts` has been made to visit. The formulas and their sources stand in docs/cost.md.
FlopCount count_flops(const FlopRule& rule, const CallFacts& facts);

}  // namespace tl
