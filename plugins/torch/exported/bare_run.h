#pragma once

#include <ATen/core/ivalue.h>

#include <vector>

#include "program/program.h"

namespace tl::lt {

/// Runs a flat program by calling each operator through the dispatcher, and nothing else: no record, no provenance, no
/// payloads. What recording is measured against, for files that LibTorch has no interpreter for.
std::vector<c10::IValue> run_bare(const Program& program, std::vector<c10::IValue> arguments);

}  // namespace tl::lt
