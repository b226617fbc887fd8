#pragma once

#include <string>

#include "diff/diff.h"

namespace tl {

/// Fills everything of the report that follows from its rows: causes in words, sources, counts, rules, verdict.
void reach_verdict(const Side& reference, const Side& subject, const DiffOptions& options, DiffReport& report);

/// `blocks.7.norm2`, or the label where no module is around it; of an interval its name.
std::string site_name(const DiffSite& site);

/// Three significant digits.
std::string number_text(double value);

}  // namespace tl
