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
    const bool table = file.name == kColumnsFile || file.name == kTimingFile;
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

}  // namespace

Trace read_tlspec(const fs::path& directory, const ReadOptions& options) {
  auto manifest = read_manifest(directory);
  const auto columns = directory / kColumnsFile;
  if (manifest.find_file(kColumnsFile) == nullptr) {
    damaged(directory / kManifestFile, std::string("does not list ") + kColumnsFile);
  }
  for (const auto& file : manifest.files) check_file(directory, file);
  check_no_others(directory, manifest);
  check_digests(directory, manifest, options.verify_digests);

  Trace trace;
  read_columns(columns, trace);
  if (manifest.find_file(kTimingFile) != nullptr) read_timing(directory / kTimingFile, trace);
  check_counts(directory, manifest, trace);
  check_columns(trace, ErrorCode::kFileDamaged, columns.string());
  const auto shards = count_shards(manifest);
  check_shards(columns, trace.payloads, shards);

  const bool portable = manifest.level == Level::kPortable;
  if (options.payloads && portable) {
    Trace labels;  // the source outlives moves of the trace, so it has views of its own
    if (!trace.payloads.first_op.empty()) read_columns(columns, labels);
    trace.payload_source = std::make_shared<const MappedPayloads>(directory, std::move(labels), shards);
    for (std::uint32_t row = 0; options.verify_digests && row < trace.payload_source->size(); ++row) {
      static_cast<void>(trace.payload_source->tensor(PayloadId{row}));
    }
  }
  trace.run = std::move(manifest.run);
  trace.graph_shape_hash = std::move(manifest.graph_shape_hash);
  trace.finished = true;
  if (options.check_invariants) check_sound(columns, trace);
  return trace;
}

}  // namespace tl
