#pragma once

#include <string>
#include <vector>

#include "archive/exported_program.h"
#include "engine/engine.h"

namespace tl {

/// One leaf of the arguments of an exported program, in flattening order of (args, kwargs).
struct InputLeafSpec {
  std::string path;       ///< `x`, `batch.mask`
  std::size_t input = 0;  ///< index into graph.inputs and input_specs
};

/// How callers see an exported program: named arguments in nested form, outputs by structural path.
struct ExportedInterface {
  Signature signature;
  std::vector<PytreeSpec> arguments;  ///< structure of each argument
  std::vector<InputLeafSpec> leaves;
  std::vector<std::string> output_roles;  ///< `output`, `output.0`, `output.logits`; one a user output
};

/// Reads it off the root's tree specifications. Throws Error(kFileDamaged) where they do not fit the graph's inputs and
/// outputs; `file` is used in messages. A program without them takes its inputs one by one.
ExportedInterface interface_of(const ExportedProgram& program, const std::string& file);

/// The leaves of an argument in order; a container of another form than the file's is refused. Throws
/// Error(kInputMismatch).
void flatten_argument(const InputValue& value, const PytreeSpec& spec, const std::string& path,
                      std::vector<const InputValue*>& leaves);

}  // namespace tl
