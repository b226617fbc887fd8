#pragma once

#include <nlohmann/json_fwd.hpp>

#include "archive/model_kind.h"
#include "engine/known_operators.h"
#include "output.h"

namespace tl::cli {

/// What can be said of a model file without executing any of it: kind, version, size, digest, and what its kind holds
/// (schemas/show_model.schema.json). `known`: what the engine runs; null where that is not known. The checksums of an
/// archive are verified. Throws Error: kFileDamaged, kFileHostile, kFileLimits.
nlohmann::ordered_json model_screen(const ModelFileInfo& info, const KnownOperators* known);

/// `everything`: long trees and lists are not cut.
void print_model_screen(Output& out, const nlohmann::ordered_json& screen, bool everything);

}  // namespace tl::cli
