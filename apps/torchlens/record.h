#pragma once

#include <nlohmann/json_fwd.hpp>

#include "output.h"
#include "select/lookup.h"
#include "trace/trace.h"

namespace tl::cli {

/// One record of a Trace in full, fields under their names (Python TorchLens's where it has the field). Values of
/// payloads are read and summarised, which is the only time this touches the tensors files.
nlohmann::ordered_json record_json(const Trace& trace, const Found& found);

/// The same as `name  value` lines.
void print_record(Output& out, const nlohmann::ordered_json& record);

}  // namespace tl::cli
