#pragma once

#include "postprocess/source_places.h"

namespace tl {

/// Fills bools: one row a time that the program asked a tensor for its truth value (aten::Bool), with what asked it by
/// the source text. Needs conditionals with their kinds.
void classify_bools(Trace& trace, SourcePlaces& places);

}  // namespace tl
