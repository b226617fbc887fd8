#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tensor/safetensors_writer.h"
#include "tlspec/manifest.h"
#include "tlspec/payload_encoding.h"

namespace tl {

/// The tensors files of a recording while they are made: tensors-00000.safetensors … in one directory. Payloads are
/// added one after another and named at the end, when labels exist, so that the same payloads in the same order give
/// the same bytes whether they come while the model runs or after it.
///
/// A file is closed before it would hold more than `shard_bytes` of elements or 2^18 tensors. One that reaches 64 MiB
/// is begun on the disk then, with room for a header as long as so many tensors of that size may need; a smaller one
/// when it is closed. Until then its payloads wait in memory.
class ShardFiles {
 public:
  static constexpr std::size_t kMaxTensors = std::size_t{1} << 18;
  static constexpr std::size_t kWaitingBytes = std::size_t{64} << 20;

  ShardFiles(std::filesystem::path directory, std::size_t shard_bytes);
  ~ShardFiles();
  ShardFiles(const ShardFiles&) = delete;
  ShardFiles& operator=(const ShardFiles&) = delete;

  /// Appends the parts of payload number size(). `copy`: their memory may change after the call. Returns the number of
  /// the file; -1 for a payload without parts.
  std::int32_t add(const StoredPayload& stored, bool copy);
  /// Payloads added, those without parts included.
  std::size_t size() const { return payloads_; }
  /// Bytes of the elements added.
  std::uint64_t bytes() const { return bytes_; }

  /// Writes the headers, `name_of(number)` being the name of a payload, and waits until all is on the disk. Once, last.
  std::vector<ManifestFile> finish(const std::function<std::string(std::size_t)>& name_of);

 private:
  struct Shard;

  void close_shard();

  std::filesystem::path directory_;
  std::size_t shard_bytes_;
  std::size_t payloads_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<std::unique_ptr<Shard>> shards_;
};

}  // namespace tl
