#pragma once

#include <nlohmann/json_fwd.hpp>

#include "archive/model_kind.h"
#include "output.h"

namespace tl::cli {

/// What can be said of a model file without executing any of it: kind, version, size, digest, and for TorchScript the
/// operators, classes and unsafe names that its sources use.
nlohmann::ordered_json model_screen(const ModelFileInfo& info);

void print_model_screen(Output& out, const nlohmann::ordered_json& screen);

}  // namespace tl::cli
