#include "tlspec/writer.h"

#include <optional>
#include <string>
#include <utility>

#include "core/atomic_dir.h"
#include "core/build_id.h"
#include "core/digest.h"
#include "core/error.h"
#include "core/output_file.h"
#include "tlspec/column_checks.h"
#include "tlspec/column_file.h"
#include "tlspec/shard_writer.h"
#include "tlspec/source_file.h"
#include "tlspec/sparse_checks.h"
#include "tlspec/statistics_file.h"
#include "tlspec/stats_jsonl.h"

namespace tl {
namespace {

ManifestFile listed(const char* name, SafetensorsWriter::Written written, bool is_volatile) {
  return {name, static_cast<std::int64_t>(written.bytes), std::move(written.digest), is_volatile};
}

Manifest make_manifest(const Trace& trace, const WriteOptions& options) {
  Manifest manifest;
  manifest.producer_name = "torchlens";
  manifest.producer_version = version();
  manifest.level = options.level;
  manifest.run = trace.run;
  manifest.capture_verified = options.capture_verified;
  manifest.capture_verification_reason = options.capture_verification_reason;
  manifest.counts = column_counts(trace);
  manifest.graph_shape_hash = trace.graph_shape_hash;
  return manifest;
}

void check_level(const Trace& trace, const WriteOptions& options) {
  const auto payloads = trace.payloads.first_op.size();
  if (options.level != Level::kPortable || payloads == 0 || trace.payload_source != nullptr) return;
  throw Error(ErrorCode::kLevelConflict,
              "level portable stores payloads, and the bytes of the recording's " + std::to_string(payloads) +
                  " payloads are not at hand",
              "write it with level audit");
}

/// Rows without files: levels without payloads, and traces that have none.
WrittenShards no_shards(const Trace& trace) {
  WrittenShards shards;
  const auto& rows = trace.payloads;
  shards.columns.encoding.assign(rows.encoding.begin(), rows.encoding.end());
  shards.columns.offset.assign(rows.offset.begin(), rows.offset.end());
  shards.columns.shard.assign(rows.shard.size(), -1);
  return shards;
}

/// Writes a trace, or where `sparse` is given the recording that holds it.
WriteReport write_recording(const Trace& trace, const SparseRecording* sparse, const std::filesystem::path& target,
                            const WriteOptions& options) {
  check_columns(trace, ErrorCode::kInvariant, "the recording to be written", sparse != nullptr);
  if (sparse != nullptr) check_sparse(*sparse, ErrorCode::kInvariant, "the recording to be written");
  check_level(trace, options);
  std::optional<AtomicDirectoryWriter> own;
  if (options.stream == nullptr) own.emplace(target, options.force);
  auto& directory = own ? *own : options.stream->directory();
  const bool with_payloads = options.level == Level::kPortable && trace.payload_source != nullptr;
  auto shards = !with_payloads ? no_shards(trace)
                : own          ? write_shards(trace, directory.temp(), options.shard_bytes)
                               : write_shards(trace, *options.stream);
  auto manifest = make_manifest(trace, options);
  if (sparse != nullptr) {
    manifest.kind = RecordingKind::kSparse;
    manifest.event_shapes = static_cast<std::int64_t>(sparse->event_shapes);
  }
  manifest.files.push_back(
      listed(kColumnsFile, write_columns(directory.temp() / kColumnsFile, trace, shards.columns), false));
  if (trace.statistics.size() > 0) {
    manifest.files.push_back(
        listed(kStatisticsFile, write_statistics(directory.temp() / kStatisticsFile, trace.statistics), false));
    if (sparse == nullptr) {  // its lines name labels
      manifest.files.push_back(
          listed(kStatsLinesFile, write_stats_jsonl(directory.temp() / kStatsLinesFile, trace), false));
    }
  }
  if (sparse != nullptr && !sparse->sources.empty()) {
    manifest.files.push_back(
        listed(kSourcesFile, write_sources(directory.temp() / kSourcesFile, sparse->sources), false));
  }
  WriteReport report;
  report.payloads = shards.payloads;
  report.shards = shards.files.size();
  for (auto& file : shards.files) {
    report.payload_bytes += static_cast<std::uint64_t>(file.bytes);
    manifest.files.push_back(std::move(file));
  }
  manifest.files.push_back(listed(kTimingFile, write_timing(directory.temp() / kTimingFile, trace), true));
  const auto text = format_manifest(manifest);
  write_file(directory.temp() / kManifestFile, text);
  directory.commit();
  report.bytes = text.size();
  for (const auto& file : manifest.files) report.bytes += static_cast<std::uint64_t>(file.bytes);
  return report;
}

}  // namespace

WriteReport write_tlspec(const Trace& trace, const std::filesystem::path& target, const WriteOptions& options) {
  return write_recording(trace, nullptr, target, options);
}

WriteReport write_sparse(const SparseRecording& recording, const std::filesystem::path& target,
                         const WriteOptions& options) {
  return write_recording(recording.trace, &recording, target, options);
}

}  // namespace tl
