#pragma once

#include <cstdint>
#include <vector>

#include "trace/trace.h"

namespace tl {

/// Parameters, each distinct tensor counted once, however many addresses it has. Constants are not counted.
struct ParamCount {
  std::int64_t elements = 0;
  std::int64_t trainable = 0;  ///< elements that require gradients in the file
  std::int64_t bytes = 0;
  std::int64_t tensors = 0;
};

/// Of the whole model.
struct ParamTotals {
  ParamCount all;
  ParamCount used;           ///< of those that some Op read
  std::int64_t tied = 0;     ///< tensors that several modules have
  std::int64_t buffers = 0;  ///< registered buffers
  std::int64_t buffer_bytes = 0;
};
ParamTotals param_totals(const Trace& trace);

/// Of one module.
struct ModuleParams {
  ParamCount own;        ///< of the module itself
  ParamCount inclusive;  ///< and of all below it; a tensor tied between two parts of it counts once
  bool shares = false;   ///< some of them stand in a module that is not below this one, too
};

/// A row a module. A tied tensor counts in every module that has it, so that rows may add up to more than the total.
std::vector<ModuleParams> module_params(const Trace& trace);

}  // namespace tl
