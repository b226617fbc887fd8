#pragma once

#include <cstdint>
#include <vector>

#include "diff/report.h"
#include "trace/dump.h"
#include "trace/trace.h"

namespace tl {

/// Holds what a recording of module outputs says that its modules were built with (eps, stride, approximate) against
/// the arguments that the operations of a Trace were called with.
class ModuleConstants {
 public:
  /// `trace` must outlive it.
  explicit ModuleConstants(const Trace& trace);

  /// A constant of `module` that has the name of an argument, but the value of none that the operations of the call
  /// around `op` were given under it. Only modules of torch.nn are looked at, where both are known to mean the same;
  /// and only if the call is of that class. `reference` of what comes back is the module's value.
  std::vector<ArgumentDifference> differences(const DumpModule& module, OpId op) const;

 private:
  const Trace& trace_;
  std::vector<std::uint32_t> ops_;    ///< by module call, in order of execution
  std::vector<std::uint32_t> begin_;  ///< of a call in ops_; one more than there are calls
};

/// Constants that both modules have under one name, with values that differ. What only training reads (p, momentum) is
/// left out where `trains` is false.
std::vector<ArgumentDifference> constant_differences(const DumpModule& reference, const DumpModule& subject,
                                                     bool trains);

}  // namespace tl
