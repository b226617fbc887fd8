#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "tensor/weight_source.h"
#include "trace/trace.h"

namespace tl::cli {

/// The weights of a model file, read when they are first asked for. A file that cannot be read has none: they serve an
/// explanation, and what is wrong with the file is not the comparison's business.
std::unique_ptr<WeightSource> weights_of_model(std::filesystem::path model);

/// The model file that a recording was made of, beside the recording or in the working directory, by its name and size;
/// empty if it is in neither. That its weights are those of the run is for their digests to say.
std::filesystem::path model_beside(const std::filesystem::path& recording, const Trace& trace);

}  // namespace tl::cli
