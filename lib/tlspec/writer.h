#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "tlspec/manifest.h"
#include "trace/sparse_recording.h"
#include "trace/trace.h"

namespace tl {

class ShardStream;

struct WriteOptions {
  Level level = Level::kPortable;
  bool force = false;                              ///< replace an existing recording
  std::size_t shard_bytes = std::size_t{1} << 30;  ///< of elements in one tensors file; one larger tensor gets its own
  ShardStream* stream = nullptr;  ///< payloads that were written already, and the directory they are in
  std::optional<bool> capture_verified = std::nullopt;  ///< outcome of a validation; nullopt: not validated
  std::string capture_verification_reason = "not validated";
};

struct WriteReport {
  std::uint64_t bytes = 0;          ///< of all files
  std::uint64_t payload_bytes = 0;  ///< of the tensors files
  std::size_t payloads = 0;         ///< rows of payloads that have bytes on disk
  std::size_t shards = 0;
};

/// Writes a recording as a `.tlspec` directory, in one step: at any instant there is the old content, the complete new
/// one, or none. The same Trace gives the same bytes but for what the manifest lists under run.volatile. Payload
/// encoding, offset and shard are those of the files, whatever the Trace says. Throws Error: kOutputExists,
/// kOutputFailed, kInvariant for a Trace that a reader would refuse, kLevelConflict for a portable one whose payloads
/// are not at hand; nothing is left behind.
WriteReport write_tlspec(const Trace& trace, const std::filesystem::path& target, const WriteOptions& options = {});

/// The same for a sparse recording, which read_sparse opens. Its payloads are named by raw labels.
WriteReport write_sparse(const SparseRecording& recording, const std::filesystem::path& target,
                         const WriteOptions& options = {});

}  // namespace tl
