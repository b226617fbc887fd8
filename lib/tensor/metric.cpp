#include "tensor/metric.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "core/error.h"

namespace tl {
namespace {

using enum Metric;

constexpr std::array kMetrics = {
    MetricInfo{kMaxAbs, "max_abs", false, "greatest |subject - reference|"},
    MetricInfo{kMeanAbs, "mean_abs", false, "mean |subject - reference|"},
    MetricInfo{kMaxRel, "max_rel", false, "greatest |subject - reference| / max(|reference|, |subject|); 0/0 is 0"},
    MetricInfo{kMeanRel, "mean_rel", false, "mean |subject - reference| / max(|reference|, |subject|); 0/0 is 0"},
    MetricInfo{kRelL2, "rel_l2", false, "norm of the difference / norm of the reference; 0/0 is 0, x/0 infinite"},
    MetricInfo{kMse, "mse", false, "mean squared difference"},
    MetricInfo{kSqnrDb, "sqnr_db", true,
               "signal to noise, 20 log10(norm of the reference / norm of the difference), in dB"},
    MetricInfo{kCosine, "cosine", true, "cosine of the angle between the tensors as vectors; 1 for two all-zero ones"},
    MetricInfo{kMaxUlp, "max_ulp", false, "greatest distance in representable numbers; same floating dtype only"},
    MetricInfo{kMismatchShare, "mismatch", false, "share of elements with |difference| > atol + rtol |reference|"},
    MetricInfo{kNonfinite, "nonfinite", false,
               "elements where one side has a NaN or an infinity that the other has not"},
    MetricInfo{kNanOnlyReference, "nan_reference", false, "elements that are NaN in the reference only"},
    MetricInfo{kNanOnlySubject, "nan_subject", false, "elements that are NaN in the subject only"},
    MetricInfo{kInfDisagreements, "inf", false, "infinite elements that meet a finite number or the other infinity"},
    MetricInfo{kSignDisagreements, "sign", false, "elements of opposite sign, neither being zero"},
};

constexpr bool rows_follow_the_enum() {
  for (std::size_t i = 0; i < kMetrics.size(); ++i) {
    if (static_cast<std::size_t>(kMetrics[i].metric) != i) return false;
  }
  return true;
}
static_assert(rows_follow_the_enum(), "kMetrics: one row a Metric, in order");

}  // namespace

std::span<const MetricInfo> metric_table() { return kMetrics; }

const MetricInfo& metric_info(Metric metric) { return kMetrics[static_cast<std::size_t>(metric)]; }

std::optional<Metric> metric_from_name(std::string_view name) {
  const auto row = std::ranges::find(kMetrics, name, &MetricInfo::name);
  if (row == kMetrics.end()) return std::nullopt;
  return row->metric;
}

std::optional<double> metric_value(const TensorComparison& comparison, Metric metric) {
  switch (metric) {
    case kMaxAbs:
      return comparison.max_abs;
    case kMeanAbs:
      return comparison.mean_abs;
    case kMaxRel:
      return comparison.max_rel;
    case kMeanRel:
      return comparison.mean_rel;
    case kRelL2:
      return comparison.rel_l2;
    case kMse:
      return comparison.mse;
    case kSqnrDb:
      return comparison.sqnr_db;
    case kCosine:
      return comparison.cosine;
    case kMaxUlp:
      if (!comparison.max_ulp) return std::nullopt;
      return static_cast<double>(*comparison.max_ulp);
    case kMismatchShare:
      return comparison.mismatch_share();
    case kNonfinite:
      return static_cast<double>(comparison.nonfinite_disagreements);
    case kNanOnlyReference:
      return static_cast<double>(comparison.nan_only_reference);
    case kNanOnlySubject:
      return static_cast<double>(comparison.nan_only_subject);
    case kInfDisagreements:
      return static_cast<double>(comparison.inf_disagreements);
    case kSignDisagreements:
      return static_cast<double>(comparison.sign_disagreements);
  }
  TL_CHECK(false, "every Metric has a value");
}

}  // namespace tl
