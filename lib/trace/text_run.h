#pragma once

#include <string>

#include "trace/run_info.h"
#include "trace/text_tokens.h"

namespace tl::text_form {

/// The lines `run`, `outcome`, `health`, `run_input`, `run_output`; fields at their default are left out, and in stable
/// mode the wall times.
void append_run(std::string& out, const RunInfo& run, bool stable);

/// Reads the fields of one of those lines; false if the keyword is none of them.
bool read_run_line(const std::string& keyword, Cursor& cursor, RunInfo& run);

}  // namespace tl::text_form
