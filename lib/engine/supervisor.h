#pragma once

#include <sys/types.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <optional>

#include "engine/engine.h"

namespace tl {

/// Limits that the parent holds the child to.
struct SupervisorOptions {
  double timeout_seconds = 0;        ///< 0: none. Then SIGTERM, after the grace SIGKILL
  std::size_t max_memory_bytes = 0;  ///< 0: none. Resident memory of the child, looked at every 20 ms
  double grace_seconds = 5;          ///< from SIGTERM to SIGKILL
  /// Called in the parent with the process id of a child that ended other than by exit code 0: removes what it may have
  /// left half-written.
  std::function<void(pid_t)> tidy = {};
};

/// Runs `child_main` in a forked child and returns the exit code of the command: what the child returned, or
/// 124 when the time limit passed (the child is asked to stop first, so that it keeps a partial trace; a child that
/// then returns 124 has printed the message itself),
/// 4 when it took more memory than allowed, 130, 143 when it ended by SIGINT, SIGTERM or SIGHUP, 141 by SIGPIPE,
/// 70 by any other signal. In the cases that the child can no longer explain the parent prints the message, with the
/// phase, the events so far and the place that the slate holds.
/// SIGINT, SIGTERM and SIGHUP sent to the parent are passed on. The child dies with the parent.
/// Call before anything is opened and while the process has one thread.
int supervise(const SupervisorOptions& options, const std::function<int(CrashSlate&)>& child_main);

/// Thrown by throw_if_interrupted; not an Error: the run ends as interrupted and what was recorded is kept.
class Interrupted : public std::exception {
 public:
  explicit Interrupted(int stop_signal, bool time_limit) : signal(stop_signal), by_time_limit(time_limit) {}
  const char* what() const noexcept override;

  int signal;          ///< SIGINT, SIGTERM or SIGHUP
  bool by_time_limit;  ///< the parent sent it because of --timeout
};

/// While one lives in the child, SIGINT, SIGTERM and SIGHUP set a flag that throw_if_interrupted reads; a second one,
/// half a second later or more, ends the process at once. Outside of it they end the process at once: there is nothing
/// to keep.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
};

/// What asked this child to stop, if anything did.
std::optional<Interrupted> pending_interrupt();

/// Throws Interrupted when a signal asked this child to stop.
void throw_if_interrupted();

/// Exit code of a command that ended by `signal`: 130, 143 or 141; 70 for others.
int exit_code_of_signal(int signal);

/// Writes the phase into the slate: a participle, as in "while loading the model". In
/// `postprocessing` and `writing …` the child is given more grace when the time limit passed.
void set_phase(CrashSlate& slate, const char* phase);

}  // namespace tl
