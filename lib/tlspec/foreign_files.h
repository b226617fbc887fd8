#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/mapped_file.h"

namespace tl {

/// The path of a file that a recording names by a path of its own. Throws Error: kFileHostile for a name that is
/// absolute, climbs, has control characters or more than `max_parts` parts, and for links and other irregular files on
/// the way; kFileDamaged if there is none.
std::filesystem::path file_within(const std::filesystem::path& directory, std::string_view relative,
                                  std::size_t max_parts = 1);

/// The regular files of a directory, and of its directories down to `depth` levels, relative to it, in the natural
/// order (tensor_2 before tensor_10). Hidden ones are left out. Throws Error: kFileHostile for links, kFileLimits for
/// more than a hundred thousand, kFileMissing where it cannot be listed.
std::vector<std::filesystem::path> files_in(const std::filesystem::path& directory, int depth);

/// True if `left` comes before `right` with runs of digits compared as numbers.
bool natural_less(std::string_view left, std::string_view right);

/// Names of modules as their outputs appear: parts between dots in the natural order, a module behind those inside it.
bool in_order_of_execution(std::string_view left, std::string_view right);

/// The bytes of a mapped file as text.
std::string_view text_of(const MappedFile& file);

}  // namespace tl
