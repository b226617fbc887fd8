#include "diff/call_values.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "diff/align_parts.h"

namespace tl {
namespace {

std::size_t row_of(std::int64_t value) { return static_cast<std::size_t>(value); }

constexpr std::string_view kScript = "torchscript script";
constexpr std::string_view kTraced = "torchscript trace";
constexpr std::uint64_t kTapSeed = 0x7a9;  // a tap is no module of the same name

std::string_view owner_of(std::string_view address) {
  const auto dot = address.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : address.substr(0, dot);
}

/// Contents of each module's own parameters, by address.
std::map<std::string, std::uint64_t, std::less<>> module_weights(const Side& side) {
  std::map<std::string, std::vector<std::uint64_t>, std::less<>> digests;
  const auto add = [&](std::string_view address, std::string_view digest) {
    auto& list = digests[std::string(owner_of(address))];
    list.push_back(digest.empty() ? 0 : hash_text(digest));
  };
  if (side.trace) {
    const auto& trace = *side.trace;
    for (std::size_t row = 0; row < trace.params.address.size(); ++row) {
      add(trace.strings[trace.params.address[row]], trace.strings[trace.params.digest[row]]);
    }
  } else {
    for (const auto& param : side.dump->params) {
      if (!param.is_buffer) add(param.address, param.digest);
    }
  }
  std::map<std::string, std::uint64_t, std::less<>> weights;
  for (auto& [address, list] : digests) {
    std::ranges::sort(list);
    std::uint64_t hash = list.front() == 0 ? 0 : list.size();
    for (const auto digest : list) hash = hash == 0 ? 0 : hash_mix(hash, digest);
    weights[address] = hash;
  }
  return weights;
}

std::uint64_t weights_at(const std::map<std::string, std::uint64_t, std::less<>>& weights, std::string_view address) {
  const auto found = weights.find(address);
  return found == weights.end() ? 0 : found->second;
}

std::uint64_t hash_path(std::string_view path) { return path.empty() ? 0 : hash_text(path); }

/// Entries of a dump.
std::vector<CallValues> values_of_dump(const Side& side) {
  std::vector<CallValues> items;
  const auto weights = module_weights(side);
  std::map<std::uint64_t, std::size_t> item_at;  // by place
  for (std::size_t i = 0; i < side.dump->entries.size(); ++i) {
    const auto& entry = side.dump->entries[i];
    const auto row = static_cast<std::uint32_t>(side.dump->inputs.size() + i);
    const bool root = entry.name.empty() || entry.name == "self";
    const auto place = root ? 0 : entry.is_tap ? hash_mix(side.place[row], kTapSeed) : side.place[row];
    const auto [found, fresh] = item_at.emplace(place, items.size());
    if (!fresh && !root) {
      items[found->second].rows.push_back(row);
      continue;
    }
    items.push_back({{row},
                     place,
                     root ? hash_path(entry.path) : 0,
                     entry.class_name.empty() ? 0 : hash_mix(side.type[row], side.shape[row]),
                     weights_at(weights, entry.name),
                     -1,
                     true,
                     false});
  }
  return items;
}

/// The last row that reads each row; -1 where none does.
std::vector<std::int32_t> last_readers(const Trace& trace) {
  std::vector<std::int32_t> last(trace.num_ops(), -1);
  for (std::uint32_t op = 0; op < last.size(); ++op) {
    const auto [begin, end] = edge_range(trace, OpId{op});
    for (auto edge = begin; edge < end; ++edge) last[row_of(trace.edges.parent[edge])] = static_cast<std::int32_t>(op);
  }
  return last;
}

/// What the model returned: the operations behind the outputs, by path.
void add_root_items(const Side& side, std::uint64_t type, std::uint64_t weights, std::vector<CallValues>& items) {
  const auto& trace = *side.trace;
  for (std::uint32_t op = 0; op < side.size(); ++op) {
    if (side.kind[op] != OpKind::kOutput) continue;
    const auto [begin, end] = edge_range(trace, OpId{op});
    if (begin == end) continue;
    auto path = trace.strings[trace.ops.address[op]];
    path.remove_prefix(std::min(path.size(), std::string_view("output.").size()));
    const auto row = static_cast<std::uint32_t>(trace.edges.parent[begin]);
    items.push_back({{row}, 0, hash_path(path), hash_mix(type, side.shape[row]), weights, 0, true, false});
  }
}

/// Outputs of module calls in the order they returned, inner calls first.
std::vector<CallValues> values_of_trace(const Side& side) {
  std::vector<CallValues> items;
  const auto weights = module_weights(side);
  const auto& trace = *side.trace;
  const auto last_reader = last_readers(trace);
  std::vector<std::uint32_t> calls(trace.module_calls.module.size());
  for (std::uint32_t call = 0; call < calls.size(); ++call) calls[call] = call;
  std::ranges::sort(calls, [&](std::uint32_t a, std::uint32_t b) {
    const auto end_a = trace.module_calls.end_op[a];
    const auto end_b = trace.module_calls.end_op[b];
    return end_a != end_b ? end_a < end_b : a > b;
  });
  for (const auto call : calls) {
    const auto module = row_of(trace.module_calls.module[call]);
    const auto type = hash_text(trace.strings[trace.modules.class_name[module]]);
    const auto own = weights_at(weights, trace.strings[trace.modules.address[module]]);
    if (call == 0) {
      add_root_items(side, type, own, items);
      continue;
    }
    const auto op = trace.module_calls.output_op[call];
    if (op < 0) continue;
    CallValues item{{static_cast<std::uint32_t>(op)},
                    side.call_place[call],
                    0,
                    hash_mix(type, side.shape[row_of(op)]),
                    own,
                    static_cast<std::int32_t>(call),
                    trace.run.model_kind == kScript,
                    trace.run.model_kind == kTraced};
    const auto end = trace.module_calls.end_op[call];
    for (auto row = trace.module_calls.first_op[call]; row < end; ++row) {
      const bool leaves = last_reader[row_of(row)] < 0 || last_reader[row_of(row)] >= end;
      if (leaves && row != op && side.kind[row_of(row)] == OpKind::kOperation) {
        item.rows.push_back(static_cast<std::uint32_t>(row));
      }
    }
    items.push_back(std::move(item));
  }
  return items;
}

}  // namespace

std::vector<CallValues> call_values(const Side& side) {
  return side.dump ? values_of_dump(side) : values_of_trace(side);
}

}  // namespace tl
