#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/atomic_dir.h"
#include "tlspec/shard_files.h"
#include "trace/payload_sink.h"

namespace tl {

/// Writes payloads into the tensors files of a recording while the model runs. Everything lies in the temporary
/// directory that write_tlspec (WriteOptions::stream) completes and moves into place; without that it is removed.
class ShardStream : public PayloadSink {
 public:
  /// Makes the temporary directory. Throws as AtomicDirectoryWriter.
  ShardStream(const std::filesystem::path& target, bool force, std::size_t shard_bytes = std::size_t{1} << 30);

  void write(std::uint32_t payload, const PayloadFacts& facts, const TensorRef& tensor) override;

  /// Where a payload went.
  struct Place {
    std::size_t number = 0;   ///< among the payloads of files()
    std::int32_t shard = -1;  ///< -1: nothing to write
    PayloadEncoding encoding = PayloadEncoding::kOpaque;
  };
  /// Null for a payload that never came here.
  const Place* find(std::uint64_t payload) const;
  ShardFiles& files() { return files_; }
  AtomicDirectoryWriter& directory() { return directory_; }
  /// Bytes of the elements written so far.
  std::uint64_t bytes() const { return files_.bytes(); }

 private:
  AtomicDirectoryWriter directory_;
  ShardFiles files_;
  std::unordered_map<std::uint64_t, Place> places_;
};

}  // namespace tl
