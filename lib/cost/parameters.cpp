#include "cost/parameters.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "cost/counts.h"

namespace tl {
namespace {

// Addresses come from files: what is longer or deeper than any model's counts in the root only.
constexpr std::size_t kMaxAddress = 4096;
constexpr int kMaxDepth = 256;

std::size_t row(std::int32_t value) { return static_cast<std::size_t>(value); }

bool is_counted(const Trace& trace, std::size_t param) {
  return trace.params.kind[param] != static_cast<std::uint8_t>(ParamKind::kConstant);
}

void add(const Trace& trace, std::size_t param, ParamCount& count) {
  const auto elements = numel(trace.shapes[trace.params.shape[param]]).value_or(0);
  count.elements = saturating_add(count.elements, elements);
  if (trace.params.trainable[param] != 0) count.trainable = saturating_add(count.trainable, elements);
  count.bytes = saturating_add(count.bytes, trace.params.bytes[param]);
  ++count.tensors;
}

template <typename Visitor>
void for_each_address(std::string_view list, Visitor&& visit) {
  while (!list.empty()) {
    const auto comma = std::min(list.find(','), list.size());
    visit(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
}

/// Finds the modules that hold a parameter, directly or further down.
class Holders {
 public:
  explicit Holders(const Trace& trace) : trace_(trace), modules_(trace.modules.address.size()) {
    for (std::size_t module = 0; module < modules_; ++module) {
      by_address_.try_emplace(trace.strings[trace.modules.address[module]], module);
      const auto all = trace.strings[trace.modules.all_addresses[module]];
      if (all.size() > kMaxAddress) continue;
      for_each_address(all, [&](std::string_view address) { by_address_.try_emplace(address, module); });
    }
  }

  /// Calls visit(module, are all addresses below it, does it own one itself) once for each module.
  template <typename Visitor>
  void for_each(std::size_t param, Visitor&& visit) {
    found_.clear();
    std::size_t places = 0;
    owners_.clear();
    const auto all = trace_.strings[trace_.params.all_addresses[param]];
    if (all.size() <= kMaxAddress) {
      for_each_address(all, [&](std::string_view address) { places += walk(address) ? 1 : 0; });
    }
    if (places == 0) {
      places = 1;
      walk_parents(trace_.params.module[param]);
    }
    if (modules_ > 0) note(0, places);  // the root holds everything
    for (const auto& found : found_) visit(found.module, found.places == places, is_owner(found.module));
  }
  std::size_t num_owners() const { return owners_.size(); }

 private:
  struct Found {
    std::size_t module;
    std::size_t places;
  };

  bool is_owner(std::size_t module) const { return std::ranges::find(owners_, module) != owners_.end(); }

  void note(std::size_t module, std::size_t places) {
    for (auto& found : found_) {
      if (found.module != module) continue;
      found.places += places;
      return;
    }
    found_.push_back({module, places});
  }

  void own(std::size_t module) {
    if (!is_owner(module)) owners_.push_back(module);
  }

  /// Notes every module above an address; false where none is known.
  bool walk(std::string_view address) {
    bool any = false;
    auto dot = address.rfind('.');
    for (int depth = 0; depth < kMaxDepth; ++depth) {
      const auto prefix = dot == std::string_view::npos ? std::string_view("self") : address.substr(0, dot);
      if (const auto found = by_address_.find(prefix); found != by_address_.end()) {
        if (!any) own(found->second);
        any = true;
        if (found->second != 0) note(found->second, 1);
      }
      if (dot == std::string_view::npos || dot == 0) break;
      dot = address.rfind('.', dot - 1);
    }
    return any;
  }

  void walk_parents(std::int32_t module) {
    if (module >= 0) own(row(module));
    for (int depth = 0; module > 0 && depth < kMaxDepth; ++depth, module = trace_.modules.parent[row(module)]) {
      note(row(module), 1);
    }
  }

  const Trace& trace_;
  std::unordered_map<std::string_view, std::size_t> by_address_;
  std::size_t modules_;
  std::vector<Found> found_;
  std::vector<std::size_t> owners_;
};

}  // namespace

ParamTotals param_totals(const Trace& trace) {
  ParamTotals totals;
  std::vector<char> used(trace.params.address.size(), 0);
  for (const auto param : trace.param_uses.param) {
    if (param >= 0) used[row(param)] = 1;
  }
  Holders holders(trace);
  for (std::size_t param = 0; param < used.size(); ++param) {
    if (!is_counted(trace, param)) continue;
    add(trace, param, totals.all);
    if (used[param] != 0) add(trace, param, totals.used);
    holders.for_each(param, [](std::size_t, bool, bool) {});
    totals.tied += holders.num_owners() > 1 ? 1 : 0;
  }
  totals.buffers = static_cast<std::int64_t>(trace.buffers.bytes.size());
  for (const auto bytes : trace.buffers.bytes) totals.buffer_bytes = saturating_add(totals.buffer_bytes, bytes);
  return totals;
}

std::vector<ModuleParams> module_params(const Trace& trace) {
  std::vector<ModuleParams> modules(trace.modules.address.size());
  Holders holders(trace);
  for (std::size_t param = 0; param < trace.params.address.size(); ++param) {
    if (!is_counted(trace, param)) continue;
    holders.for_each(param, [&](std::size_t module, bool holds_all, bool owns) {
      add(trace, param, modules[module].inclusive);
      if (owns) add(trace, param, modules[module].own);
      modules[module].shares |= !holds_all;
    });
  }
  return modules;
}

}  // namespace tl
