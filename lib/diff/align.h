#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "diff/report.h"
#include "diff/side.h"

namespace tl {

/// An entry of a Dump that has its partner in common with an inner one.
struct FurtherEntry {
  std::uint32_t op = 0;     ///< row of the Trace
  std::uint32_t entry = 0;  ///< row of the Dump
  std::int32_t call = -1;   ///< row of module_calls whose value it is; -1 where unknown
};

/// Which row of one side is which of the other.
struct Alignment {
  std::vector<std::int32_t> subject_of;    ///< a row of the reference's: the subject's row, -1 if none is the same
  std::vector<std::int32_t> reference_of;  ///< the other way; of several rows with one partner the first
  std::vector<MatchBasis> basis;           ///< by row of the reference; meaningless where unmatched
  std::vector<std::uint8_t> reordered;     ///< by row of the reference: 1 if its place in the order is another
  /// Against a Dump, by row of the Trace: the module call whose value it is, row of module_calls; -1 for other rows.
  std::vector<std::int32_t> call_of;
  /// Entries of a Dump that stand for an operation as an inner one does (a module and its last submodule), but whose
  /// values are not that one's: of each such value the innermost, in order of operations and entries.
  std::vector<FurtherEntry> further;
  /// By row of a Dump against a Trace: a value of a call that returned several, of which those that leave the call in
  /// the finished run of the Trace are all others: nothing reads it there. Also what only such values were made of.
  std::vector<bool> unread;
  /// Module addresses that were found to be others on the other side: (reference, subject), the topmost of each tree.
  std::vector<std::pair<std::string, std::string>> renamed;
  bool names_trusted = true;  ///< false: equal weights stand under other names, so names were not believed
};

struct AlignOptions {
  Renamer rename;      ///< rules of --map; may be empty
  bool values = true;  ///< unmatched rows may be matched by equal content
};

/// Renames by the longest address above that `renamed` holds; what none covers by `base`.
Renamer renamer_of(const std::vector<std::pair<std::string, std::string>>& renamed, Renamer base);

/// Aligns two recordings, each pair on the strongest basis that holds: role or address for inputs, outputs and buffers;
/// site keys (unless equal weights show that names moved); parameters of equal content; modules that these pairs
/// correspond by; type and shape in order between neighbours that are matched; outputs of corresponding module calls;
/// unique equal values. Near-linear in rows. The sides must have been made with `rename` for the reference.
Alignment align(const Side& reference, const Side& subject, const AlignOptions& options = {});

}  // namespace tl
