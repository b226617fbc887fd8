#include "engine/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

namespace tl {
namespace {

using testing::HasSubstr;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

struct Ended {
  int code = 0;
  std::string text;  ///< on stderr
};

Ended ended(const SupervisorOptions& options, const std::function<int(CrashSlate&)>& child) {
  CaptureStderr();
  Ended result;
  result.code = supervise(options, child);
  result.text = GetCapturedStderr();
  return result;
}

void sleep_ms(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

/// Runs until it is told to stop, as the engine does.
int run_until_stopped(CrashSlate& slate, int code) {
  const InterruptScope scope;
  set_phase(slate, "running the model");
  for (int i = 0; i < 3000; ++i) {
    slate.events = static_cast<std::uint64_t>(i) + 1;
    try {
      throw_if_interrupted();
    } catch (const Interrupted& stop) {
      std::fprintf(stderr, "kept: %s\n", stop.what());
      return code != 0 ? code : exit_code_of_signal(stop.signal);
    }
    sleep_ms(10);
  }
  return 0;
}

TEST(Supervisor, PassesTheExitCodeOn) {
  for (const int code : {0, 2, 5}) EXPECT_EQ(ended({}, [&](CrashSlate&) { return code; }).code, code);
}

TEST(Supervisor, TheChildsOutputIsWritten) {
  EXPECT_EQ(ended({},
                  [](CrashSlate&) {
                    std::fputs("from the child\n", stderr);
                    return 0;
                  })
                .text,
            "from the child\n");
}

TEST(Supervisor, ACrashIsReportedWithPhaseEventsAndPlace) {
  const auto result = ended({}, [](CrashSlate& slate) {
    signal(SIGSEGV, SIG_DFL);  // sanitizers have a handler of their own
    set_phase(slate, "running the model");
    slate.events = 1234;
    std::strcpy(slate.where, "aten::relu at m.py:7\x1b[2J");
    raise(SIGSEGV);
    return 0;
  });
  EXPECT_EQ(result.code, 70);
  EXPECT_THAT(result.text,
              HasSubstr("error[engine_crashed]: the engine died by signal 11 (SIGSEGV) while running the model, "
                        "after 1234 events, at aten::relu at m.py:7\\x1b[2J\n"));
  EXPECT_THAT(result.text, HasSubstr("hint: "));
}

TEST(Supervisor, AForeignSigkillIsProbablyTheOutOfMemoryKiller) {
  const auto result = ended({}, [](CrashSlate&) {
    raise(SIGKILL);
    return 0;
  });
  EXPECT_EQ(result.code, 70);
  EXPECT_THAT(result.text, HasSubstr("probably out of memory"));
}

TEST(Supervisor, AClosedPipeIsSilent) {
  const auto result = ended({}, [](CrashSlate&) {
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
    return 0;
  });
  EXPECT_EQ(result.code, 141);
  EXPECT_EQ(result.text, "");
}

TEST(Supervisor, TheTimeLimitLetsTheChildKeepWhatItHas) {
  const auto result = ended({.timeout_seconds = 0.2}, [](CrashSlate& slate) { return run_until_stopped(slate, 0); });
  EXPECT_EQ(result.code, 124);
  EXPECT_THAT(result.text, HasSubstr("kept: stopped by the time limit\n"));
  EXPECT_THAT(result.text,
              HasSubstr("error[time_limit]: the time limit of 200 ms passed while running the model, after "));
}

TEST(Supervisor, AChildThatDoesNotStopIsKilledAfterTheGrace) {
  const auto result = ended({.timeout_seconds = 0.1, .grace_seconds = 0.2}, [](CrashSlate&) {
    const InterruptScope scope;
    for (int i = 0; i < 200; ++i) sleep_ms(100);
    return 0;
  });
  EXPECT_EQ(result.code, 124);
  EXPECT_THAT(result.text, HasSubstr("the run did not stop when asked and was killed, nothing of it is kept"));
}

TEST(Supervisor, AChildThatWritesItsPartialTraceIsGivenTime) {
  const auto result = ended({.timeout_seconds = 0.1, .grace_seconds = 0.1}, [](CrashSlate& slate) {
    const InterruptScope scope;
    set_phase(slate, "writing the recording");
    sleep_ms(600);
    std::fputs("written\n", stderr);
    return 143;
  });
  EXPECT_EQ(result.code, 124);
  EXPECT_THAT(result.text, HasSubstr("written\n"));
}

TEST(Supervisor, AChildThatKeptItsRecordingHasSaidSoItself) {
  const auto result = ended({.timeout_seconds = 0.2}, [](CrashSlate& slate) { return run_until_stopped(slate, 124); });
  EXPECT_EQ(result.code, 124);
  EXPECT_EQ(result.text, "kept: stopped by the time limit\n");
}

TEST(Supervisor, ThePlaceIsWhereTheLimitPassed) {
  const auto result = ended({.timeout_seconds = 0.2}, [](CrashSlate& slate) {
    const int code = run_until_stopped(slate, 0);
    set_phase(slate, "writing the recording");
    return code;
  });
  EXPECT_THAT(result.text, HasSubstr("passed while running the model, after "));
}

TEST(Supervisor, TidiesUpAfterAChildThatDidNotEndWell) {
  for (const auto& [code, expected] : {std::pair(0, false), std::pair(5, true)}) {
    pid_t tidied = 0;
    SupervisorOptions options;
    options.tidy = [&](pid_t child) { tidied = child; };
    EXPECT_EQ(ended(options, [code = code](CrashSlate&) { return code; }).code, code);
    EXPECT_EQ(tidied != 0, expected);
  }
}

TEST(Supervisor, AChildThatFinishedInTimeKeepsItsCode) {
  EXPECT_EQ(ended({.timeout_seconds = 30}, [](CrashSlate&) { return 5; }).code, 5);
}

TEST(Supervisor, TooMuchMemory) {
  const auto result = ended({.max_memory_bytes = std::size_t{200} << 20}, [](CrashSlate& slate) {
    set_phase(slate, "running the model");
    std::vector<std::vector<char>> hoard;
    for (int i = 0; i < 100; ++i) {
      hoard.emplace_back(std::size_t{20} << 20, 'x');
      sleep_ms(30);
    }
    return 0;
  });
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.text, HasSubstr("error[memory_limit]: the run took "));
  EXPECT_THAT(result.text, HasSubstr("more than the 200 MB of --max-memory"));
}

/// Runs a supervisor in a process of its own, sends it a signal and returns its exit code.
int code_after_signal(int signal_number, bool has_scope) {
  const pid_t supervisor = fork();
  if (supervisor == 0) {
    std::freopen("/dev/null", "w", stderr);
    _exit(supervise({}, [&](CrashSlate& slate) {
      if (has_scope) return run_until_stopped(slate, 0);
      for (int i = 0; i < 300; ++i) sleep_ms(100);
      return 0;
    }));
  }
  sleep_ms(300);
  kill(supervisor, signal_number);
  int status = 0;
  waitpid(supervisor, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(Supervisor, SignalsReachTheChild) {
  for (const bool has_scope : {false, true}) {
    EXPECT_EQ(code_after_signal(SIGINT, has_scope), 130);
    EXPECT_EQ(code_after_signal(SIGTERM, has_scope), 143);
    EXPECT_EQ(code_after_signal(SIGHUP, has_scope), 143);
  }
}

/// Exit code of a supervisor whose child keeps what it has for a second after the first signal; `gap_ms` later a second
/// signal comes.
int code_after_two_signals(int gap_ms) {
  const pid_t supervisor = fork();
  if (supervisor == 0) {
    std::freopen("/dev/null", "w", stderr);
    _exit(supervise({}, [](CrashSlate&) {
      const InterruptScope scope;
      while (!pending_interrupt()) sleep_ms(10);
      sleep_ms(1500);
      return 5;  // it came to its end
    }));
  }
  sleep_ms(300);
  kill(supervisor, SIGINT);
  sleep_ms(gap_ms);
  kill(supervisor, SIGINT);
  int status = 0;
  waitpid(supervisor, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(Supervisor, TwoSignalsAtOnceAreOneRequest) { EXPECT_EQ(code_after_two_signals(20), 5); }

TEST(Supervisor, ASecondRequestEndsTheChildAtOnce) { EXPECT_EQ(code_after_two_signals(800), 130); }

TEST(Supervisor, TheChildDiesWithTheParent) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t supervisor = fork();
  if (supervisor == 0) {
    close(ends[0]);
    _exit(supervise({}, [&](CrashSlate&) {
      const char byte = 'c';
      if (write(ends[1], &byte, 1) != 1) return 1;
      for (int i = 0; i < 300; ++i) sleep_ms(100);
      return 0;
    }));
  }
  close(ends[1]);
  char byte = 0;
  ASSERT_EQ(read(ends[0], &byte, 1), 1);  // the child runs
  kill(supervisor, SIGKILL);
  waitpid(supervisor, nullptr, 0);
  EXPECT_EQ(read(ends[0], &byte, 1), 0);  // its end of the pipe closes when it is gone
  close(ends[0]);
}

TEST(Supervisor, SignalsAreTheCallersAgainAfterwards) {
  sigset_t before;
  sigset_t after;
  sigprocmask(SIG_BLOCK, nullptr, &before);
  ended({}, [](CrashSlate&) { return 0; });
  sigprocmask(SIG_BLOCK, nullptr, &after);
  EXPECT_EQ(sigismember(&before, SIGINT), sigismember(&after, SIGINT));
}

}  // namespace
}  // namespace tl
