#pragma once

#include <torch/csrc/jit/api/module.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "executor/recorder.h"
#include "program/loaded_model.h"
#include "torchscript/lowering.h"
#include "torchscript/registry_names.h"

namespace tl::lt {

/// A TorchScript file in memory: LibTorch's module, the lowered program, the static tables and what each object is.
struct LoadedScript : LoadedModel {
  torch::jit::Module module;
};

/// Loads a file and lowers one method with all it calls. Throws tl::Error: missing operators and classes (all at once,
/// found before LibTorch parses the file), unsafe operators, unsupported node kinds, unknown methods.
std::unique_ptr<LoadedScript> load_script(const ModelRequest& request, CrashSlate* slate);

}  // namespace tl::lt
