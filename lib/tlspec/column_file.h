#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/safetensors_writer.h"
#include "trace/trace.h"

namespace tl {

/// The columns of `payloads` that only the writer knows: how and where each payload was stored.
struct StoredPayloadColumns {
  std::vector<std::uint8_t> encoding;
  std::vector<std::int64_t> offset;
  std::vector<std::int32_t> shard;
};

/// Rows of every table, of the pools `strings` and `shapes`, and words of `args` and `flow_args`: what the manifest
/// states as counts.
std::vector<std::pair<std::string, std::int64_t>> column_counts(const Trace& trace);

/// True of a table that recordings of earlier versions lack; they read as without rows.
bool added_later(std::string_view table);

/// Writes every column as a 1-D tensor `table.field`, wide elements first so that all are aligned in memory; the pools
/// as `strings.offsets`, `strings.bytes`, `shapes.begin`, `shapes.dims`; and `args`, `flow_args`. `stored` replaces
/// columns of payloads.
SafetensorsWriter::Written write_columns(const std::filesystem::path& path, const Trace& trace,
                                         const StoredPayloadColumns& stored);

/// Maps every column of the file into `trace` (a column that lies unaligned is copied) and restores the pools. Checks
/// type and rank of every tensor and the offsets of the pools, not what the numbers refer to. Tensors it does not know
/// are ignored. Throws as SafetensorsFile::open; kFileDamaged for a missing or misfitting column.
void read_columns(const std::filesystem::path& path, Trace& trace);

/// Writes and reads `ops.seconds` and `module_calls.seconds`.
SafetensorsWriter::Written write_timing(const std::filesystem::path& path, const Trace& trace);
void read_timing(const std::filesystem::path& path, Trace& trace);

}  // namespace tl
