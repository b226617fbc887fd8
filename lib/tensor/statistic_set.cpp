#include "tensor/statistic_set.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/text.h"

namespace tl {
namespace {

constexpr std::array kInfos = {
    StatisticInfo{kStatAbsMean, "abs_mean", "mean of the absolute values"},
    StatisticInfo{kStatSum, "sum", "sum"},
    StatisticInfo{kStatMin, "min", "smallest element"},
    StatisticInfo{kStatMax, "max", "largest element"},
    StatisticInfo{kStatMean, "mean", "mean"},
    StatisticInfo{kStatStd, "std", "population standard deviation"},
    StatisticInfo{kStatL2, "l2", "root of the sum of squares"},
    StatisticInfo{kStatNan, "nan", "elements that are NaN"},
    StatisticInfo{kStatInf, "inf", "elements that are infinite"},
    StatisticInfo{kStatZeros, "zeros", "elements that are +0 or -0"},
    StatisticInfo{kStatDenormals, "denormals", "elements below the smallest normal number of the dtype, zeros aside"},
    StatisticInfo{kStatArgmin, "argmin", "row-major index of the first minimum"},
    StatisticInfo{kStatArgmax, "argmax", "row-major index of the first maximum"},
    StatisticInfo{kStatHistogram, "histogram", "elements by sign and power of two"},
};

StatisticSet parse_one(std::string_view name) {
  if (name == "all") return kAllStatistics;
  if (name == "usual") return kUsualStatistics;
  if (name == "shape" || name == "dtype") return 0;
  const auto found = std::ranges::find(kInfos, name, &StatisticInfo::name);
  if (found != kInfos.end()) return found->bit;
  std::vector<std::string> names;
  std::string listed;
  for (const auto& info : kInfos) {
    names.emplace_back(info.name);
    listed += (listed.empty() ? "" : ", ") + names.back();
  }
  const auto near = did_you_mean(name, names);
  throw Error(ErrorCode::kUsage, "--stats: there is no statistic '" + elide(escape_for_terminal(name), 40) + "'",
              near.empty() ? "" : "did you mean " + near[0] + "?", "the statistics are " + listed + ", all");
}

}  // namespace

std::span<const StatisticInfo> statistic_infos() { return kInfos; }

StatisticSet parse_statistics(std::string_view list) {
  StatisticSet set = 0;
  for (;;) {
    const auto comma = list.find(',');
    set |= parse_one(list.substr(0, comma));
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return set;
}

std::string format_statistics(StatisticSet set) {
  std::string text;
  for (const auto& info : kInfos) {
    if ((set & info.bit) != 0) text += (text.empty() ? "" : ",") + std::string(info.name);
  }
  return text;
}

}  // namespace tl
