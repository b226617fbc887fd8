#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <string>
#include <vector>

#include "archive/exported_program.h"
#include "archive/zip_directory.h"
#include "core/mapped_file.h"
#include "executor/recorder.h"
#include "program/static_tables.h"

namespace tl::lt {

/// What one run of an exported program starts from: a value and its provenance for every input of the graph that the
/// user does not give.
struct ExportedState {
  std::vector<c10::IValue> values;  ///< by input of the graph; None for the user's
  std::vector<Prov> provs;
  ModuleMap modules;
};

/// Makes parameters, buffers and constants of the mapped file, which stays the file's: memory is mapped privately, so a
/// run that writes to it changes its own copy of those pages alone, and a new state is as the file has it. Tensors that
/// share an entry share their storage. With `tables`, the rows of params and buffers are appended (once); their order
/// is the same for every state; digests come from `zip` where it has them (verify_and_digest), else from the read-only
/// mapping, so that the engine's own stays untouched. `owner_of` gives the row of the module of a name.
class ExportedStateMaker {
 public:
  ExportedStateMaker(const ExportedProgram& program, std::shared_ptr<const MappedFile> file, c10::Device device);

  ExportedState make(const ZipDirectory& zip, StaticTables& tables,
                     const std::function<std::int32_t(const std::string&)>& owner_of) const;
  /// Without tables, for a further run.
  ExportedState make() const;

 private:
  struct Rows;
  ExportedState make(Rows* rows) const;

  const ExportedProgram& program_;
  std::shared_ptr<const MappedFile> file_;
  c10::Device device_;
};

}  // namespace tl::lt
