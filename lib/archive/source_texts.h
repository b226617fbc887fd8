#pragma once

#include <vector>

#include "core/source_text.h"

namespace tl {

class ZipDirectory;

/// The original Python source of the functions of a TorchScript archive, which its source positions
/// (`code/….debug_pkl`) carry: one text a function, each once, by file, line and text. Texts that are a traced call
/// stack are among them. Empty for an archive without positions, and for other archives.
/// Time: one read of those entries. Throws Error: kFileDamaged, kFileLimits (positions that check_torchscript refuses).
std::vector<SourceText> read_source_texts(const ZipDirectory& zip);

}  // namespace tl
