#pragma once

#include "program/program.h"

namespace tl::lt {

/// Marks in a block and the blocks in it where each slot that the block defines is read for the last time: moved by the
/// instruction that reads it, or let go after the instruction whose nested blocks read it. Outputs that nobody reads
/// are marked unused. Constants must not be among the outputs of instructions.
void mark_last_uses(Block& block);

}  // namespace tl::lt
