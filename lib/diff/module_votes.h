#pragma once

#include <string>
#include <utility>
#include <vector>

#include "diff/align_parts.h"

namespace tl {

/// False if more parameters of the reference are found, by equal and unique content, under another name of the subject
/// than under their own: then equal names say little. True where digests are missing.
bool names_are_trusted(const Trace& reference, const Trace& subject, const Renamer& rename);

/// Module addresses that correspond.
using RenamedModules = std::vector<std::pair<std::string, std::string>>;

/// Each matched pair of operations votes for its modules, and for their parents up to the roots; two modules correspond
/// where each is the other's most frequent one. (reference, subject) where they differ, as long as the parents do not
/// make it plain.
RenamedModules vote_modules(const Pairs& pairs);

}  // namespace tl
