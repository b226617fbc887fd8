#pragma once

#include <torch/csrc/jit/api/module.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "executor/recorder.h"
#include "program/program.h"
#include "torchscript/lowering.h"

namespace tl::lt {

/// A TorchScript file in memory: LibTorch's module, the lowered program, the static tables and what each object is.
struct LoadedScript {
  torch::jit::Module module;
  Program program;
  StaticTables tables;
  std::shared_ptr<const StringPool> shared_strings;  ///< tables.strings, once loaded
  ModuleMap modules;
  ModelInfo info;
};

/// Loads a file and lowers one method with all it calls. Throws tl::Error: missing operators and classes (all at once,
/// found before LibTorch parses the file), unsafe operators, unsupported node kinds, unknown methods.
std::unique_ptr<LoadedScript> load_script(const ModelRequest& request, CrashSlate* slate);

/// What LibTorch knows now: dispatcher and JIT registry, sorted, without overloads.
std::vector<std::string> known_operator_names();

}  // namespace tl::lt
