#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "diff/diff.h"
#include "diff/report.h"
#include "diff/side.h"

namespace tl {

/// A gate of --fail-on that could not have failed, since nothing was there to decide it.
struct DeadGate {
  FailOn gate = FailOn::kSites;
  std::string why;
};
std::vector<DeadGate> dead_gates(const Side& reference, const Side& subject, const DiffReport& report,
                                 const std::vector<FailOn>& gates);

/// True if a site is meant by a NAME of --rtol and --atol: its module or one around it, its label, its function.
bool is_named(const DiffSite& site, std::string_view name);

/// Lines of a rules file, as `FILE:LINE`, whose regular expression no site of the report has in a name. The text has
/// been read by Tolerances::add_rules.
std::vector<std::string> unused_rules(std::string_view text, std::string_view file, const DiffReport& report);

}  // namespace tl
