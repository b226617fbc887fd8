#pragma once

#include "archive/model_contents.h"
#include "diff/diff.h"
#include "diff/report.h"
#include "diff/side.h"

namespace tl {

/// What a recording tells of its model, in the form in which model files tell it.
ModelContents contents_of(const Side& side);

/// Compares what two models are without running them: parameters and buffers, mode, modules, arguments of forward,
/// operators; between two scripts or two traces their code and stored attributes; between two exported programs of one
/// dialect every call with its arguments, as sites. What only one side tells is left out and noted. Of `options`,
/// names, `rename`, `fail_on` and `again` count. Throws Error(kNoSharedSites) where both hold tensors and share none,
/// neither by name nor by content, and nothing else is shared.
DiffReport compare_contents(const ModelContents& reference, const ModelContents& subject, const DiffOptions& options);

}  // namespace tl
