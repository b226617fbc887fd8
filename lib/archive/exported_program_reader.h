#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "archive/exported_program.h"
#include "archive/pickle_value.h"
#include "archive/zip_directory.h"

namespace tl {

/// Names of the programs in an archive that torch.export.save (or a packager) wrote, sorted; one, "model", for the
/// layouts before 2.8 that hold a single program.
std::vector<std::string> exported_program_names(const ZipDirectory& zip);

struct ExportedReadOptions {
  /// Name of the program; empty: the only one. Throws Error(kUsage) listing the names where there are several.
  std::string model;
  bool payloads = true;  ///< false: leave weights alone (for looking at a file)
};

/// Reads one program. Every count, reference, size and offset is checked: a value is defined once and before its use,
/// specs match the graph's inputs and outputs, payloads lie inside their entries. Throws Error: kFileDamaged,
/// kFileHostile, kFileLimits, kUnsupportedVersion (schema major other than 8, naming got, supported and the version of
/// torch that wrote it), kUnsupportedProgram (an argument kind that this build does not know).
ExportedProgram read_exported_program(const ZipDirectory& zip, const ExportedReadOptions& options = {});

/// The form of a program's JSON alone, without archive and payloads; for tests and fuzzing. `where` is used in
/// messages.
ExportedProgram parse_exported_program(std::string_view json, const std::string& where);

/// A tree specification as torch.utils._pytree.treespec_dumps writes it.
PytreeSpec parse_pytree_spec(std::string_view json, const std::string& where);

/// The example inputs stored with a program, as (args tuple, kwargs dict); nullopt where the file has none. Objects of
/// `records` (input_classes) come as PickleObject.
std::optional<PickleValue> read_sample_inputs(const ZipDirectory& zip, const std::string& model,
                                              std::vector<std::string> records = {});

/// The classes that the program's inputs are made of besides tuples, lists and dicts (named tuples, dataclasses …), by
/// the last parts of their names; sorted, each once.
std::vector<std::string> input_classes(const ExportedProgram& program);

}  // namespace tl
