#pragma once

#include <cstddef>
#include <filesystem>

#include "tensor/safetensors_writer.h"
#include "trace/trace.h"

namespace tl {

/// Writes statistics.safetensors: `op`, a column a statistic that was taken, `exact.op`, `exact.min`, `exact.max`, and
/// where histograms were taken `histogram.begin`, `histogram.code`, `histogram.count`.
SafetensorsWriter::Written write_statistics(const std::filesystem::path& path, const StatisticsTable& table);

/// Maps the columns of the file into trace.statistics. The columns of `trace` have been read and checked. Nothing is
/// trusted: rows, order, ranges and counts are held against the Ops they are said to be of. Columns it does not know
/// are ignored. Throws as SafetensorsFile::open; kFileDamaged for the rest.
void read_statistics(const std::filesystem::path& path, Trace& trace);

}  // namespace tl
