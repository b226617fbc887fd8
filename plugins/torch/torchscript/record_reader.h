#pragma once

#include <ATen/core/Tensor.h>
#include <caffe2/serialize/read_adapter_interface.h>

#include <filesystem>
#include <mutex>
#include <unordered_map>

#include "archive/zip_directory.h"
#include "core/file_descriptor.h"

namespace tl::lt {

/// What LibTorch reads an archive through. It remembers which bytes of the file went where in memory, so that a tensor
/// can be told to be an entry as it stands in the file; and it asks for huge pages where an entry is about to be put,
/// since half of the time of loading large weights is faults of small ones.
class RecordReader final : public caffe2::serialize::ReadAdapterInterface {
 public:
  /// `zip` is the archive that lies at `path` and has `size` bytes; it must outlive the object. Throws
  /// Error(kFileMissing) where the file cannot be opened or has another size by now.
  RecordReader(const std::filesystem::path& path, std::size_t size, const ZipDirectory& zip);

  size_t size() const override { return size_; }
  size_t read(uint64_t pos, void* buf, size_t n, const char* what) const override;

  /// The entry whose bytes, all of them and nothing else, are the storage of `tensor` and are seen from the first to
  /// the last without gaps; nullptr if there is none. The bytes are those of the file until something writes to the
  /// tensor.
  const ZipEntry* entry_of(const at::Tensor& tensor) const;

 private:
  struct Read {
    uint64_t offset;
    size_t size;
  };

  FileDescriptor file_;
  std::size_t size_;
  std::unordered_map<uint64_t, const ZipEntry*> stored_at_;  // by offset of the data
  mutable std::mutex mutex_;
  mutable std::unordered_map<const void*, Read> reads_;  // the last one into each address
};

}  // namespace tl::lt
