#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "core/file_descriptor.h"

namespace tl {

/// A file that is written from its start, with a buffer for small pieces. Every failure is Error(kOutputFailed) with
/// path and reason; the file is then left as it is, for the owner of its directory to remove.
class OutputFile {
 public:
  /// Creates `path`, or empties it.
  explicit OutputFile(std::filesystem::path path);
  OutputFile(OutputFile&&) = default;
  OutputFile& operator=(OutputFile&&) = delete;
  /// Without close(), buffered bytes are dropped.
  ~OutputFile() = default;

  void append(std::span<const std::byte> bytes);
  void append(std::string_view text);
  /// Bytes appended so far: the offset of the next one.
  std::uint64_t tell() const { return written_ + buffer_.size(); }
  /// Replaces bytes that were appended before: offset + size ≤ tell().
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Hands buffered bytes to the system.
  void flush();
  /// Flushes, waits until the bytes are on the disk, and closes. To be called once, last.
  void close();

  const std::filesystem::path& path() const { return path_; }

 private:
  void write_all(std::uint64_t offset, std::span<const std::byte> bytes);

  std::filesystem::path path_;
  FileDescriptor fd_;
  std::vector<std::byte> buffer_;
  std::uint64_t written_ = 0;
};

/// Writes a whole file and waits until it is on the disk. Not atomic.
void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_file(const std::filesystem::path& path, std::string_view text);

/// For tests: the n-th operation from now on (1 is the next) that creates, writes, syncs or moves an output fails as on
/// a full disk, once. 0 switches it off. Process-wide, thread-safe.
void set_write_fault(int nth_operation);

/// Called before each such operation. True if it has to fail; errno is then ENOSPC.
bool write_fault_due();

/// Throws Error(kOutputFailed) for `path` with the text of `error_number` and a hint that fits it.
[[noreturn]] void throw_output_failed(const std::filesystem::path& path, int error_number);

}  // namespace tl
