#pragma once

#include <string>
#include <vector>

#include "archive/exported_program.h"
#include "archive/pickle_value.h"
#include "archive/unpickler.h"
#include "archive/zip_directory.h"

namespace tl {

/// Appends what a payload configuration (`folder` + `config`, of torch 2.9 and later) lists: raw storages in place,
/// what only a pickle can hold as an object or with the reason why it cannot be used. Throws Error: kFileDamaged for a
/// missing entry (naming entry and payload), for sizes that the bytes do not hold, for a checksum that differs.
void read_configured_payloads(const ZipDirectory& zip, const std::string& folder, const std::string& config,
                              std::vector<ExportedPayload>& payloads);

/// Appends the tensors of a dict that torch.save wrote into the entry `name` (torch up to 2.8).
void read_pickled_payloads(const ZipDirectory& zip, const std::string& name, std::vector<ExportedPayload>& payloads);

/// What torch.save wrote into an entry, by the allow-listed unpickler; tensors stay in the mapped file where they can.
PickleValue read_nested_pickle(const ZipDirectory& zip, const ZipEntry& entry, const UnpickleOptions& options = {});

}  // namespace tl
