#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "tlspec/column_file.h"
#include "tlspec/manifest.h"
#include "tlspec/shard_stream.h"
#include "trace/trace.h"

namespace tl {

/// The tensors files of a recording as written, and what their place is called in the columns.
struct WrittenShards {
  std::vector<ManifestFile> files;
  StoredPayloadColumns columns;
  std::size_t payloads = 0;  ///< rows with bytes on disk
};

/// Writes the payloads of a trace into tensors-00000.safetensors …, in the order of their rows, each under the label of
/// its first Op. A file is closed when the next payload would take it over `shard_bytes` of elements. A trace without
/// payload source gives no files. Throws Error(kOutputFailed), and kInvariant where a tensor is not what its row says.
WrittenShards write_shards(const Trace& trace, const std::filesystem::path& directory, std::size_t shard_bytes);

/// Completes the tensors files of a stream: names what it holds, appends what it was never given. A stored value that
/// no row refers to (of an Op that hangs on no input or output) is named `dropped.<number>`.
WrittenShards write_shards(const Trace& trace, ShardStream& stream);

}  // namespace tl
