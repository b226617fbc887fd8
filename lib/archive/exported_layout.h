#pragma once

#include <string>
#include <vector>

#include "archive/zip_directory.h"
#include "core/error.h"

namespace tl {

/// Where the parts of exported programs lie in an archive: `models/NAME.json` and `data/…` below a root folder (torch
/// 2.8 and later), or `serialized_exported_program.json` … at the top (before).
struct ExportedLayoutNames {
  bool flat = false;                ///< before torch 2.8
  std::string root;                 ///< with its slash; empty for flat
  std::vector<std::string> models;  ///< sorted
  std::string weights_folder;
  std::string constants_folder;

  std::string program(const std::string& model) const;
  std::string sample_inputs(const std::string& model) const;
  /// Entries of torch up to 2.8, which may be absent.
  std::string pickled_weights(const std::string& model) const;
  std::string pickled_constants(const std::string& model) const;
};

/// Major version of the schema that is read; torch 2.6 to 2.13 write it.
inline constexpr int kExportedSchemaMajor = 8;

/// The error for a program of another schema, with what to do. `torch_version` may be empty.
Error unsupported_schema(const std::string& where, int major, int minor, const std::string& torch_version);

ExportedLayoutNames exported_layout(const ZipDirectory& zip);

/// Throws Error(kUnsupportedVersion) where the archive itself says that its version is not read: the `version` of the
/// flat layout, which is the schema's, or an `archive_version` other than 0.
void require_readable_layout(const ZipDirectory& zip, const ExportedLayoutNames& names);

}  // namespace tl
