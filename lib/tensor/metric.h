#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tensor/compare.h"

namespace tl {

/// The numbers of a TensorComparison that tolerances and reports speak of by name.
enum class Metric : std::uint8_t {
  kMaxAbs,
  kMeanAbs,
  kMaxRel,
  kMeanRel,
  kRelL2,
  kMse,
  kSqnrDb,
  kCosine,
  kMaxUlp,
  kMismatchShare,
  kNonfinite,
  kNanOnlyReference,
  kNanOnlySubject,
  kInfDisagreements,
  kSignDisagreements,
};

struct MetricInfo {
  Metric metric;
  std::string_view name;
  bool larger_is_better;  ///< true of sqnr_db and cosine alone
  std::string_view help;  ///< one line, with the unit
};

/// All metrics in the order of the enum.
std::span<const MetricInfo> metric_table();
const MetricInfo& metric_info(Metric metric);
std::optional<Metric> metric_from_name(std::string_view name);

/// The value; nullopt for the ULP distance where it has no meaning.
std::optional<double> metric_value(const TensorComparison& comparison, Metric metric);

}  // namespace tl
