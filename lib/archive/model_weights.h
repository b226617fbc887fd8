#pragma once

#include <filesystem>
#include <memory>

#include "tensor/weight_source.h"

namespace tl {

/// The tensors of a TorchScript file or an exported program by the addresses that recordings of it have: attributes
/// joined by dots (fc.weight), positions in containers (rnn._flat_weights.0), constants of the code (CONSTANTS.c0).
/// Nothing is executed; elements stay in the mapped file where they can. Throws Error as the readers of these files do,
/// and the refusal of what is no such file.
std::unique_ptr<WeightSource> read_model_weights(const std::filesystem::path& path);

}  // namespace tl
