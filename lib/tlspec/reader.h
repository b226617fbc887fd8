#pragma once

#include <filesystem>

#include "tlspec/manifest.h"
#include "trace/sparse_recording.h"
#include "trace/trace.h"

namespace tl {

struct ReadOptions {
  bool verify_digests = false;    ///< hash every file, not only small tables, and look at every payload
  bool check_invariants = false;  ///< also refuse a recording that check_invariants (trace/invariants.h) finds wrong
  bool payloads = true;           ///< false: payload_source stays null
  bool statistics = true;         ///< false: statistics stay empty
};

/// Opens a `.tlspec` directory. Columns are views into the mapped file, payloads are mapped on access; the mappings
/// live as long as the Trace. Nothing in the directory is trusted: sizes, names, links, row numbers, ranges and offsets
/// are checked before the Trace is handed out. Throws Error: kFileMissing; kNotATrace for what is no recording;
/// kUnsupportedVersion and kUnsupportedKind; kRecordingSparse; kFileHostile for links and unsafe names; kFileDamaged
/// for the rest, with file, column, row and numbers.
Trace read_tlspec(const std::filesystem::path& directory, const ReadOptions& options = {});

/// A sparse recording as read, and the level at which its trace is to be written.
struct SparseFile {
  SparseRecording recording;
  Level level = Level::kPortable;
};

/// Opens a sparse `.tlspec` directory for finish_sparse (postprocess/pipeline.h): as read_tlspec, but the columns own
/// their rows, and what the steps rely on is checked too. Throws Error(kRecordingFinished) for a full trace.
SparseFile read_sparse(const std::filesystem::path& directory);

}  // namespace tl
