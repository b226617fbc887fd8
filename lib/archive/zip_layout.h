#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "archive/zip_directory.h"

namespace tl {

/// The entries of the central directory in its order, checked as ZipDirectory's constructor says: names, counts, sizes,
/// offsets, overlaps, local headers. Two entries of one name are left to the caller. `file_name` is used in messages
/// only.
std::vector<ZipEntry> read_zip_layout(std::span<const std::byte> bytes, const std::string& file_name);

}  // namespace tl
