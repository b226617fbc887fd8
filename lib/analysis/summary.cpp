#include "analysis/summary.h"

#include <algorithm>
#include <unordered_map>

namespace tl {
namespace {

std::size_t row(std::int32_t value) { return static_cast<std::size_t>(value); }

std::int64_t numel(std::span<const std::int64_t> sizes) {
  std::int64_t count = 1;
  for (const auto size : sizes) {
    if (__builtin_mul_overflow(count, size, &count)) return 0;
  }
  return count;
}

bool is_below(const Trace& trace, std::int32_t module, std::uint32_t top) {
  for (; module >= 0; module = trace.modules.parent[row(module)]) {
    if (static_cast<std::uint32_t>(module) == top) return true;
  }
  return false;
}

class Summariser {
 public:
  explicit Summariser(const Trace& trace) : trace_(trace) {}

  TraceSummary run() {
    const auto base = base_call();
    if (base != 0) summary_.base = std::string(trace_.strings[trace_.modules.address[module_of(base)]]);
    find_top_calls(base);
    add_rows(base);
    add_totals();
    return std::move(summary_);
  }

 private:
  static constexpr std::int32_t kNone = -1;
  static constexpr std::size_t kNamesShown = 3;

  std::size_t module_of(std::size_t call) const { return row(trace_.module_calls.module[call]); }

  bool is_operation(std::size_t op) const {
    return trace_.ops.kind[op] == static_cast<std::uint8_t>(OpKind::kOperation);
  }

  /// Goes down while a call consists of nothing but one inner call.
  std::size_t base_call() const {
    const auto calls = trace_.module_calls.module.size();
    std::vector<std::int32_t> inner(calls, 0);
    std::vector<std::size_t> only(calls, 0);
    for (std::size_t call = 1; call < calls; ++call) {
      const auto parent = row(trace_.module_calls.parent_call[call]);
      ++inner[parent];
      only[parent] = call;
    }
    std::vector<std::int32_t> own(calls, 0);
    for (std::size_t op = 0; op < trace_.num_ops(); ++op) {
      if (is_operation(op)) ++own[row(trace_.ops.module_call[op])];
    }
    std::size_t base = 0;
    while (calls > 0 && inner[base] == 1 && own[base] == 0 && inner[only[base]] > 0) base = only[base];
    return base;
  }

  /// For every call the call directly below the base that it is or lies in.
  void find_top_calls(std::size_t base) {
    const auto calls = trace_.module_calls.module.size();
    top_.assign(calls, kNone);
    for (std::size_t call = base + 1; call < calls; ++call) {
      const auto parent = row(trace_.module_calls.parent_call[call]);
      top_[call] = parent == base ? static_cast<std::int32_t>(call) : top_[parent];
    }
  }

  void add_rows(std::size_t base) {
    std::vector<std::int32_t> row_of_op(trace_.num_ops(), kNone);
    std::size_t seen_calls = base;
    for (std::size_t op = 0; op < trace_.num_ops(); ++op) {
      const auto call = row(trace_.ops.module_call[op]);
      if (call != base && top_[call] >= 0) {
        add_calls_until(base, row(top_[call]), seen_calls);
        row_of_op[op] = static_cast<std::int32_t>(row_of_module_.at(module_of(row(top_[call]))));
        loose_ = kNone;
      } else if (is_operation(op)) {
        row_of_op[op] = add_loose(OpId{static_cast<std::uint32_t>(op)});
      }
      if (row_of_op[op] >= 0 && is_operation(op)) ++summary_.rows[row(row_of_op[op])].num_ops;
    }
    add_calls_until(base, top_.empty() ? 0 : top_.size() - 1, seen_calls);
    for (std::size_t payload = 0; payload < trace_.payloads.first_op.size(); ++payload) {
      const auto op = row(trace_.payloads.first_op[payload]);
      if (row_of_op[op] >= 0) summary_.rows[row(row_of_op[op])].saved_bytes += trace_.payloads.bytes[payload];
    }
  }

  /// Makes or extends the rows of the calls below the base up to `call`, those without Ops included.
  void add_calls_until(std::size_t base, std::size_t call, std::size_t& seen) {
    while (seen < call) {
      ++seen;
      if (top_[seen] == static_cast<std::int32_t>(seen) && seen != base) add_call(seen);
    }
  }

  void add_call(std::size_t call) {
    const auto module = module_of(call);
    const auto [entry, fresh] = row_of_module_.try_emplace(module, summary_.rows.size());
    if (fresh) {
      SummaryRow added;
      added.module = ModuleId{static_cast<std::uint32_t>(module)};
      added.name = std::string(trace_.strings[trace_.modules.address[module]]);
      added.class_name = std::string(trace_.strings[trace_.modules.class_name[module]]);
      added.calls = 0;
      added.params = params_below(trace_, added.module);
      if (const auto output = trace_.module_calls.output_op[call]; output >= 0) {
        added.output = OpId{static_cast<std::uint32_t>(output)};
      }
      summary_.rows.push_back(std::move(added));
    }
    auto& target = summary_.rows[entry->second];
    ++target.calls;
    if (call < trace_.module_call_seconds.size()) target.seconds += trace_.module_call_seconds[call];
  }

  std::int32_t add_loose(OpId op) {
    const auto name = std::string(func_name(trace_, op));
    if (loose_ < 0) {
      loose_ = static_cast<std::int32_t>(summary_.rows.size());
      summary_.rows.emplace_back();
      loose_names_ = 0;
    }
    auto& target = summary_.rows[row(loose_)];
    target.output = op;
    if (loose_names_ < kNamesShown) {
      target.name += (loose_names_ > 0 ? ", " : "") + name;
    } else if (loose_names_ == kNamesShown) {
      target.name += ", …";
    }
    ++loose_names_;
    target.class_name = std::to_string(loose_names_) + (loose_names_ == 1 ? " op" : " ops");
    if (op.index() < trace_.op_seconds.size()) target.seconds += static_cast<double>(trace_.op_seconds[op.index()]);
    return loose_;
  }

  void add_totals() {
    for (std::size_t op = 0; op < trace_.num_ops(); ++op) summary_.num_ops += is_operation(op) ? 1 : 0;
    for (std::size_t layer = 0; layer < trace_.layers.num_passes.size(); ++layer) {
      if (trace_.layers.total_num[layer] == 0) continue;
      ++summary_.num_layers;
      if (trace_.layers.num_passes[layer] > 1) ++summary_.num_recurrent;
    }
    summary_.params = params_below(trace_, ModuleId{0});
    for (const auto& line : summary_.rows) summary_.seconds += line.seconds;
    for (const auto bytes : trace_.payloads.bytes) summary_.saved_bytes += bytes;
  }

  const Trace& trace_;
  TraceSummary summary_;
  std::vector<std::int32_t> top_;
  std::unordered_map<std::size_t, std::size_t> row_of_module_;
  std::int32_t loose_ = kNone;
  std::size_t loose_names_ = 0;
};

}  // namespace

std::int64_t params_below(const Trace& trace, ModuleId module) {
  std::int64_t count = 0;
  for (std::size_t param = 0; param < trace.params.module.size(); ++param) {
    if (trace.params.kind[param] == static_cast<std::uint8_t>(ParamKind::kConstant)) continue;
    if (is_below(trace, trace.params.module[param], module.value)) {
      count += numel(trace.shapes[trace.params.shape[param]]);
    }
  }
  return count;
}

TraceSummary summarise(const Trace& trace) { return Summariser(trace).run(); }

}  // namespace tl
