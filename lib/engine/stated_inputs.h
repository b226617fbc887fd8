#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace tl {

/// What a model file states of one tensor among its inputs.
struct StatedInput {
  std::string path;                 ///< `x`, `batch.mask`, `states.0`
  DType dtype = DType::kNone;       ///< binding
  std::vector<std::int64_t> sizes;  ///< their number binds; the sizes are those of the example
};

/// The tensors among the example inputs that torch.jit.trace left in a TorchScript file (without their values), under
/// the names of the arguments of `signature`. Empty for scripts, for files whose record does not fit the signature, and
/// for damaged records: what a file says of its example is a help, not a condition.
std::vector<StatedInput> read_stated_inputs(const std::filesystem::path& model, const Signature& signature);

}  // namespace tl
