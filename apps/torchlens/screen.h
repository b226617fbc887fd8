#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "analysis/summary.h"
#include "output.h"
#include "summary_options.h"
#include "trace/trace.h"

namespace tl::cli {

/// What a manifest says about validation: nullopt is not validated.
struct Verification {
  std::optional<bool> verified;
  std::string reason;
};

/// The first screen of a recording: what ran, inputs, module table, outputs, health. Claims only what was checked.
void print_first_screen(Output& out, const Trace& trace, const Verification& verification,
                        const SummaryScreenOptions& options);

/// The same facts as JSON: run, inputs, outputs, modules, totals, health, outcome.
nlohmann::ordered_json first_screen_json(const Trace& trace, const Verification& verification,
                                         const SummaryScreenOptions& options);

/// The line that marks a recording of a run that did not come to its end; nothing for one that did.
void print_partial(Output& out, const Outcome& outcome);
nlohmann::ordered_json outcome_json(const Outcome& outcome);

/// One line a Layer: label, module, output, passes, FLOPs, time, saved. `stable`: without times.
void print_layer_table(Output& out, const Trace& trace, bool stable);
nlohmann::ordered_json layer_table_json(const Trace& trace, bool stable);

}  // namespace tl::cli
