#pragma once

#include <chrono>
#include <cstddef>

#include "command.h"
#include "engine/engine.h"

namespace tl::cli {

/// Tells on stderr that the run goes on: a status line on a terminal, elsewhere (or with CI set, or TERM=dumb) a line
/// every 10 s. Silent with -q. Also keeps the count of events in the slate.
class Progress {
 public:
  Progress(Context& context, CrashSlate& slate);
  /// Called while the model runs, with the events so far. Throws Interrupted when the run shall stop.
  void operator()(std::size_t events);
  void finish();

 private:
  using Clock = std::chrono::steady_clock;

  Context& context_;
  CrashSlate& slate_;
  bool on_terminal_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_;
};

}  // namespace tl::cli
