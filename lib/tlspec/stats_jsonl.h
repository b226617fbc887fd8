#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "tensor/safetensors_writer.h"
#include "trace/trace.h"

namespace tl {

/// A row of trace.statistics as the text of a JSON object, the statistics that were taken by name, in the order of
/// statistic_infos(). NaN and infinities are the strings nan, inf, -inf; extremes of integers are exact.
std::string statistics_text(const Trace& trace, std::size_t row);

/// Writes the statistics of a finished trace as JSON lines, one an Op that has some, in the order of Ops, with the keys
/// of FastVideo's activation trace (module, tensor, step, the statistics, shape, dtype) and more of ours; described in
/// docs/statistics.md. Throws Error(kOutputFailed).
SafetensorsWriter::Written write_stats_jsonl(const std::filesystem::path& path, const Trace& trace);

}  // namespace tl
