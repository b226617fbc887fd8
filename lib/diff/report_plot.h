#pragma once

#include <string>

#include "diff/report.h"

namespace tl::report {

/// The error of every compared site and the noise floor, in order, on a logarithmic axis: an inline svg element of
/// fixed size, however many sites there are. Empty where nothing was compared.
std::string growth_plot(const DiffReport& report);

/// A line of a series of modules, likewise; empty where fewer than two were compared.
std::string series_plot(const GrowthSeries& series);

}  // namespace tl::report
