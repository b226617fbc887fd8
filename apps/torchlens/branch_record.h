#pragma once

#include <nlohmann/json_fwd.hpp>

#include "trace/trace.h"

namespace tl::cli {

/// The arms that an Op stands in, outermost first, and what it has to do with tests: fields `branches`, `bool_value`,
/// `conditional_context_kind` and `decides`. Adds nothing for an Op that has to do with no conditional.
void add_branches(nlohmann::ordered_json& record, const Trace& trace, OpId op);

/// One conditional in full: its arms, which of them ran, and where it stands.
nlohmann::ordered_json conditional_record(const Trace& trace, std::uint32_t conditional);

}  // namespace tl::cli
