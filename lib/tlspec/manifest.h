#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/run_info.h"

namespace tl {

inline constexpr std::string_view kTlspecFormat = "torchlens.tlspec";
/// The format version that is written; the reader takes 1 to this.
inline constexpr std::int64_t kTlspecVersion = 1;

inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr const char* kColumnsFile = "columns.safetensors";
inline constexpr const char* kTimingFile = "timing.safetensors";
inline constexpr const char* kSourcesFile = "sources.safetensors";
inline constexpr const char* kStatisticsFile = "statistics.safetensors";
inline constexpr const char* kStatsLinesFile = "stats.jsonl";

/// How much a `.tlspec` holds.
enum class Level : std::uint8_t {
  kPortable = 0,  ///< records and payloads
  kAudit = 1,     ///< records only
};

std::string_view to_string(Level level);
/// The level of that name; nullopt if there is none.
std::optional<Level> level_from_name(std::string_view name);

/// What a `.tlspec` is.
enum class RecordingKind : std::uint8_t {
  kTrace = 0,
  kSparse = 1,  ///< events and payloads of which `torchlens finish` makes a trace
};

std::string_view to_string(RecordingKind kind);

/// One file beside manifest.json.
struct ManifestFile {
  std::string name;  ///< plain file name
  std::int64_t bytes = 0;
  std::string digest;        ///< XXH3-128, hex
  bool is_volatile = false;  ///< content differs between runs of the same model (durations)
};

/// manifest.json: what is read and checked first.
struct Manifest {
  std::string producer_name;
  std::string producer_version;
  std::int64_t version = kTlspecVersion;
  RecordingKind kind = RecordingKind::kTrace;
  Level level = Level::kPortable;
  RunInfo run;
  std::optional<bool> capture_verified;  ///< nullopt: unknown
  std::string capture_verification_reason;
  std::vector<std::pair<std::string, std::int64_t>> counts;  ///< rows of every table and pool
  std::string graph_shape_hash;                              ///< empty of a sparse recording
  std::int64_t event_shapes = 0;    ///< of a sparse recording: shapes of the pool that events refer to
  std::vector<ManifestFile> files;  ///< stable ones first, then volatile ones

  const ManifestFile* find_file(std::string_view name) const;
};

/// tensors-00000.safetensors for 0.
std::string shard_name(std::int64_t shard);

/// The JSON text, keys in a fixed order. Bytes of names that are no UTF-8 become U+FFFD.
std::string format_manifest(const Manifest& manifest);

/// Checks and reads the text of a manifest; a stored positive capture_verified reads as unknown. Throws Error:
/// kNotATrace if it is some other JSON, kUnsupportedVersion, kUnsupportedKind for other kinds, levels and the format of
/// the Python package, kFileHostile for unsafe or repeated file names, kFileLimits, kFileDamaged for the rest.
Manifest parse_manifest(std::string_view text, const std::string& shown_name);

/// Reads DIRECTORY/manifest.json. As parse_manifest; also kFileMissing, and kNotATrace for what is no recording, saying
/// what it looks like.
Manifest read_manifest(const std::filesystem::path& directory);

}  // namespace tl
