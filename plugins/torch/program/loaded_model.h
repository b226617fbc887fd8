#pragma once

#include <memory>

#include "engine/engine.h"
#include "executor/recorder.h"
#include "program/program.h"
#include "program/static_tables.h"

namespace tl::lt {

/// A model of either format, lowered, with what the recorder needs to know of it.
struct LoadedModel {
  Program program;
  StaticTables tables;
  std::shared_ptr<const StringPool> shared_strings;  ///< tables.strings, once loaded
  ModuleMap modules;                                 ///< of the state at hand
  ModelInfo info;
};

}  // namespace tl::lt
