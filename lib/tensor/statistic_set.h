#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tl {

/// The statistics that can be asked for; bits of a StatisticSet.
enum Statistic : std::uint32_t {
  kStatAbsMean = 1u << 0,
  kStatSum = 1u << 1,
  kStatMin = 1u << 2,
  kStatMax = 1u << 3,
  kStatMean = 1u << 4,
  kStatStd = 1u << 5,
  kStatL2 = 1u << 6,
  kStatNan = 1u << 7,
  kStatInf = 1u << 8,
  kStatZeros = 1u << 9,
  kStatDenormals = 1u << 10,
  kStatArgmin = 1u << 11,
  kStatArgmax = 1u << 12,
  kStatHistogram = 1u << 13,
};
using StatisticSet = std::uint32_t;

/// Everything but the histogram: what a bare --stats takes.
inline constexpr StatisticSet kUsualStatistics = kStatHistogram - 1;
inline constexpr StatisticSet kAllStatistics = kUsualStatistics | kStatHistogram;

struct StatisticInfo {
  Statistic bit;
  std::string_view name;  ///< as in --stats, in stats.jsonl and in the names of columns
  std::string_view meaning;
};

/// One row a statistic, in the order they are written.
std::span<const StatisticInfo> statistic_infos();

/// Reads a list of names separated by commas; `all` is every one, `usual` all but the histogram. The names shape and
/// dtype, which every record has anyway, are taken too. Throws Error(kUsage) for an empty list or an unknown name, with
/// what is near.
StatisticSet parse_statistics(std::string_view list);

/// The names of a set, joined by commas, in the order of statistic_infos().
std::string format_statistics(StatisticSet set);

}  // namespace tl
