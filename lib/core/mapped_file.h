#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace tl {

/// The bytes of a file, mapped read-only for as long as the object lives.
class MappedFile {
 public:
  /// Maps `path`; an empty file gives an empty span. Throws Error(kFileMissing) where there is no such file, it may not
  /// be read, or it is a directory or something else than a regular file.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  MappedFile(std::filesystem::path path, std::span<const std::byte> bytes);

  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace tl
