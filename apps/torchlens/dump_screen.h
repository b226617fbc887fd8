#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "output.h"
#include "trace/dump.h"

namespace tl::cli {

/// What a recording made elsewhere holds: where it comes from, inputs, a row a name, and what the reader left out.
void print_dump_screen(Output& out, const std::string& name, const Dump& dump);
nlohmann::ordered_json dump_screen_json(const Dump& dump);

/// The entries that a key names: a name (all calls and paths of it), NAME:CALL, or NAME:CALL/PATH. Throws
/// Error(kLookupNotFound) if there is none, with names that look like it.
std::vector<const DumpEntry*> find_dump_entries(const Dump& dump, const std::string& key);

/// Entries in full, with the range of their values.
void print_dump_entries(Output& out, const std::vector<const DumpEntry*>& entries);
nlohmann::ordered_json dump_entries_json(const std::vector<const DumpEntry*>& entries);

}  // namespace tl::cli
