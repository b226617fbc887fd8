#include <algorithm>
#include <array>
#include <cstdint>
#include <map>

#include "trace/args.h"
#include "trace/invariant_checks.h"

namespace tl {
namespace {

constexpr std::string_view kRowOf = "row of ";

/// Row numbers that may equal the number of rows: begins and ends of ranges.
constexpr std::array kBoundaries = {
    std::string_view("edge_begin"), std::string_view("args_begin"), std::string_view("ops_begin"),
    std::string_view("first_op"),   std::string_view("end_op"),     std::string_view("before_op"),
};

class RangeChecker {
 public:
  RangeChecker(const Trace& trace, Findings& findings) : trace_(trace), findings_(findings) {
    for_each_table(trace, [&](std::string_view table, const auto& rows, auto&& visit) {
      bool first = true;
      visit(rows, [&](std::string_view, const auto& column, std::string_view, std::string_view) {
        if (first) rows_[table] = column.size();
        first = false;
      });
    });
    rows_["shapes"] = trace.shapes.size();
  }

  void run() {
    for_each_table(trace_, [&](std::string_view table, const auto& rows, auto&& visit) {
      visit(rows, [&](std::string_view field, const auto& column, std::string_view unit, std::string_view) {
        check_column(table, field, column, unit);
      });
    });
    if (!findings_.empty()) return;
    check_begins("ops.edge_begin", trace_.ops.edge_begin.view(), trace_.edges.parent.size());
    check_begins("ops.args_begin", trace_.ops.args_begin.view(), trace_.args.size());
    check_begins("flow.args_begin", trace_.flow.args_begin.view(), trace_.flow_args.size());
    check_timing("op_seconds", trace_.op_seconds.size(), trace_.num_ops());
    check_timing("module_call_seconds", trace_.module_call_seconds.size(), rows_["module_calls"]);
    if (findings_.empty()) check_args();
  }

 private:
  void add(const std::string& message) { findings_.add("columns", message); }

  template <typename ColumnT>
  void check_column(std::string_view table, std::string_view field, const ColumnT& column, std::string_view unit) {
    const auto name = std::string(table) + "." + std::string(field);
    if (column.size() != rows_[table]) {
      add(name + " has " + std::to_string(column.size()) + " rows, the table " + std::to_string(rows_[table]));
      return;
    }
    std::int64_t count = -1;
    if (unit == "string") count = static_cast<std::int64_t>(trace_.strings.size());
    if (unit == "index into args") count = static_cast<std::int64_t>(trace_.args.size());
    if (unit == "index into flow_args") count = static_cast<std::int64_t>(trace_.flow_args.size());
    if (unit.starts_with(kRowOf)) count = static_cast<std::int64_t>(rows_[unit.substr(kRowOf.size())]);
    if (count < 0) return;
    // Until payloads are settled, ops.payload and ops.sample count in the payload source of the engine.
    if (table == "ops" && (field == "payload" || field == "sample") && !trace_.finished && rows_["payloads"] == 0)
      return;
    const bool boundary = std::ranges::find(kBoundaries, field) != kBoundaries.end();
    for (std::size_t row = 0; row < column.size(); ++row) {
      const auto value = static_cast<std::int64_t>(column[row]);
      if (value >= -1 && value < count) continue;
      if (boundary && value == count) continue;
      add(name + "[" + std::to_string(row) + "] is " + std::to_string(value) + ", " + std::string(unit) + " goes to " +
          std::to_string(count - 1));
    }
  }

  void check_begins(const std::string& name, std::span<const std::int32_t> begins, std::size_t size) {
    std::int64_t before = 0;
    for (std::size_t row = 0; row < begins.size(); ++row) {
      if (begins[row] < before) {
        add(name + "[" + std::to_string(row) + "] is " + std::to_string(begins[row]) + ", the row before has " +
            std::to_string(before));
        return;
      }
      before = begins[row];
    }
    if (name == "ops.edge_begin" && ((begins.empty() && size > 0) || (!begins.empty() && begins[0] != 0))) {
      add("the first of " + std::to_string(size) + " edges belongs to no op");
    }
  }

  void check_timing(const std::string& name, std::size_t rows, std::size_t expected) {
    if (rows != 0 && rows != expected) {
      add(name + " has " + std::to_string(rows) + " rows, the table " + std::to_string(expected));
    }
  }

  void check_args() {
    for (std::size_t op = 0; op < trace_.num_ops(); ++op) {
      check_packed(op_args(trace_, OpId{static_cast<std::uint32_t>(op)}), "op " + std::to_string(op));
    }
    for (std::size_t row = 0; row < rows_["flow"]; ++row) {
      check_packed(flow_args(trace_, row), "flow row " + std::to_string(row));
      check_list_value(row);
    }
  }

  void check_packed(std::span<const std::int64_t> words, const std::string& owner) {
    if (words.empty()) return;
    std::size_t used = 0;
    for_each_arg(words, [&](const ArgHeader& header, std::span<const std::int64_t> payload) {
      used += 1 + (is_list(header.tag) ? 1 : 0) + payload.size();
      if (header.tag > kLastArgTag)
        add_arg(owner, "has the unknown tag " + std::to_string(static_cast<int>(header.tag)));
      if (header.flow != ArgHeader::kNoFlow && header.flow >= rows_["flow"]) {
        add_arg(owner, "names flow row " + std::to_string(header.flow) + " of " + std::to_string(rows_["flow"]));
      }
      std::size_t count = 0;
      if (header.tag == ArgTag::kOp) {
        count = trace_.num_ops();
      } else if (header.tag == ArgTag::kString || header.tag == ArgTag::kOther) {
        count = trace_.strings.size();
      } else {
        return;
      }
      if (payload[0] < 0 || static_cast<std::uint64_t>(payload[0]) >= count) {
        add_arg(owner, "refers to " + std::to_string(payload[0]) + " of " + std::to_string(count));
      }
    });
    if (used != words.size()) {
      add_arg(owner, "ends after " + std::to_string(used) + " of " + std::to_string(words.size()) + " words");
    }
  }

  /// A list value is packed behind the operands of its row.
  void check_list_value(std::size_t row) {
    const auto tag = static_cast<ArgTag>(trace_.flow.tag[row]);
    if (!is_list(tag)) return;
    const auto value = trace_.flow.value[row];
    const auto begin = std::int64_t{trace_.flow.args_begin[row]};
    const auto end = begin + std::ssize(flow_args(trace_, row));
    if (value < begin || value >= end ||
        ArgHeader::unpack(trace_.flow_args[static_cast<std::size_t>(value)]).tag != tag) {
      findings_.add("args", "the list of flow row " + std::to_string(row) + " is said to be at word " +
                                std::to_string(value) + ", its words are " + std::to_string(begin) + " .. " +
                                std::to_string(end));
    }
  }

  void add_arg(const std::string& owner, const std::string& what) {
    findings_.add("args", "an argument of " + owner + " " + what);
  }

  const Trace& trace_;
  Findings& findings_;
  std::map<std::string_view, std::size_t> rows_;
};

}  // namespace

void check_ranges(const Trace& trace, Findings& findings) { RangeChecker(trace, findings).run(); }

}  // namespace tl
