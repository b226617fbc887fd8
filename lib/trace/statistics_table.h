#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tensor/statistic_set.h"
#include "trace/column.h"

namespace tl {

struct TensorStats;

/// Numbers over all elements of values, taken while the model ran: one row a value, whether it was kept or not. Columns
/// of statistics that were not asked for have no rows. Doubles are NaN where there is no finite element.
struct StatisticsTable {
  StatisticSet taken = 0;   ///< which statistics the recorder took
  Column<std::int32_t> op;  ///< row of ops (in a Capture: number of the event); strictly increasing

  Column<double> abs_mean;
  Column<double> sum;
  Column<double> min;
  Column<double> max;
  Column<double> mean;
  Column<double> std;
  Column<double> l2;
  Column<std::int64_t> nan;
  Column<std::int64_t> posinf;
  Column<std::int64_t> neginf;
  Column<std::int64_t> zeros;
  Column<std::int64_t> denormals;
  Column<std::int64_t> argmin;  ///< -1 without finite elements
  Column<std::int64_t> argmax;

  /// Extremes of i64 and u64 (as bits), which a double rounds: one row a value of such a dtype, in the order of `op`.
  Column<std::int32_t> exact_op;
  Column<std::int64_t> exact_min;
  Column<std::int64_t> exact_max;

  /// Bins (tensor/statistics.h) of row r are histogram_begin[r] .. histogram_begin[r + 1] - 1, by rising code.
  Column<std::int64_t> histogram_begin;
  Column<std::int16_t> histogram_code;
  Column<std::int64_t> histogram_count;

  std::size_t size() const { return op.size(); }
  /// The row of an Op; nullopt without one. O(log rows).
  std::optional<std::size_t> find(std::size_t op_row) const;
  /// The row of exact_op of an Op.
  std::optional<std::size_t> find_exact(std::size_t op_row) const;

  /// Appends a row; `op_row` is greater than the last one. `exact` for i64 and u64.
  void append(std::size_t op_row, const TensorStats& stats, bool exact);
  /// Appends a row of `from`, which took the same statistics and may be this table, under another Op.
  void append_copy(std::size_t op_row, const StatisticsTable& from, std::size_t row);
};

/// Calls visitor(name, member of StatisticsTable, bits) for the columns that have one row a value; `bits` says which
/// statistics fill the column. In the order they are stored.
template <typename Visitor>
void visit_statistics_members(Visitor&& visitor) {
  visitor(std::string_view("abs_mean"), &StatisticsTable::abs_mean, StatisticSet{kStatAbsMean});
  visitor(std::string_view("sum"), &StatisticsTable::sum, StatisticSet{kStatSum});
  visitor(std::string_view("min"), &StatisticsTable::min, StatisticSet{kStatMin});
  visitor(std::string_view("max"), &StatisticsTable::max, StatisticSet{kStatMax});
  visitor(std::string_view("mean"), &StatisticsTable::mean, StatisticSet{kStatMean});
  visitor(std::string_view("std"), &StatisticsTable::std, StatisticSet{kStatStd});
  visitor(std::string_view("l2"), &StatisticsTable::l2, StatisticSet{kStatL2});
  visitor(std::string_view("nan"), &StatisticsTable::nan, StatisticSet{kStatNan});
  visitor(std::string_view("posinf"), &StatisticsTable::posinf, StatisticSet{kStatInf});
  visitor(std::string_view("neginf"), &StatisticsTable::neginf, StatisticSet{kStatInf});
  visitor(std::string_view("zeros"), &StatisticsTable::zeros, StatisticSet{kStatZeros});
  visitor(std::string_view("denormals"), &StatisticsTable::denormals, StatisticSet{kStatDenormals});
  visitor(std::string_view("argmin"), &StatisticsTable::argmin, StatisticSet{kStatArgmin});
  visitor(std::string_view("argmax"), &StatisticsTable::argmax, StatisticSet{kStatArgmax});
}

/// The same with the columns of `table`.
template <typename Table, typename Visitor>
void visit_statistics(Table& table, Visitor&& visitor) {
  visit_statistics_members(
      [&](std::string_view name, auto member, StatisticSet bits) { visitor(name, table.*member, bits); });
}

}  // namespace tl
