#include "core/atomic_dir.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <random>
#include <string>
#include <thread>

#include "core/error.h"
#include "support/temp_directory.h"

namespace tl {
namespace {

namespace fs = std::filesystem;

constexpr int kFiles = 4;

void write_generation(const fs::path& target, const std::string& generation, bool force) {
  AtomicDirectoryWriter writer(target, force);
  write_file(writer.temp() / "manifest.json", generation);
  fs::create_directory(writer.temp() / "sub");
  for (int i = 0; i < kFiles; ++i) write_file(writer.temp() / "sub" / std::to_string(i), generation);
  writer.commit();
}

void expect_complete(const fs::path& target, const std::string& generation) {
  EXPECT_EQ(read_text(target / "manifest.json"), generation);
  for (int i = 0; i < kFiles; ++i) EXPECT_EQ(read_text(target / "sub" / std::to_string(i)), generation);
}

ErrorCode code_of(const fs::path& target, bool force) {
  try {
    write_generation(target, "new", force);
  } catch (const Error& error) {
    return error.code;
  }
  ADD_FAILURE() << "nothing thrown";
  return ErrorCode::kInternal;
}

TEST(AtomicDirectory, AppearsWithCommitAndLeavesNothingElse) {
  const TempDirectory dir;
  write_generation(dir / "run.tlspec", "one", false);
  expect_complete(dir / "run.tlspec", "one");
  EXPECT_EQ(count_entries(dir.path()), 1U);
}

TEST(AtomicDirectory, WithoutCommitNothingStays) {
  const TempDirectory dir;
  {
    const AtomicDirectoryWriter writer(dir / "run.tlspec", false);
    write_file(writer.temp() / "a", std::string_view("x"));
    EXPECT_FALSE(fs::exists(dir / "run.tlspec"));
  }
  EXPECT_EQ(count_entries(dir.path()), 0U);
}

TEST(AtomicDirectory, ATrailingSlashIsTheSameTarget) {
  const TempDirectory dir;
  write_generation(dir / "run.tlspec/", "one", false);
  expect_complete(dir / "run.tlspec", "one");
}

TEST(AtomicDirectory, AnExistingTargetNeedsForce) {
  const TempDirectory dir;
  write_generation(dir / "run.tlspec", "one", false);
  EXPECT_EQ(code_of(dir / "run.tlspec", false), ErrorCode::kOutputExists);
  expect_complete(dir / "run.tlspec", "one");
  write_generation(dir / "run.tlspec", "two", true);
  expect_complete(dir / "run.tlspec", "two");
  EXPECT_EQ(count_entries(dir.path()), 1U);
}

TEST(AtomicDirectory, ForceReplacesRecordingsOnly) {
  const TempDirectory dir;
  write_file(dir / "model.pt", std::string_view("weights"));
  EXPECT_EQ(code_of(dir / "model.pt", true), ErrorCode::kOutputExists);
  EXPECT_EQ(read_text(dir / "model.pt"), "weights");
  fs::create_directory(dir / "home");
  write_file(dir / "home" / "letter", std::string_view("dear"));
  EXPECT_EQ(code_of(dir / "home", true), ErrorCode::kOutputExists);
  EXPECT_EQ(read_text(dir / "home" / "letter"), "dear");
  fs::create_directory(dir / "empty");
  write_generation(dir / "empty", "one", true);
  expect_complete(dir / "empty", "one");
}

TEST(AtomicDirectory, ATargetThatAppearsMeanwhileIsKept) {
  const TempDirectory dir;
  AtomicDirectoryWriter writer(dir / "run.tlspec", false);
  write_generation(dir / "run.tlspec", "other", false);
  EXPECT_THROW(writer.commit(), Error);
  expect_complete(dir / "run.tlspec", "other");
}

TEST(AtomicDirectory, AMissingParentIsReportedWithTheNameGiven) {
  const TempDirectory dir;
  try {
    const AtomicDirectoryWriter writer(dir / "none" / "run.tlspec", false);
    FAIL() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kOutputFailed);
    EXPECT_EQ(error.message, "cannot write " + (dir / "none" / "run.tlspec").string() + ": No such file or directory");
  }
}

TEST(AtomicDirectory, EveryFaultLeavesTheOldOneAndNothingElse) {
  const TempDirectory dir;
  write_generation(dir / "run.tlspec", "old", false);
  int faults = 0;
  for (bool failed = true; failed; ++faults) {
    set_write_fault(faults + 1);
    failed = false;
    try {
      write_generation(dir / "run.tlspec", "new", true);
    } catch (const Error& error) {
      failed = true;
      EXPECT_EQ(error.code, ErrorCode::kOutputFailed);
      expect_complete(dir / "run.tlspec", "old");
    }
    EXPECT_EQ(count_entries(dir.path()), 1U) << "fault " << faults + 1;
  }
  set_write_fault(0);
  expect_complete(dir / "run.tlspec", "new");
  // mkdir; open, write, fsync of 5 files; fsync of 5 files and 2 directories; rename
  EXPECT_EQ(faults - 1, 1 + 3 * 5 + 7 + 1);
}

TEST(AtomicDirectory, LeftoversOfDeadProcessesAreSwept) {
  const TempDirectory dir;
  const pid_t child = ::fork();
  if (child == 0) {
    const AtomicDirectoryWriter writer(dir / "run.tlspec", false);
    ::_exit(writer.temp().empty() ? 1 : 0);  // like a SIGKILL: no destructor
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(count_entries(dir.path()), 1U);
  fs::create_directory(dir / ".other.tlspec.tmp-1-abc");
  const AtomicDirectoryWriter living(dir / "run.tlspec", false);
  write_generation(dir / "run.tlspec", "one", false);
  EXPECT_TRUE(fs::exists(living.temp())) << "that of a living process was swept";
  EXPECT_EQ(count_entries(dir.path()), 3U);  // run.tlspec, the living one, the one of another name
}

TEST(AtomicDirectory, WhatOneProcessLeftIsRemovedByItsParent) {
  const TempDirectory dir;
  const auto make = [&](const std::string& name) {
    fs::create_directory(dir.path() / name);
    write_file(dir.path() / name / "a", std::string_view("x"));
  };
  make(".run.tlspec.tmp-123-abcdefgh");
  write_file(dir / ".run.tlspec.tmp-123-file", std::string_view("x"));
  make(".run.tlspec.tmp-1234-abcdefgh");
  make(".other.tlspec.tmp-123-abcdefgh");
  make("run.tlspec");
  remove_temporaries_of(dir / "run.tlspec", 123);
  EXPECT_FALSE(fs::exists(dir / ".run.tlspec.tmp-123-abcdefgh"));
  EXPECT_FALSE(fs::exists(dir / ".run.tlspec.tmp-123-file"));
  EXPECT_EQ(count_entries(dir.path()), 3U);
  remove_temporaries_of(dir.path() / "absent" / "run.tlspec", 123);  // nothing to do is no error
}

TEST(AtomicDirectory, KilledAtAnyMomentThereIsTheOldOrTheNew) {
  const TempDirectory dir;
  const fs::path target = dir / "run.tlspec";
  const auto start = std::chrono::steady_clock::now();
  write_generation(target, "0", false);
  const auto one_write =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start);
  const auto longest = static_cast<unsigned>(4 * one_write.count() + 5000);
  std::mt19937 random(20240229);
  int current = 0;
  for (int round = 1; round <= 50; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int i = round * 1000;; ++i) write_generation(target, std::to_string(i), true);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % longest));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "the child ended by itself: " << status;
    const std::string generation = read_text(target / "manifest.json");
    expect_complete(target, generation);
    EXPECT_GE(std::stoi(generation), current);
    current = std::stoi(generation);
  }
  EXPECT_GT(current, 0) << "no child lived long enough to write";
  write_generation(target, "last", true);
  EXPECT_EQ(count_entries(dir.path()), 1U);
}

}  // namespace
}  // namespace tl
