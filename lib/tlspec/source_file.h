#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "core/source_text.h"
#include "tensor/safetensors_writer.h"

namespace tl {

/// Writes the texts by which branches are named, for a sparse recording whose model file will not be at hand.
SafetensorsWriter::Written write_sources(const std::filesystem::path& path, std::span<const SourceText> sources);

/// Reads them back from an untrusted file. Throws Error(kFileDamaged) with the column and both numbers.
std::vector<SourceText> read_sources(const std::filesystem::path& path);

}  // namespace tl
