#include "crash_slate.h"

#include <signal.h>

#include <atomic>
#include <cstddef>

#include "executor/executor.h"

namespace tl::lt {
namespace {

std::atomic<CrashSlate*> slate_of_process{nullptr};

void copy_text(char* to, std::size_t size, const char* from) {
  std::size_t i = 0;
  for (; i + 1 < size && from[i] != '\0'; ++i) to[i] = from[i];
  to[i] = '\0';
}

/// Writes down where the process is and dies by the signal. Touches plain memory only.
void on_fatal_signal(int number) {
  if (auto* slate = slate_of_process.load(); slate != nullptr) {
    if (const auto* instruction = Executor::current_of_process(); instruction != nullptr) {
      copy_text(slate->where, sizeof slate->where, instruction->where.c_str());
    }
  }
  ::signal(number, SIG_DFL);
  ::raise(number);
}

void catch_fatal_signals() {
  static char stack[1 << 16];
  stack_t alternative{};
  alternative.ss_sp = stack;
  alternative.ss_size = sizeof stack;
  ::sigaltstack(&alternative, nullptr);
  struct sigaction action {};
  action.sa_handler = on_fatal_signal;
  action.sa_flags = SA_ONSTACK;
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) ::sigaction(number, &action, nullptr);
}

}  // namespace

CrashSlate* crash_slate() { return slate_of_process.load(); }

void set_crash_slate(CrashSlate* slate) {
  slate_of_process.store(slate);
  if (slate != nullptr) catch_fatal_signals();
}

void set_phase(const char* text) {
  if (auto* slate = slate_of_process.load(); slate != nullptr) copy_text(slate->phase, sizeof slate->phase, text);
}

}  // namespace tl::lt
