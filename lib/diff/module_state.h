#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "diff/report.h"
#include "diff/side.h"

namespace tl {

/// A parameter or buffer that both sides have under one name with other contents, element type or shape.
struct StateDifference {
  std::string reference;       ///< its address
  std::string subject;         ///< likewise
  std::string reference_text;  ///< the address with the first digits of the digest, or with element type and shape
  std::string subject_text;
};

/// What is known of the state of modules where a side is a Dump, which has no operations that read it.
struct ModuleState {
  std::vector<StateDifference> differences;  ///< in the order of the reference
  Precondition buffers;                      ///< by digest; those of a Trace are digested where it has their values
};
ModuleState compare_module_state(const Side& reference, const Side& subject, const Renamer& rename);

/// Names the differences as arguments of the sites that are outputs of the modules that hold them.
void name_module_state(const ModuleState& state, const Side& reference, const Side& subject,
                       std::vector<DiffSite>& sites);

}  // namespace tl
