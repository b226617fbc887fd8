#include "engine/supervisor.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <new>
#include <optional>
#include <string>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"

namespace tl {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPoll = std::chrono::milliseconds(20);
/// How often the SIGKILL that follows a time limit waits another grace because the child is writing its partial trace.
constexpr int kMaxPostponements = 24;
/// Signals closer together than this are one request: whoever signals a process group reaches the child twice, directly
/// and through its parent.
constexpr std::int64_t kOneRequestNs = 500'000'000;
constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP};

/// What both processes share.
struct SharedState {
  CrashSlate slate;
  std::atomic<bool> time_limit{false};  ///< set by the parent before it asks the child to stop
};

// State of the child, reached from its signal handler.
std::atomic<int> stop_signal{0};
std::atomic<std::int64_t> stop_time_ns{0};
std::atomic<int> scopes{0};
SharedState* shared_state = nullptr;

extern "C" void on_stop_signal(int signal) {
  if (scopes.load() == 0) _exit(exit_code_of_signal(signal));
  const int reason = errno;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  errno = reason;
  const std::int64_t at = std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  int none = 0;
  if (stop_signal.compare_exchange_strong(none, signal)) {
    stop_time_ns = at;
  } else if (at - stop_time_ns.load() > kOneRequestNs) {
    _exit(exit_code_of_signal(signal));
  }
}

std::string signal_text(int signal) {
  const char* name = sigabbrev_np(signal);
  return "signal " + std::to_string(signal) + (name != nullptr ? " (SIG" + std::string(name) + ")" : "");
}

void print_error(ErrorCode code, const std::string& message, const std::string& hint) {
  write_error_lines("error[" + std::string(to_string(code)) + "]: " + message +
                    (hint.empty() ? "" : "\nhint: " + hint));
}

/// The slate was written by a process that may have died in the middle of it.
std::string slate_text(const char* field, std::size_t size) {
  return escape_for_terminal(std::string_view(field, strnlen(field, size)));
}

std::string place_of(const CrashSlate& slate) {
  const auto phase = slate_text(slate.phase, sizeof slate.phase);
  const auto where = slate_text(slate.where, sizeof slate.where);
  std::string text = phase.empty() ? " before it reported a phase" : " while " + phase;
  if (slate.events > 0) text += ", after " + std::to_string(slate.events) + " events";
  if (!where.empty()) text += ", at " + where;
  return text;
}

std::size_t resident_bytes(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/statm";
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return 0;
  unsigned long long total = 0;
  unsigned long long resident = 0;
  const int fields = std::fscanf(file, "%llu %llu", &total, &resident);
  std::fclose(file);
  return fields == 2 ? static_cast<std::size_t>(resident) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) : 0;
}

sigset_t supervised_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kForwarded) sigaddset(&set, signal);
  sigaddset(&set, SIGCHLD);
  return set;
}

/// Puts the signals into the hands of the supervisor for as long as it lives.
class SignalGuard {
 public:
  SignalGuard() {
    const sigset_t set = supervised_signals();
    sigprocmask(SIG_BLOCK, &set, &old_mask_);
    fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd_ < 0) {
      const int reason = errno;
      sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
      throw Error(ErrorCode::kInternal, "signalfd: " + std::string(std::strerror(reason)));
    }
  }
  ~SignalGuard() {
    close(fd_);
    sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
  }
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

  int fd() const { return fd_; }
  const sigset_t& old_mask() const { return old_mask_; }

 private:
  int fd_ = -1;
  sigset_t old_mask_;
};

[[noreturn]] void run_child(SharedState& shared, const sigset_t& mask, pid_t parent,
                            const std::function<int(CrashSlate&)>& child_main) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(static_cast<int>(ExitCode::kTerminated));  // it died before prctl
  shared_state = &shared;
  stop_signal = 0;
  stop_time_ns = 0;
  scopes = 0;
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  for (const int signal : kForwarded) {
    struct sigaction old {};
    sigaction(signal, nullptr, &old);
    if (old.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);  // nohup stays nohup
  }
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  const int code = child_main(shared.slate);
  std::fflush(nullptr);
  _exit(code);  // static destructors of LibTorch cost time and have nothing to say
}

/// The parent's side: waits for the child, enforces the limits and passes signals on.
class Watch {
 public:
  Watch(const SupervisorOptions& options, SharedState& shared, pid_t child, int signal_fd)
      : options_(options), shared_(shared), child_(child), signal_fd_(signal_fd) {
    if (options.timeout_seconds > 0) deadline_ = Clock::now() + to_duration(options.timeout_seconds);
  }

  int run() {
    for (;;) {
      int status = 0;
      const pid_t done = waitpid(child_, &status, WNOHANG);
      if (done == child_) return conclude(status);
      if (done < 0 && errno != EINTR)
        throw Error(ErrorCode::kInternal, "waitpid: " + std::string(std::strerror(errno)));
      pollfd entry{signal_fd_, POLLIN, 0};
      poll(&entry, 1, wait_ms());
      read_signals();
      enforce();
    }
  }

 private:
  static Clock::duration to_duration(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

  int wait_ms() const {
    if (options_.max_memory_bytes > 0) return static_cast<int>(kPoll.count());
    const auto next = kill_at_ ? kill_at_ : deadline_;
    if (!next) return -1;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*next - Clock::now()).count() + 1;
    return static_cast<int>(std::clamp<long long>(left, 0, 60'000));
  }

  void read_signals() {
    signalfd_siginfo info{};
    while (read(signal_fd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const auto signal = static_cast<int>(info.ssi_signo);
      // What a terminal sends reaches the child by itself, being in the same process group.
      if (signal != SIGCHLD && info.ssi_code != SI_KERNEL) kill(child_, signal);
    }
  }

  void enforce() {
    const auto now = Clock::now();
    if (kill_at_ && now >= *kill_at_ && finishing() && postponements_ < kMaxPostponements) {
      ++postponements_;
      kill_at_ = now + to_duration(options_.grace_seconds);
    }
    if (kill_at_ && now >= *kill_at_) {
      kill(child_, SIGKILL);
      killed_ = true;
      kill_at_.reset();
    }
    if (deadline_ && now >= *deadline_) {
      deadline_.reset();
      timed_out_ = true;
      place_at_limit_ = place_of(shared_.slate);  // what it was at, not what it does to keep the recording
      shared_.time_limit = true;
      kill(child_, SIGTERM);
      kill_at_ = now + to_duration(options_.grace_seconds);
    }
    if (options_.max_memory_bytes > 0 && !over_memory_) {
      if (const auto used = resident_bytes(child_); used > options_.max_memory_bytes) {
        over_memory_ = used;
        kill(child_, SIGKILL);
      }
    }
  }

  bool finishing() const {
    const std::string_view phase(shared_.slate.phase, strnlen(shared_.slate.phase, sizeof shared_.slate.phase));
    return phase == "postprocessing" || phase.starts_with("writing");
  }

  int conclude(int status) {
    const bool finished = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!finished && options_.tidy) options_.tidy(child_);
    if (timed_out_) return conclude_timeout(status);
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    const int signal = WTERMSIG(status);
    if (signal == SIGKILL && over_memory_) {
      print_error(ErrorCode::kMemoryLimit,
                  "the run took " + format_bytes(*over_memory_) + " of memory" + place_of(shared_.slate) +
                      ", more than the " + format_bytes(options_.max_memory_bytes) + " of --max-memory",
                  "raise --max-memory, or keep no activations by --save none");
      return static_cast<int>(exit_code_of(ErrorCode::kMemoryLimit));
    }
    const int code = exit_code_of_signal(signal);
    if (code != static_cast<int>(ExitCode::kBug)) return code;
    std::string message = "the engine died by " + signal_text(signal) + place_of(shared_.slate);
    std::string hint = "run again with -v; if it stays, the model or LibTorch itself may be at fault";
    if (signal == SIGKILL) {
      message += "; probably out of memory";
      hint = "set a limit by --max-memory, or keep no activations by --save none";
    }
    print_error(ErrorCode::kEngineCrashed, message, hint);
    return code;
  }

  int conclude_timeout(int status) {
    // The child may have come to its end just before it was asked to stop; one that kept its recording has said so.
    if (WIFEXITED(status) && WEXITSTATUS(status) != static_cast<int>(ExitCode::kTerminated)) return WEXITSTATUS(status);
    const std::string limit = "the time limit of " + format_duration(options_.timeout_seconds) + " passed";
    print_error(ErrorCode::kTimeLimit,
                limit + place_at_limit_ +
                    (killed_ ? "; the run did not stop when asked and was killed, nothing of it is kept" : ""),
                "raise --timeout");
    return static_cast<int>(ExitCode::kTimeLimit);
  }

  const SupervisorOptions& options_;
  SharedState& shared_;
  pid_t child_;
  int signal_fd_;
  std::optional<Clock::time_point> deadline_;
  std::optional<Clock::time_point> kill_at_;
  std::optional<std::size_t> over_memory_;
  std::string place_at_limit_;
  int postponements_ = 0;
  bool timed_out_ = false;
  bool killed_ = false;
};

/// Memory that both processes see.
class SharedMapping {
 public:
  SharedMapping() {
    memory_ = mmap(nullptr, sizeof(SharedState), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw Error(ErrorCode::kInternal, "mmap: " + std::string(std::strerror(errno)));
    state_ = new (memory_) SharedState;
  }
  ~SharedMapping() { munmap(memory_, sizeof(SharedState)); }
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;
  SharedState& state() { return *state_; }

 private:
  void* memory_ = nullptr;
  SharedState* state_ = nullptr;
};

}  // namespace

const char* Interrupted::what() const noexcept {
  if (by_time_limit) return "stopped by the time limit";
  return signal == SIGINT ? "interrupted by Ctrl-C" : "stopped by a signal";
}

InterruptScope::InterruptScope() { ++scopes; }
InterruptScope::~InterruptScope() { --scopes; }

std::optional<Interrupted> pending_interrupt() {
  const int signal = stop_signal.load(std::memory_order_relaxed);
  if (signal == 0) return std::nullopt;
  return Interrupted(signal, shared_state != nullptr && shared_state->time_limit.load());
}

void throw_if_interrupted() {
  if (stop_signal.load(std::memory_order_relaxed) != 0) throw *pending_interrupt();
}

int exit_code_of_signal(int signal) {
  switch (signal) {
    case SIGINT:
      return static_cast<int>(ExitCode::kInterrupted);
    case SIGTERM:
    case SIGHUP:
      return static_cast<int>(ExitCode::kTerminated);
    case SIGPIPE:
      return static_cast<int>(ExitCode::kClosedPipe);
    default:
      return static_cast<int>(ExitCode::kBug);
  }
}

void set_phase(CrashSlate& slate, const char* phase) {
  std::strncpy(slate.phase, phase, sizeof slate.phase - 1);
  slate.phase[sizeof slate.phase - 1] = '\0';
}

int supervise(const SupervisorOptions& options, const std::function<int(CrashSlate&)>& child_main) {
  SharedMapping shared;
  SignalGuard signals;
  std::fflush(nullptr);  // or both processes would write what is buffered
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw Error(ErrorCode::kInternal, "fork: " + std::string(std::strerror(errno)));
  if (child == 0) run_child(shared.state(), signals.old_mask(), parent, child_main);
  return Watch(options, shared.state(), child, signals.fd()).run();
}

}  // namespace tl
