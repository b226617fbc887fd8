#include "tlspec/statistics_file.h"

#include <limits>
#include <string>
#include <type_traits>

#include "tensor/statistics.h"
#include "tlspec/column_io.h"

namespace tl {
namespace {

std::string at(const std::string& name, std::size_t row, std::int64_t value) {
  return name + "[" + std::to_string(row) + "] is " + std::to_string(value);
}

/// Elements of the value of an Op; the greatest number where the product is greater.
std::int64_t numel_of(const Trace& trace, std::size_t op) {
  std::int64_t product = 1;
  bool overflow = false;
  for (const auto size : trace.shapes[trace.ops.shape[op]]) {
    if (size == 0) return 0;
    overflow = overflow || __builtin_mul_overflow(product, size, &product);
  }
  return overflow ? std::numeric_limits<std::int64_t>::max() : product;
}

class StatisticsReader {
 public:
  StatisticsReader(const std::filesystem::path& path, Trace& trace)
      : reader_(path), trace_(trace), table_(trace.statistics) {}

  void run() {
    reader_.map("op", table_.op);
    check_ops("op", table_.op);
    visit_statistics(table_, [&](std::string_view name, auto& column, StatisticSet bits) {
      read_column(std::string(name), column, bits);
    });
    read_exact();
    read_histograms();
    check_counts();
  }

 private:
  template <typename ColumnT>
  void read_column(const std::string& name, ColumnT& column, StatisticSet bits) {
    if (!reader_.has(name)) return;
    reader_.map(name, column);
    check_rows(name, column.size(), table_.size());
    table_.taken |= bits;
  }

  void check_rows(const std::string& name, std::size_t rows, std::size_t expected) const {
    if (rows == expected) return;
    reader_.fail("the column " + name + " has " + std::to_string(rows) + " rows, " + std::to_string(expected) +
                 " are expected");
  }

  /// Rows of ops, strictly increasing.
  void check_ops(const std::string& name, const Column<std::int32_t>& ops) const {
    std::int64_t before = -1;
    for (std::size_t row = 0; row < ops.size(); ++row) {
      if (ops[row] <= before) {
        reader_.fail(at(name, row, ops[row]) + ", the row before has " + std::to_string(before));
      }
      if (static_cast<std::size_t>(ops[row]) >= trace_.num_ops()) {
        reader_.fail(at(name, row, ops[row]) + ", ops has " + std::to_string(trace_.num_ops()) + " rows");
      }
      before = ops[row];
    }
  }

  void read_exact() {
    if (!reader_.has("exact.op")) return;
    reader_.map("exact.op", table_.exact_op);
    reader_.map("exact.min", table_.exact_min);
    reader_.map("exact.max", table_.exact_max);
    check_ops("exact.op", table_.exact_op);
    check_rows("exact.min", table_.exact_min.size(), table_.exact_op.size());
    check_rows("exact.max", table_.exact_max.size(), table_.exact_op.size());
    for (std::size_t row = 0; row < table_.exact_op.size(); ++row) {
      const auto dtype = static_cast<DType>(trace_.ops.dtype[static_cast<std::size_t>(table_.exact_op[row])]);
      if (dtype != DType::kI64 && dtype != DType::kU64) {
        reader_.fail(at("exact.op", row, table_.exact_op[row]) + ", whose values are " +
                     std::string(short_name(dtype)) + ", not 64-bit integers");
      }
    }
  }

  void read_histograms() {
    if (!reader_.has("histogram.begin")) return;
    reader_.map("histogram.begin", table_.histogram_begin);
    reader_.map("histogram.code", table_.histogram_code);
    reader_.map("histogram.count", table_.histogram_count);
    check_rows("histogram.begin", table_.histogram_begin.size(), table_.size() + 1);
    check_rows("histogram.count", table_.histogram_count.size(), table_.histogram_code.size());
    reader_.check_offsets("histogram.begin", table_.histogram_begin.view(), table_.histogram_code.size());
    table_.taken |= kStatHistogram;
  }

  void check_counts() const {
    for (std::size_t row = 0; row < table_.size(); ++row) {
      const auto numel = numel_of(trace_, static_cast<std::size_t>(table_.op[row]));
      visit_statistics(table_, [&](std::string_view name, const auto& column, StatisticSet bits) {
        if constexpr (std::is_same_v<decltype(column[0]), const std::int64_t&>) {
          if (column.empty()) return;
          const bool is_index = (bits & (kStatArgmin | kStatArgmax)) != 0;
          check_count(std::string_view(name), row, column[row], is_index ? -1 : 0, is_index ? numel - 1 : numel);
        }
      });
      if (!table_.histogram_begin.empty()) check_histogram(row, numel);
    }
  }

  void check_count(std::string_view name, std::size_t row, std::int64_t value, std::int64_t low,
                   std::int64_t high) const {
    if (value >= low && value <= high) return;
    reader_.fail(at(std::string(name), row, value) + ", " + std::to_string(low) + " to " + std::to_string(high) +
                 " are possible");
  }

  void check_histogram(std::size_t row, std::int64_t numel) const {
    std::int64_t left = numel;
    std::int64_t before = -kHistogramMost - 1;
    const auto end = static_cast<std::size_t>(table_.histogram_begin[row + 1]);
    for (auto bin = static_cast<std::size_t>(table_.histogram_begin[row]); bin < end; ++bin) {
      check_count("histogram.code", bin, table_.histogram_code[bin], before + 1, kHistogramMost);
      check_count("histogram.count", bin, table_.histogram_count[bin], 1, left);
      before = table_.histogram_code[bin];
      left -= table_.histogram_count[bin];
    }
  }

  ColumnReader reader_;
  Trace& trace_;
  StatisticsTable& table_;
};

}  // namespace

SafetensorsWriter::Written write_statistics(const std::filesystem::path& path, const StatisticsTable& table) {
  ColumnList columns;
  columns.add("op", table.op.view());
  visit_statistics(table, [&](std::string_view name, const auto& column, StatisticSet bits) {
    if ((table.taken & bits) != 0) columns.add(std::string(name), column.view());
  });
  if (!table.exact_op.empty()) {
    columns.add("exact.op", table.exact_op.view());
    columns.add("exact.min", table.exact_min.view());
    columns.add("exact.max", table.exact_max.view());
  }
  if ((table.taken & kStatHistogram) != 0) {
    columns.add("histogram.begin", table.histogram_begin.view());
    columns.add("histogram.code", table.histogram_code.view());
    columns.add("histogram.count", table.histogram_count.view());
  }
  return columns.write(path);
}

void read_statistics(const std::filesystem::path& path, Trace& trace) { StatisticsReader(path, trace).run(); }

}  // namespace tl
