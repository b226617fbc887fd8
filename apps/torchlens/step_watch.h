#pragma once

#include <memory>
#include <span>
#include <vector>

#include "output.h"
#include "postprocess/observers.h"
#include "trace_options.h"

namespace tl::cli {

/// Throws Error(kUsage) for a step that does not exist; so before anything runs.
void check_step_options(const StepOptions& options);

/// The observers that the options ask for. In debug builds every step is also held to the columns it declares.
class StepWatch {
 public:
  StepWatch(const StepOptions& options, Output& out, Output& err);

  std::span<StepObserver* const> observers() const { return observers_; }
  /// Prints the times, and the trace itself where the steps were stopped early.
  void finish(const Trace& trace);

 private:
  void add(std::unique_ptr<StepObserver> observer);

  const StepOptions& options_;
  Output& out_;
  Output& err_;
  StepTimer timer_;
  std::vector<std::unique_ptr<StepObserver>> owned_;
  std::vector<StepObserver*> observers_;
};

}  // namespace tl::cli
