#pragma once

#include <memory>
#include <string>
#include <vector>

#include "archive/exported_program.h"
#include "engine/engine.h"
#include "engine/exported_interface.h"
#include "exported/state.h"
#include "program/loaded_model.h"

namespace tl::lt {

/// An exported program in memory: what the file says, the lowered program, and the state of the next run.
struct LoadedExport : LoadedModel {
  ExportedProgram source;
  ExportedInterface interface;
  std::unique_ptr<ExportedStateMaker> maker;
  ExportedState state;
  std::vector<std::string> notes;  ///< what is odd about the file and does not matter for the run
};

/// Reads and lowers one program of a file. Throws tl::Error: missing operators and classes (all at once), unsafe
/// operators, unsupported versions and operators, damaged files.
std::unique_ptr<LoadedExport> load_exported(const ModelRequest& request, CrashSlate* slate);

}  // namespace tl::lt
