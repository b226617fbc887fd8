#include "tlspec/sparse_checks.h"

#include <cstdint>
#include <string_view>

#include "tlspec/payload_encoding.h"

namespace tl {
namespace {

class SparseChecker {
 public:
  SparseChecker(const SparseRecording& recording, ErrorCode code, const std::string& where)
      : recording_(recording), trace_(recording.trace), code_(code), where_(where) {}

  void run() const {
    check_order();
    check_not_filled();
    check_shapes();
    check_payloads();
  }

 private:
  [[noreturn]] void fail_at(std::string_view name, std::size_t row, std::int64_t value, const std::string& why) const {
    throw Error(code_, where_ + ": " + std::string(name) + "[" + std::to_string(row) + "] is " + std::to_string(value) +
                           ", " + why);
  }

  void check_order() const {
    const auto& ops = trace_.ops;
    constexpr auto kOutput = static_cast<std::uint8_t>(OpKind::kOutput);
    for (std::size_t row = 0; row < trace_.num_ops(); ++row) {
      if (static_cast<std::size_t>(ops.raw_index[row]) != row + 1) {
        fail_at("ops.raw_index", row, ops.raw_index[row], "events are numbered from 1");
      }
      if (row > 0 && ops.kind[row - 1] == kOutput && ops.kind[row] != kOutput) {
        fail_at("ops.kind", row, ops.kind[row], "outputs come last");
      }
    }
    check_rising("param_uses.op", trace_.param_uses.op, 0);
    check_rising("payloads.first_op", trace_.payloads.first_op, 1);
    const auto& parents = trace_.site_contexts.parent;
    for (std::size_t row = 0; row < parents.size(); ++row) {
      if (parents[row] >= static_cast<std::int64_t>(row)) {
        fail_at("site_contexts.parent", row, parents[row], "a context comes after the one that calls it");
      }
    }
  }

  /// Each row is greater than the one before by at least `by`.
  void check_rising(std::string_view name, const Column<std::int32_t>& column, std::int64_t by) const {
    for (std::size_t row = 1; row < column.size(); ++row) {
      if (column[row] - std::int64_t{column[row - 1]} < by) {
        fail_at(name, row, column[row], "the row before has " + std::to_string(column[row - 1]));
      }
    }
  }

  template <typename ColumnT>
  void check_all(std::string_view name, const ColumnT& column, std::int64_t expected) const {
    for (std::size_t row = 0; row < column.size(); ++row) {
      if (column[row] != expected) {
        fail_at(name, row, column[row], "a sparse recording has " + std::to_string(expected));
      }
    }
  }

  /// What later steps fill.
  void check_not_filled() const {
    const auto& ops = trace_.ops;
    check_all("ops.layer", ops.layer, -1);
    check_all("ops.pass_index", ops.pass_index, 0);
    check_all("ops.branch", ops.branch, -1);
    check_all("ops.min_distance_from_input", ops.min_distance_from_input, -1);
    check_all("ops.max_distance_from_input", ops.max_distance_from_input, -1);
    check_all("ops.min_distance_to_output", ops.min_distance_to_output, -1);
    check_all("ops.max_distance_to_output", ops.max_distance_to_output, -1);
    check_all("modules.num_calls", trace_.modules.num_calls, 0);
    check_all("buffers.num_versions", trace_.buffers.num_versions, 0);
    check_all("buffers.last_op", trace_.buffers.last_op, -1);
    for (const auto rows : {trace_.layers.layer_type.size(), trace_.layer_ops.op.size()}) {
      if (rows != 0) throw Error(code_, where_ + ": has " + std::to_string(rows) + " rows of layers, not 0");
    }
  }

  void check_shapes() const {
    const auto known = static_cast<std::int64_t>(recording_.event_shapes);
    if (recording_.event_shapes > trace_.shapes.size()) {
      throw Error(code_, where_ + ": event_shapes is " + std::to_string(known) + ", the pool has " +
                             std::to_string(trace_.shapes.size()) + " shapes");
    }
    for_each_table(trace_, [&](std::string_view table, const auto& rows, auto&& visit) {
      if (table == "payloads") return;
      visit(rows, [&](std::string_view field, const auto& column, std::string_view unit, std::string_view) {
        if (unit != "row of shapes") return;
        for (std::size_t row = 0; row < column.size(); ++row) {
          if (static_cast<std::int64_t>(column[row]) < known) continue;
          fail_at(std::string(table) + "." + std::string(field), row, static_cast<std::int64_t>(column[row]),
                  "events refer to " + std::to_string(known) + " shapes");
        }
      });
    });
  }

  void check_payloads() const {
    const auto& rows = trace_.payloads;
    for (std::size_t row = 0; row < rows.shape.size(); ++row) {
      if (kind_of(static_cast<PayloadEncoding>(rows.encoding[row])) != TensorKind::kStrided) continue;
      const auto rank = trace_.shapes[rows.shape[row]].size();
      const auto strides = trace_.shapes[rows.strides[row]].size();
      if (rank != strides) {
        fail_at("payloads.strides", row, rows.strides[row],
                "which has " + std::to_string(strides) + " axes, the sizes have " + std::to_string(rank));
      }
    }
  }

  const SparseRecording& recording_;
  const Trace& trace_;
  ErrorCode code_;
  const std::string& where_;
};

}  // namespace

void check_sparse(const SparseRecording& recording, ErrorCode code, const std::string& where) {
  SparseChecker(recording, code, where).run();
}

}  // namespace tl
