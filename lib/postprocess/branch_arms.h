#pragma once

#include "postprocess/source_places.h"
#include "trace/trace.h"

namespace tl {

/// Names the arms of conditionals by the source texts of the file: merges the conditionals that are tests of one chain,
/// fills conditional_arms, and gives every executed conditional the arm that ran and the Ops that stand in it by the
/// text. TorchScript moves what follows an early return into the blocks of other conditionals, so a block alone does
/// not tell. Needs branches and conditionals as materialise-ops makes them.
void name_arms(Trace& trace, SourcePlaces& places);

}  // namespace tl
