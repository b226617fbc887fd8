#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <random>
#include <thread>

#include "core/error.h"
#include "core/output_file.h"
#include "sample_trace.h"
#include "support/temp_directory.h"
#include "tlspec/reader.h"
#include "tlspec/writer.h"

namespace tl {
namespace {

namespace fs = std::filesystem;

/// The seed of the recording at `path`, read with every check; -1 if there is none.
std::int64_t seed_at(const fs::path& path) {
  if (!fs::exists(path)) return -1;
  const auto trace = read_tlspec(path, {.verify_digests = true});
  return trace.run.seed;
}

ErrorCode code_of_writing(const fs::path& path, const WriteOptions& options = {}) {
  try {
    write_tlspec(test::make_sample_trace(), path, options);
  } catch (const Error& error) {
    return error.code;
  }
  ADD_FAILURE() << "nothing thrown";
  return ErrorCode::kInternal;
}

/// A file system of its own, mounted for as long as the object lives.
class Mount {
 public:
  Mount(const fs::path& path, unsigned long flags, const char* options) : path_(path) {
    fs::create_directory(path_);
    mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", flags, options) == 0;
  }
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;
  ~Mount() {
    if (mounted_) ::umount(path_.c_str());
  }
  bool mounted() const { return mounted_; }

 private:
  fs::path path_;
  bool mounted_ = false;
};

/// Writes in a child that is killed after `delay`; false if the child was done before.
bool write_and_kill(const Trace& trace, const fs::path& path, std::chrono::microseconds delay) {
  const pid_t child = ::fork();
  if (child == 0) {
    write_tlspec(trace, path, {.force = true, .shard_bytes = 64});
    ::_exit(0);
  }
  std::this_thread::sleep_for(delay);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status);
}

TEST(TlspecWriteFailure, KilledAtAnyMomentThereIsOldOrNewOrNone) {
  const TempDirectory dir;
  const auto path = dir / "run.tlspec";
  const auto start = std::chrono::steady_clock::now();
  write_tlspec(test::make_sample_trace(0), path, {.shard_bytes = 64});
  const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start);
  fs::remove_all(path);
  std::mt19937 random(50);
  int killed = 0;
  int replaced = 0;
  std::int64_t old = -1;
  for (std::int64_t round = 1; round <= 50; ++round) {
    const auto trace = test::make_sample_trace(round);
    const std::chrono::microseconds delay(static_cast<std::int64_t>(random()) % (whole.count() * 5 / 4 + 1));
    killed += write_and_kill(trace, path, delay) ? 1 : 0;
    const auto now = seed_at(path);
    EXPECT_TRUE(now == old || now == round) << now << " is neither " << old << " nor " << round;
    replaced += now == round ? 1 : 0;
    if (round % 10 == 0) fs::remove_all(path);
    old = seed_at(path);
  }
  EXPECT_GT(killed, 5);
  RecordProperty("killed", killed);
  RecordProperty("replaced", replaced);
  write_tlspec(test::make_sample_trace(99), path, {.force = true});
  EXPECT_EQ(seed_at(path), 99);
  EXPECT_EQ(count_entries(dir.path()), 1U) << "leftovers of killed writers were not swept";
}

TEST(TlspecWriteFailure, AnyFailingOperationLeavesTheOldRecording) {
  const TempDirectory dir;
  const auto path = dir / "run.tlspec";
  write_tlspec(test::make_sample_trace(1), path);
  const auto trace = test::make_sample_trace(2);
  int failures = 0;
  for (int nth = 1; nth < 1000; ++nth) {
    set_write_fault(nth);
    try {
      write_tlspec(trace, path, {.force = true});
      set_write_fault(0);
      break;
    } catch (const Error& error) {
      EXPECT_EQ(error.code, ErrorCode::kOutputFailed) << error.message;
      EXPECT_THAT(error.message, testing::HasSubstr("No space left on device"));
      ++failures;
    }
    set_write_fault(0);
    ASSERT_EQ(seed_at(path), 1) << nth;
    ASSERT_EQ(count_entries(dir.path()), 1U) << nth;
  }
  EXPECT_GT(failures, 10);
  EXPECT_EQ(seed_at(path), 2);
}

TEST(TlspecWriteFailure, AFullDiskLeavesNothing) {
  const TempDirectory dir;
  const Mount disk(dir / "disk", 0, "size=16k");
  if (!disk.mounted()) GTEST_SKIP() << "a small tmpfs cannot be mounted here: " << std::strerror(errno);
  EXPECT_EQ(code_of_writing(dir.path() / "disk/run.tlspec"), ErrorCode::kOutputFailed);
  EXPECT_EQ(count_entries(dir / "disk"), 0U);
}

TEST(TlspecWriteFailure, AReadOnlyDirectoryIsNamed) {
  const TempDirectory dir;
  const Mount disk(dir / "disk", MS_RDONLY, "");
  if (!disk.mounted()) {
    if (::geteuid() == 0) GTEST_SKIP() << "root can write everywhere and no tmpfs can be mounted here";
    fs::permissions(dir / "disk", fs::perms::owner_read | fs::perms::owner_exec);
  }
  EXPECT_EQ(code_of_writing(dir.path() / "disk/run.tlspec"), ErrorCode::kOutputFailed);
  EXPECT_EQ(count_entries(dir / "disk"), 0U);
}

TEST(TlspecWriteFailure, ExistingRecordingsAreReplacedOnlyByForce) {
  const TempDirectory dir;
  const auto path = dir / "run.tlspec";
  write_tlspec(test::make_sample_trace(1), path);
  EXPECT_EQ(code_of_writing(path), ErrorCode::kOutputExists);
  EXPECT_EQ(seed_at(path), 1);
  write_tlspec(test::make_sample_trace(2), path, {.force = true});
  EXPECT_EQ(seed_at(path), 2);
  fs::create_directory(dir / "other");
  std::ofstream(dir / "other" / "mine.txt") << "x";
  EXPECT_EQ(code_of_writing(dir / "other", {.force = true}), ErrorCode::kOutputExists);
  EXPECT_TRUE(fs::exists(dir / "other" / "mine.txt"));
}

}  // namespace
}  // namespace tl
