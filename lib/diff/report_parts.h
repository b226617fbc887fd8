#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "diff/report.h"

namespace tl::report {

/// Three significant digits: 0.031, 1.2e-05, inf.
std::string short_number(double value);
/// The shortest text that reads back as the same double; nan, inf, -inf.
std::string exact_number(double value);
/// `1 source`, `3 sources`.
std::string counted(std::int64_t count, const std::string& noun);

/// What the recording is and how it was made: `torchscript script · LibTorch 2.13.0 · eval · f32 · cpu`.
std::string facts_of(const DiffSide& side);
/// The module of a site, or its label at the root.
std::string name_of(const DiffSite& site);
/// `layernorm_16_412`, or `norm2 | layernorm_16_412` where the sides call it differently.
std::string label_of(const DiffSite& site);
/// `bf16[1,32760,1536]`, or `f32[4] | bf16[4]` where the sides differ.
std::string value_of(const DiffSite& site);
/// `blocks.py:231`, as the subject has it, else the reference; empty if unknown.
std::string place_of(const DiffSite& site);
/// The side that knows the source line: the subject, else the reference.
const SiteRef& located(const DiffSite& site);
/// `[0,18211,902]  -1.875 in reference, -1.4375 in subject`; empty without a worst element.
std::string worst_of(const DiffSite& site);
/// `eps = 1e-06 in reference, 1e-05 in subject`.
std::string argument_text(const ArgumentDifference& difference);
/// The texts of the arguments that differ, but for those that the cause holds already.
std::vector<std::string> other_arguments(const DiffSite& site);
/// `[1,3,64]`.
std::string dims_text(std::span<const std::int64_t> values);
/// `f32[1,3,64]`.
std::string type_text(DType dtype, std::span<const std::int64_t> sizes);
/// One line: `rel L2 0.031, SQNR 30.2 dB`, by the evidence there is.
std::string error_line(const DiffSite& site);

/// What differs, a line each, then how many more there are.
std::vector<std::string> detail_lines(const Precondition& condition, std::size_t most = 1000);

/// Selected rows out of tolerance, sources first, each group in the report's order.
std::vector<std::size_t> failed_rows(const DiffReport& report);
/// Selected rows whose arguments differ, in the report's order.
std::vector<std::size_t> argument_rows(const DiffReport& report);
/// What --only left out is not.
bool out_of_tolerance(const DiffSite& site);

}  // namespace tl::report
