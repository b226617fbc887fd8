#include "tlspec/column_checks.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <thread>
#include <type_traits>
#include <utility>

#include "core/parallel.h"
#include "trace/args.h"

namespace tl {
namespace {

constexpr std::string_view kRowOf = "row of ";
constexpr std::string_view kIndexInto = "index into ";

/// Row numbers that may equal the number of rows: ends of ranges, and starts of empty ones.
constexpr std::array kBoundaries = {
    std::string_view("ops.edge_begin"),      std::string_view("ops.args_begin"),
    std::string_view("layers.ops_begin"),    std::string_view("module_calls.first_op"),
    std::string_view("module_calls.end_op"), std::string_view("branches.first_op"),
    std::string_view("branches.end_op"),     std::string_view("loops.first_op"),
    std::string_view("loops.end_op"),        std::string_view("flow.before_op"),
    std::string_view("flow.args_begin"),
};

struct EnumColumn {
  std::string_view name;
  int last;  ///< greatest known value
};

constexpr std::array kEnums = {
    EnumColumn{"ops.kind", static_cast<int>(OpKind::kOutput)},
    EnumColumn{"params.kind", static_cast<int>(ParamKind::kPacked)},
    EnumColumn{"layers.grouping_basis", static_cast<int>(GroupingBasis::kLine)},
    EnumColumn{"modules.training", 2},
    EnumColumn{"branches.arm", 1},
    EnumColumn{"conditionals.kind", static_cast<int>(ConditionalKind::kCompiler)},
    EnumColumn{"conditional_arms.kind", static_cast<int>(ArmKind::kFalseSide)},
    EnumColumn{"bools.context", static_cast<int>(BoolContext::kCond)},
    EnumColumn{"bools.value", 1},
    EnumColumn{"flow.tag", static_cast<int>(ArgTag::kOther)},
    EnumColumn{"payloads.encoding", static_cast<int>(PayloadEncoding::kOpaque)},
};

/// First row whose value is not in [low, high]; values.size() if all are. Blocks of a fixed size, so that the compiler
/// vectorises the comparison.
template <typename T>
std::size_t first_outside(std::span<const T> values, std::int64_t low, std::int64_t high) {
  constexpr std::size_t kBlock = 64;
  const auto outside = [low, high](T value) { return value < low || value > high; };
  std::size_t row = 0;
  if (low <= high && low >= std::numeric_limits<T>::min() && high <= std::numeric_limits<T>::max()) {
    const T least = static_cast<T>(low);
    const T greatest = static_cast<T>(high);
    for (; row + kBlock <= values.size(); row += kBlock) {
      const T* block = values.data() + row;
      T bad = 0;
      for (std::size_t i = 0; i < kBlock; ++i) bad = static_cast<T>(bad | (block[i] < least) | (block[i] > greatest));
      if (bad != 0) break;
    }
  }
  while (row < values.size() && !outside(values[row])) ++row;
  return row;
}

/// First row whose value is less than the one before it; values.size() if none is.
std::size_t first_decrease(std::span<const std::int32_t> values) {
  constexpr std::size_t kBlock = 64;
  std::size_t row = 1;
  for (; row + kBlock <= values.size(); row += kBlock) {
    const std::int32_t* before = values.data() + row - 1;
    std::int32_t bad = 0;
    for (std::size_t i = 0; i < kBlock; ++i) bad |= before[i + 1] < before[i];
    if (bad != 0) break;
  }
  while (row < values.size() && values[row] >= values[row - 1]) ++row;
  return std::min(row, values.size());
}

class Checker {
 public:
  Checker(const Trace& trace, ErrorCode code, const std::string& where, bool sparse)
      : trace_(trace), code_(code), where_(where), sparse_(sparse), tables_(table_rows(trace)) {}

  void run() {
    std::vector<std::function<void()>> columns;
    for_each_table(trace_, [&](std::string_view table, const auto& rows, auto&& visit) {
      visit(rows, [&](std::string_view field, const auto& column, std::string_view unit, std::string_view meaning) {
        columns.push_back([this, table, field, &column, unit, meaning] {
          check_column(std::string(table) + "." + std::string(field), rows_of(table), column.view(), unit, meaning);
        });
      });
    });
    check_all(columns);
    // What columns say of each other is followed once all of them stay inside their tables.
    check_all({[this] { check_pools(); }, [this] { check_monotone("ops.edge_begin", trace_.ops.edge_begin.view()); },
               [this] { check_monotone("ops.args_begin", trace_.ops.args_begin.view()); },
               [this] { check_monotone("flow.args_begin", trace_.flow.args_begin.view()); }, [this] { check_ranges(); },
               [this] { check_calls(); }, [this] { check_layers(); }});
    check_all({[this] { check_edges(); },
               [this] { check_args("args", trace_.args.view(), "ops.args_begin", trace_.ops.args_begin.view()); },
               [this] {
                 check_args("flow_args", trace_.flow_args.view(), "flow.args_begin", trace_.flow.args_begin.view());
                 check_list_values();
               },
               [this] { check_sums(); }});
  }

 private:
  void check_all(const std::vector<std::function<void()>>& checks) const {
    constexpr std::size_t kOpsForThreads = 100'000;  // fewer are done before a second thread has started
    const auto threads = trace_.num_ops() < kOpsForThreads ? 1 : std::min(std::thread::hardware_concurrency(), 4U);
    for_each_parallel(checks.size(), threads, [&](std::size_t i) { checks[i](); });
  }

  [[noreturn]] void fail(const std::string& what) const { throw Error(code_, where_ + ": " + what); }

  [[noreturn]] void fail_at(const std::string& name, std::size_t row, std::int64_t value,
                            const std::string& why) const {
    fail(name + "[" + std::to_string(row) + "] is " + std::to_string(value) + ", " + why);
  }

  std::size_t rows_of(std::string_view table) const {
    if (table == "shapes") return trace_.shapes.size();
    const auto found = std::ranges::find(tables_, table, &TableRows::table);
    TL_CHECK(found != tables_.end(), "a unit of columns.def names a table");
    return found->rows;
  }

  template <typename T>
  void check_column(const std::string& name, std::size_t rows, std::span<const T> values, std::string_view unit,
                    std::string_view meaning) const {
    if (values.size() != rows) {
      fail(name + " has " + std::to_string(values.size()) + " rows, the table " + std::to_string(rows));
    }
    if constexpr (std::is_same_v<T, std::uint8_t>) {
      const auto found = std::ranges::find(kEnums, name, &EnumColumn::name);
      if (found == kEnums.end()) return;
      const auto bad = first_outside(values, 0, found->last);
      if (bad < rows) fail_at(name, bad, values[bad], "the greatest known value is " + std::to_string(found->last));
    } else if constexpr (std::is_same_v<T, std::int32_t>) {
      check_rows(name, values, unit, meaning);
    }
  }

  /// columns.def says of every column what its numbers count (`row of ops`, `string`) and whether -1 may stand for
  /// none.
  void check_rows(const std::string& name, std::span<const std::int32_t> values, std::string_view unit,
                  std::string_view meaning) const {
    std::int64_t low = meaning.find("-1") != std::string_view::npos ? -1 : 0;
    std::int64_t count = 0;
    std::string target;
    if (unit == "string") {
      low = -1;
      count = static_cast<std::int64_t>(trace_.strings.size());
      target = "the string pool has " + std::to_string(count) + " strings";
    } else if (unit.starts_with(kIndexInto)) {
      const auto pool = unit.substr(kIndexInto.size());
      TL_CHECK(pool == "args" || pool == "flow_args", "a unit of columns.def names a pool of arguments");
      count = static_cast<std::int64_t>(pool == "args" ? trace_.args.size() : trace_.flow_args.size());
      target = std::string(pool) + " has " + std::to_string(count) + " words";
    } else if (unit.starts_with(kRowOf)) {
      const auto table = unit.substr(kRowOf.size());
      if (table == "shapes") low = -1;
      count = static_cast<std::int64_t>(rows_of(table));
      target = std::string(table) + " has " + std::to_string(count) + " rows";
    } else {
      return;
    }
    if (sparse_ && name == "ops.layer") low = -1;
    const bool boundary = std::ranges::find(kBoundaries, name) != kBoundaries.end();
    const auto bad = first_outside(values, low, boundary ? count : count - 1);
    if (bad < values.size()) fail_at(name, bad, values[bad], target);
  }

  void check_pools() const {
    const auto dims = trace_.shapes.dims_column();
    const auto bad = first_outside(dims, 0, std::numeric_limits<std::int64_t>::max());
    if (bad < dims.size()) fail_at("shapes.dims", bad, dims[bad], "sizes and strides are not negative");
  }

  void check_calls() const {
    const auto& calls = trace_.module_calls;
    check_order("module_calls.first_op", calls.first_op.view(), "end_op", calls.end_op.view());
    check_parents("module_calls.parent_call", calls.parent_call.view());
    check_one_root("module_calls.parent_call", calls.parent_call.view());
    check_parents("modules.parent", trace_.modules.parent.view());
    check_parents("site_contexts.parent", trace_.site_contexts.parent.view());
    check_parents("branches.parent", trace_.branches.parent.view());
  }

  void check_ranges() const {
    check_order("branches.first_op", trace_.branches.first_op.view(), "end_op", trace_.branches.end_op.view());
    check_order("loops.first_op", trace_.loops.first_op.view(), "end_op", trace_.loops.end_op.view());
  }

  void check_layers() const {
    const auto& layers = trace_.layers;
    const auto rows = static_cast<std::int64_t>(rows_of("layer_ops"));
    for (std::size_t row = 0; row < layers.num_passes.size(); ++row) {
      if (layers.num_passes[row] < 0 || layers.num_passes[row] > rows - layers.ops_begin[row]) {
        fail_at("layers.num_passes", row, layers.num_passes[row],
                "layer_ops has " + std::to_string(rows - layers.ops_begin[row]) + " rows from ops_begin " +
                    std::to_string(layers.ops_begin[row]));
      }
    }
  }

  void check_monotone(const std::string& name, std::span<const std::int32_t> values) const {
    const auto bad = first_decrease(values);
    if (bad < values.size()) fail_at(name, bad, values[bad], "the row before has " + std::to_string(values[bad - 1]));
  }

  void check_order(const std::string& name, std::span<const std::int32_t> first, const std::string& end_name,
                   std::span<const std::int32_t> end) const {
    for (std::size_t row = 0; row < first.size(); ++row) {
      if (first[row] > end[row]) fail_at(name, row, first[row], end_name + " is " + std::to_string(end[row]));
    }
  }

  void check_edges() const {
    const auto begin = trace_.ops.edge_begin.view();
    const auto parent = trace_.edges.parent.view();
    if (begin.empty() ? !parent.empty() : begin[0] != 0) {
      fail("edges has " + std::to_string(parent.size()) + " rows, the first belongs to no op");
    }
    for (std::size_t op = 0; op < begin.size(); ++op) {
      const auto end = op + 1 < begin.size() ? static_cast<std::size_t>(begin[op + 1]) : parent.size();
      for (auto edge = static_cast<std::size_t>(begin[op]); edge < end; ++edge) {
        if (static_cast<std::size_t>(parent[edge]) >= op) {
          fail_at("edges.parent", edge, parent[edge], "the op it belongs to is row " + std::to_string(op));
        }
      }
    }
  }

  /// Following parents ends. Rows usually come after their parents; only where one does not, the chains are walked.
  void check_one_root(const std::string& name, std::span<const std::int32_t> parents) const {
    for (std::size_t row = 1; row < parents.size(); ++row) {
      if (parents[row] < 0) fail_at(name, row, parents[row], "only row 0 has no parent");
    }
  }

  void check_sums() const {
    check_sum("params.bytes", trace_.params.bytes.view());
    check_sum("buffers.bytes", trace_.buffers.bytes.view());
    check_sum("payloads.bytes", trace_.payloads.bytes.view());
    check_parameter_sizes();
    check_timing("ops.seconds", trace_.op_seconds.size(), trace_.num_ops());
    check_timing("module_calls.seconds", trace_.module_call_seconds.size(), rows_of("module_calls"));
  }

  // Readers add these up.
  void check_sum(const std::string& name, std::span<const std::int64_t> values) const {
    std::int64_t sum = 0;
    for (std::size_t row = 0; row < values.size(); ++row) {
      if (values[row] < 0) fail_at(name, row, values[row], "counts are not negative");
      if (__builtin_add_overflow(sum, values[row], &sum)) fail_at(name, row, values[row], "the sum is above 2^63 - 1");
    }
  }

  void check_parameter_sizes() const {
    std::int64_t sum = 0;
    for (std::size_t row = 0; row < trace_.params.shape.size(); ++row) {
      std::int64_t elements = 1;
      bool overflow = false;
      for (const std::int64_t size : trace_.shapes[trace_.params.shape[row]]) {
        overflow = overflow || __builtin_mul_overflow(elements, size, &elements);
      }
      if (overflow || __builtin_add_overflow(sum, elements, &sum)) {
        fail_at("params.shape", row, trace_.params.shape[row],
                "the parameters up to it have more than 2^63 - 1 elements");
      }
    }
  }

  void check_parents(const std::string& name, std::span<const std::int32_t> parents) const {
    std::size_t row = 0;
    while (row < parents.size() && parents[row] < static_cast<std::int64_t>(row)) ++row;
    if (row == parents.size()) return;
    std::vector<std::uint32_t> chain(parents.size(), 0);
    for (row = 0; row < parents.size(); ++row) {
      const auto stamp = static_cast<std::uint32_t>(row + 1);
      auto at = static_cast<std::int32_t>(row);
      while (at >= 0 && chain[static_cast<std::size_t>(at)] == 0) {
        chain[static_cast<std::size_t>(at)] = stamp;
        at = parents[static_cast<std::size_t>(at)];
      }
      if (at >= 0 && chain[static_cast<std::size_t>(at)] == stamp) {
        fail_at(name, row, parents[row], "following it leads back to row " + std::to_string(at));
      }
    }
  }

  /// Packed arguments of one pool: every argument is whole, and every begin is the start of one.
  void check_args(const std::string& pool, std::span<const std::int64_t> words, const std::string& begin_name,
                  std::span<const std::int32_t> begin) const {
    std::size_t row = 0;
    std::size_t at = 0;
    while (true) {
      while (row < begin.size() && static_cast<std::size_t>(begin[row]) == at) ++row;
      if (row < begin.size() && static_cast<std::size_t>(begin[row]) < at) {
        fail_at(begin_name, row, begin[row], "which is inside an argument that ends at word " + std::to_string(at));
      }
      if (at >= words.size()) return;
      at = check_arg(pool, words, at);
    }
  }

  /// The index after the argument whose header is at `at`.
  std::size_t check_arg(const std::string& pool, std::span<const std::int64_t> words, std::size_t at) const {
    const auto header = ArgHeader::unpack(words[at]);
    if (header.tag > kLastArgTag) {
      const auto tag = std::to_string(static_cast<int>(header.tag));
      fail_at(pool, at, words[at],
              "tag " + tag + " is unknown, the greatest is " + std::to_string(static_cast<int>(kLastArgTag)));
    }
    if (header.flow != ArgHeader::kNoFlow && header.flow >= rows_of_flow_) {
      fail_at(
          pool, at, words[at],
          "it names flow row " + std::to_string(header.flow) + ", flow has " + std::to_string(rows_of_flow_) + " rows");
    }
    const auto [next, count] = extent_of_arg(pool, words, at);
    if (header.tag == ArgTag::kOp) check_word(pool, "ops", next, words[next], trace_.num_ops());
    if (header.tag == ArgTag::kString || header.tag == ArgTag::kOther) {
      check_word(pool, "the string pool", next, words[next], trace_.strings.size());
    }
    return next + count;
  }

  /// Where the payload of the argument at `at` begins, and its words.
  std::pair<std::size_t, std::size_t> extent_of_arg(const std::string& pool, std::span<const std::int64_t> words,
                                                    std::size_t at) const {
    const auto tag = ArgHeader::unpack(words[at]).tag;
    std::size_t next = at + 1;
    std::size_t count = tag == ArgTag::kNone ? 0 : 1;
    if (is_list(tag)) {
      if (next >= words.size() || words[next] < 0) fail_at(pool, at, words[at], "its length is missing");
      count = static_cast<std::size_t>(words[next++]);
    }
    if (count > words.size() - next) {
      fail_at(pool, at, words[at],
              "it takes " + std::to_string(count) + " words, " + std::to_string(words.size() - next) + " are left");
    }
    return {next, count};
  }

  void check_word(const std::string& pool, const char* target, std::size_t at, std::int64_t value,
                  std::size_t count) const {
    if (value < 0 || static_cast<std::uint64_t>(value) >= count) {
      fail_at(pool, at, value, std::string(target) + " has " + std::to_string(count) + " rows");
    }
  }

  /// The value of a flow row that is a list is one of the arguments packed for the row.
  void check_list_values() const {
    const auto words = trace_.flow_args.view();
    for (std::size_t row = 0; row < rows_of_flow_; ++row) {
      const auto tag = static_cast<ArgTag>(trace_.flow.tag[row]);
      if (!is_list(tag)) continue;
      const auto value = trace_.flow.value[row];
      auto at = static_cast<std::size_t>(trace_.flow.args_begin[row]);
      const auto end =
          row + 1 < rows_of_flow_ ? static_cast<std::size_t>(trace_.flow.args_begin[row + 1]) : words.size();
      while (at < end && static_cast<std::int64_t>(at) != value) {
        const auto [next, count] = extent_of_arg("flow_args", words, at);
        at = next + count;
      }
      if (at >= end || ArgHeader::unpack(words[at]).tag != tag) {
        fail_at("flow.value", row, value, "which is no list among the words up to " + std::to_string(end));
      }
    }
  }

  void check_timing(const std::string& name, std::size_t rows, std::size_t expected) const {
    if (rows != 0 && rows != expected) {
      fail(name + " has " + std::to_string(rows) + " rows, the table " + std::to_string(expected));
    }
  }

  const Trace& trace_;
  ErrorCode code_;
  const std::string& where_;
  bool sparse_;
  std::vector<TableRows> tables_;
  std::size_t rows_of_flow_ = trace_.flow.instruction.size();
};

}  // namespace

std::vector<TableRows> table_rows(const Trace& trace) {
  std::vector<TableRows> tables;
  for_each_table(trace, [&](std::string_view table, const auto& rows, auto&& visit) {
    bool first = true;
    visit(rows, [&](std::string_view, const auto& column, std::string_view, std::string_view) {
      if (first) tables.push_back({table, column.size()});
      first = false;
    });
  });
  return tables;
}

void check_columns(const Trace& trace, ErrorCode code, const std::string& where, bool sparse) {
  Checker(trace, code, where, sparse).run();
}

}  // namespace tl
