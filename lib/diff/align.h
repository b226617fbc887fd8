#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "diff/report.h"
#include "diff/side.h"

namespace tl {

/// Which row of one side is which of the other.
struct Alignment {
  std::vector<std::int32_t> subject_of;    ///< a row of the reference's: the subject's row, -1 if none is the same
  std::vector<std::int32_t> reference_of;  ///< the other way; of several reference rows with one subject row the first
  std::vector<MatchBasis> basis;           ///< by row of the reference; meaningless where unmatched
  std::vector<std::uint8_t> reordered;     ///< by row of the reference: 1 if its place in the order is another
  /// Against a Dump, by row of the Trace: the module call whose value it is, row of module_calls; -1 for other rows.
  std::vector<std::int32_t> call_of;
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
