#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "diff/report.h"
#include "diff/side.h"

namespace tl {

/// Fills unmatched_inputs of every site that is out of tolerance: each operation that stands between the site and the
/// compared sites it reads, and has no partner, counts once. `site_of` as for find_causes, which must have run. After
/// ten million edges in all no further site is looked at, so that large recordings with little in common stay fast.
void count_unmatched_inputs(const Side& graph, const std::vector<std::int64_t>& site_of, std::vector<DiffSite>& sites);

/// Where a side is a Dump, an error may arise in operations that no entry of it stands for: what a forward computes
/// between two modules. Fills `between` and `interval` of every source that reads such operations: those outside of the
/// module call whose value the site is, unless they only pass on what they read. `call_of` as in Alignment.
void find_intervals(const Side& graph, const std::vector<std::int64_t>& site_of,
                    const std::vector<std::int32_t>& call_of, std::vector<DiffSite>& sites);

/// The operations of an interval in words; empty without one.
std::string interval_cause(const DiffSite& site);

}  // namespace tl
