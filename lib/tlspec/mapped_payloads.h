#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tensor/safetensors.h"
#include "trace/trace.h"

namespace tl {

/// The payloads of a `.tlspec`, mapped on access. A tensors file is opened and checked when the first payload of it is
/// asked for, so that opening a recording costs nothing per payload. Thread-safe.
class MappedPayloads : public PayloadSource {
 public:
  /// `trace` gives the labels and the rows of payloads, checked; its number of shards is that of the files.
  MappedPayloads(std::filesystem::path directory, Trace trace, std::size_t shards);

  std::size_t size() const override { return trace_.payloads.first_op.size(); }
  PayloadFacts facts(PayloadId id) const override;
  /// Throws Error(kFileDamaged) with file and tensor name if the stored parts are missing or do not fit the columns.
  TensorRefPtr tensor(PayloadId id) const override;

 private:
  const SafetensorsFile& shard(std::size_t index) const;

  std::filesystem::path directory_;
  Trace trace_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<const SafetensorsFile>> shards_;
};

}  // namespace tl
