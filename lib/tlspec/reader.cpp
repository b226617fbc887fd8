#include "tlspec/reader.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "core/digest.h"
#include "core/error.h"
#include "core/mapped_file.h"
#include "core/text.h"
#include "tlspec/column_checks.h"
#include "tlspec/column_file.h"
#include "tlspec/manifest.h"
#include "tlspec/mapped_payloads.h"
#include "tlspec/source_file.h"
#include "tlspec/sparse_checks.h"
#include "tlspec/statistics_file.h"
#include "trace/invariants.h"

namespace tl {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void damaged(const fs::path& path, const std::string& what) {
  throw Error(ErrorCode::kFileDamaged, path.string() + ": " + what);
}

/// A listed file is there, is no link, and has the size that the manifest says.
void check_file(const fs::path& directory, const ManifestFile& file) {
  const auto path = directory / file.name;
  std::error_code error;
  const auto status = fs::symlink_status(path, error);
  if (!fs::exists(status)) damaged(path, "is missing, manifest.json lists it");
  if (!fs::is_regular_file(status)) throw Error(ErrorCode::kFileHostile, path.string() + ": is no regular file");
  const auto bytes = fs::file_size(path, error);
  if (error) throw Error(ErrorCode::kFileMissing, path.string() + ": " + error.message());
  if (bytes != static_cast<std::uintmax_t>(file.bytes)) {
    damaged(path, "has " + std::to_string(bytes) + " bytes, manifest.json says " + std::to_string(file.bytes));
  }
}

/// Whatever else lies in the directory was not written with it. Hidden files, which file managers leave, are not looked
/// at.
void check_no_others(const fs::path& directory, const Manifest& manifest) {
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const auto name = it->path().filename().string();
    if (name.starts_with('.') || name == kManifestFile || manifest.find_file(name) != nullptr) continue;
    damaged(directory, "holds '" + elide(escape_for_terminal(name), 80) + "', which manifest.json does not list");
  }
  if (error) throw Error(ErrorCode::kFileMissing, directory.string() + ": " + error.message());
}

/// Files up to this size are hashed whenever they are read: about a millisecond.
constexpr std::int64_t kAlwaysHashed = 16 << 20;

/// The digests of all files, or of the tables alone where they are small enough to hash at every look.
void check_digests(const fs::path& directory, const Manifest& manifest, bool all) {
  for (const auto& file : manifest.files) {
    const bool table = file.name == kColumnsFile || file.name == kTimingFile || file.name == kStatisticsFile;
    if (!all && (!table || file.bytes > kAlwaysHashed)) continue;
    const auto mapped = MappedFile::open(directory / file.name);
    const auto digest = digest_hex(mapped->bytes());
    if (digest != file.digest) {
      damaged(mapped->path(),
              "has the digest " + digest + ", manifest.json says " + elide(escape_for_terminal(file.digest), 32));
    }
  }
}

void check_counts(const fs::path& directory, const Manifest& manifest, const Trace& trace) {
  for (const auto& [name, rows] : column_counts(trace)) {
    const auto found = std::ranges::find(manifest.counts, name, &std::pair<std::string, std::int64_t>::first);
    if (found == manifest.counts.end() && rows == 0 && added_later(name)) continue;
    if (found == manifest.counts.end()) damaged(directory / kManifestFile, "counts." + name + " is missing");
    if (found->second != rows) {
      damaged(directory / kManifestFile, "counts." + name + " is " + std::to_string(found->second) + ", " +
                                             kColumnsFile + " has " + std::to_string(rows) + " rows");
    }
  }
}

/// check_columns makes a recording safe to walk; this holds what it says against itself.
void check_sound(const fs::path& columns, const Trace& trace) {
  const auto findings = check_invariants(trace);
  if (findings.empty()) return;
  damaged(columns, findings.front().check + ": " + findings.front().message +
                       (findings.size() == 1 ? "" : ", and " + std::to_string(findings.size() - 1) + " more findings"));
}

std::size_t count_shards(const Manifest& manifest) {
  std::size_t shards = 0;
  while (manifest.find_file(shard_name(static_cast<std::int64_t>(shards))) != nullptr) ++shards;
  return shards;
}

void check_shards(const fs::path& columns, const PayloadsTable& payloads, std::size_t shards) {
  for (std::size_t row = 0; row < payloads.shard.size(); ++row) {
    if (payloads.shard[row] < -1 || payloads.shard[row] >= static_cast<std::int64_t>(shards)) {
      damaged(columns, "payloads.shard[" + std::to_string(row) + "] is " + std::to_string(payloads.shard[row]) +
                           ", there are " + std::to_string(shards) + " tensors files");
    }
  }
}

/// What every kind of recording has in common, read and checked.
struct Opened {
  Manifest manifest;
  Trace trace;
  std::size_t shards = 0;
};

Opened open_recording(const fs::path& directory, Manifest manifest, const ReadOptions& options) {
  const auto columns = directory / kColumnsFile;
  if (manifest.find_file(kColumnsFile) == nullptr) {
    damaged(directory / kManifestFile, std::string("does not list ") + kColumnsFile);
  }
  for (const auto& file : manifest.files) check_file(directory, file);
  check_no_others(directory, manifest);
  check_digests(directory, manifest, options.verify_digests);

  Opened opened;
  auto& trace = opened.trace;
  read_columns(columns, trace);
  if (manifest.find_file(kTimingFile) != nullptr) read_timing(directory / kTimingFile, trace);
  check_counts(directory, manifest, trace);
  check_columns(trace, ErrorCode::kFileDamaged, columns.string(), manifest.kind == RecordingKind::kSparse);
  if (options.statistics && manifest.find_file(kStatisticsFile) != nullptr) {
    read_statistics(directory / kStatisticsFile, trace);
  }
  opened.shards = count_shards(manifest);
  check_shards(columns, trace.payloads, opened.shards);
  trace.run = std::move(manifest.run);
  trace.graph_shape_hash = std::move(manifest.graph_shape_hash);
  opened.manifest = std::move(manifest);
  return opened;
}

void map_payloads(const fs::path& directory, Opened& opened, bool verify) {
  Trace labels;  // the source outlives moves of the trace, so it has views of its own
  if (!opened.trace.payloads.first_op.empty()) read_columns(directory / kColumnsFile, labels);
  const auto source = std::make_shared<const MappedPayloads>(directory, std::move(labels), opened.shards);
  for (std::uint32_t row = 0; verify && row < source->size(); ++row) static_cast<void>(source->tensor(PayloadId{row}));
  opened.trace.payload_source = source;
}

/// Gives every column rows of its own, which steps may change.
void own_columns(Trace& trace) {
  for_each_table(trace, [](std::string_view, auto& rows, auto&& visit) {
    visit(rows, [](std::string_view, auto& column, std::string_view, std::string_view) { column.rows(); });
  });
  trace.args.rows();
  trace.flow_args.rows();
  trace.op_seconds.rows();
  trace.module_call_seconds.rows();
}

}  // namespace

Trace read_tlspec(const fs::path& directory, const ReadOptions& options) {
  auto manifest = read_manifest(directory);
  if (manifest.kind == RecordingKind::kSparse) {
    throw Error(ErrorCode::kRecordingSparse, directory.string() + ": a sparse recording, which has no layers yet",
                "torchlens finish " + directory.string());
  }
  auto opened = open_recording(directory, std::move(manifest), options);
  if (options.payloads && opened.manifest.level == Level::kPortable) {
    map_payloads(directory, opened, options.verify_digests);
  }
  opened.trace.finished = true;
  if (options.check_invariants) check_sound(directory / kColumnsFile, opened.trace);
  return std::move(opened.trace);
}

SparseFile read_sparse(const fs::path& directory) {
  auto manifest = read_manifest(directory);
  if (manifest.kind != RecordingKind::kSparse) {
    throw Error(ErrorCode::kRecordingFinished, directory.string() + ": is a full trace, there is nothing to finish",
                "torchlens show " + directory.string());
  }
  const auto shapes = manifest.event_shapes;
  if (shapes < 0) damaged(directory / kManifestFile, "event_shapes is " + std::to_string(shapes));
  auto opened = open_recording(directory, std::move(manifest), {});
  const auto columns = directory / kColumnsFile;
  if (opened.manifest.level != Level::kPortable && !opened.trace.payloads.first_op.empty()) {
    damaged(columns, "has " + std::to_string(opened.trace.payloads.first_op.size()) + " rows of payloads, level " +
                         std::string(to_string(opened.manifest.level)) + " keeps none");
  }
  map_payloads(directory, opened, false);
  SparseFile file{{std::move(opened.trace), static_cast<std::size_t>(shapes), {}}, opened.manifest.level};
  if (opened.manifest.find_file(kSourcesFile) != nullptr) {
    file.recording.sources = read_sources(directory / kSourcesFile);
  }
  check_sparse(file.recording, ErrorCode::kFileDamaged, columns.string());
  own_columns(file.recording.trace);
  return file;
}

}  // namespace tl
