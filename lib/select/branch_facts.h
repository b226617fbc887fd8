#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/trace.h"

namespace tl {

/// What fields of conditionals and Ops are computed from.
struct BranchFacts {
  std::vector<std::string> labels;       ///< of conditionals
  std::vector<std::int32_t> first_bool;  ///< row of bools that asks an Op first, -1 for none; a row an Op
};
BranchFacts make_branch_facts(const Trace& trace);

}  // namespace tl
