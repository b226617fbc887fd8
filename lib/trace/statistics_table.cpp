#include "trace/statistics_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "tensor/statistics.h"

namespace tl {
namespace {

std::optional<std::size_t> find_in(const Column<std::int32_t>& column, std::size_t op_row) {
  const auto wanted = static_cast<std::int64_t>(op_row);
  const auto* found = std::lower_bound(column.begin(), column.end(), wanted);
  if (found == column.end() || *found != wanted) return std::nullopt;
  return static_cast<std::size_t>(found - column.begin());
}

}  // namespace

std::optional<std::size_t> StatisticsTable::find(std::size_t op_row) const { return find_in(op, op_row); }
std::optional<std::size_t> StatisticsTable::find_exact(std::size_t op_row) const { return find_in(exact_op, op_row); }

void StatisticsTable::append(std::size_t op_row, const TensorStats& stats, bool exact) {
  TL_CHECK(op.empty() || static_cast<std::int64_t>(op_row) > op.back(), "statistics come in the order of their Ops");
  op.push_back(static_cast<std::int32_t>(op_row));
  const auto defined = [&](double value) {
    return stats.has_finite() ? value : std::numeric_limits<double>::quiet_NaN();
  };
  const auto add = [&](Statistic bit, auto& column, auto value) {
    if ((taken & bit) != 0) column.push_back(value);
  };
  add(kStatAbsMean, abs_mean, stats.abs_mean());
  add(kStatSum, sum, stats.sum);
  add(kStatMin, min, defined(stats.min));
  add(kStatMax, max, defined(stats.max));
  add(kStatMean, mean, stats.mean());
  add(kStatStd, std, stats.stddev());
  add(kStatL2, l2, stats.l2());
  add(kStatNan, nan, stats.nan);
  add(kStatInf, posinf, stats.posinf);
  add(kStatInf, neginf, stats.neginf);
  add(kStatZeros, zeros, stats.zeros);
  add(kStatDenormals, denormals, stats.denormals);
  add(kStatArgmin, argmin, stats.argmin);
  add(kStatArgmax, argmax, stats.argmax);
  if (exact && (taken & (kStatMin | kStatMax)) != 0 && stats.has_finite()) {
    exact_op.push_back(static_cast<std::int32_t>(op_row));
    exact_min.push_back(stats.exact_min);
    exact_max.push_back(stats.exact_max);
  }
  if ((taken & kStatHistogram) == 0) return;
  if (histogram_begin.empty()) histogram_begin.push_back(0);
  for (const auto& bin : stats.histogram) {
    histogram_code.push_back(bin.code);
    histogram_count.push_back(bin.count);
  }
  histogram_begin.push_back(static_cast<std::int64_t>(histogram_code.size()));
}

void StatisticsTable::append_copy(std::size_t op_row, const StatisticsTable& from, std::size_t row) {
  const auto copy = [](auto& to, const auto& column, std::size_t at) {
    const auto value = column[at];  // push_back may move the column it comes from
    to.push_back(value);
  };
  if (const auto exact = from.find_exact(static_cast<std::size_t>(from.op[row]))) {
    exact_op.push_back(static_cast<std::int32_t>(op_row));
    copy(exact_min, from.exact_min, *exact);
    copy(exact_max, from.exact_max, *exact);
  }
  op.push_back(static_cast<std::int32_t>(op_row));
  visit_statistics_members([&](std::string_view, auto member, StatisticSet) {
    if (!(from.*member).empty()) copy(this->*member, from.*member, row);
  });
  if (from.histogram_begin.empty()) return;
  if (histogram_begin.empty()) histogram_begin.push_back(0);
  const auto end = static_cast<std::size_t>(from.histogram_begin[row + 1]);
  for (auto bin = static_cast<std::size_t>(from.histogram_begin[row]); bin < end; ++bin) {
    copy(histogram_code, from.histogram_code, bin);
    copy(histogram_count, from.histogram_count, bin);
  }
  histogram_begin.push_back(static_cast<std::int64_t>(histogram_code.size()));
}

}  // namespace tl
