#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "core/file_descriptor.h"
#include "core/output_file.h"

namespace tl {

/// Writes a directory so that at any instant, also after a SIGKILL, there is the old one, the complete new one, or
/// (where no old one was) none: the content goes to a temporary sibling, which commit() moves into place.
class AtomicDirectoryWriter {
 public:
  /// Makes the temporary sibling `.<name>.tmp-<pid>-<random>` and removes those that dead processes left for the same
  /// target. Throws Error(kOutputExists) if the target exists and `force` is not set, or if it exists and does not look
  /// like an earlier output: a directory that is empty or holds the file `marker`. Throws Error(kOutputFailed) where
  /// nothing can be written.
  AtomicDirectoryWriter(std::filesystem::path target, bool force, std::string marker = "manifest.json");
  AtomicDirectoryWriter(const AtomicDirectoryWriter&) = delete;
  AtomicDirectoryWriter& operator=(const AtomicDirectoryWriter&) = delete;
  /// Removes the temporary directory if it was not committed.
  ~AtomicDirectoryWriter();

  /// The directory to write into.
  const std::filesystem::path& temp() const { return temp_; }

  /// Waits until all files are on the disk and moves the directory into place; with `force` the old one is exchanged
  /// for it and removed. All files in it must be closed. Throws Error(kOutputExists) if a target appeared meanwhile,
  /// Error(kOutputFailed) otherwise; the target is then as before. To be called once.
  void commit();

 private:
  void refuse_existing() const;
  void make_temp();
  void sweep_leftovers() const;

  std::filesystem::path shown_;   ///< the target as the user gave it
  std::filesystem::path target_;  ///< absolute
  std::filesystem::path temp_;
  std::string marker_;
  FileDescriptor lock_;  ///< held while the temporary directory is in use, so that nobody sweeps it
  bool force_;
  bool committed_ = false;
};

/// Removes what process `pid`, which is gone, left of writing `target`: siblings named `.<name>.tmp-<pid>-…`.
void remove_temporaries_of(const std::filesystem::path& target, pid_t pid);

/// The name of a temporary sibling of `target` that remove_temporaries_of finds.
std::filesystem::path temporary_sibling(const std::filesystem::path& target);

}  // namespace tl
