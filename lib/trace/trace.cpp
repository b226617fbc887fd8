#include "trace/trace.h"

#include <algorithm>
#include <unordered_map>

namespace tl {
namespace {

constexpr std::string_view kTypeOfKind[] = {"", "input", "buffer", "output"};

std::size_t row(std::int32_t value) { return static_cast<std::size_t>(value); }

void append_escaped(std::string& out, std::string_view text) {
  constexpr char kHex[] = "0123456789ABCDEF";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '%' || c == '|' || c == '/' || byte < 0x20 || byte == 0x7f) {
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
}

}  // namespace

std::string_view layer_type(const Trace& trace, OpId op) {
  const auto kind = trace.ops.kind[op.index()];
  if (kind != 0) return kTypeOfKind[std::min<std::size_t>(kind, 3)];
  const auto instruction = trace.ops.instruction[op.index()];
  return instruction < 0 ? std::string_view{} : trace.strings[trace.instructions.layer_type[row(instruction)]];
}

std::string_view func_name(const Trace& trace, OpId op) {
  const auto instruction = trace.ops.instruction[op.index()];
  return instruction < 0 ? std::string_view("none") : trace.strings[trace.instructions.func_name[row(instruction)]];
}

std::string raw_label(const Capture& capture, std::uint32_t event) {
  const auto type_of = [&](const CaptureEvent& record) {
    if (record.kind != OpKind::kOperation) return std::string_view(kTypeOfKind[static_cast<std::size_t>(record.kind)]);
    const auto code = capture.instructions.layer_type[record.instruction];
    return code < 0 ? std::string_view{} : capture.strings[code];
  };
  const auto type = type_of(capture.events[event]);
  std::size_t same = 0;
  for (std::uint32_t i = 0; i <= event; ++i) same += type_of(capture.events[i]) == type ? 1 : 0;
  return std::string(type) + "_" + std::to_string(same) + "_" + std::to_string(event + 1) + "_raw";
}

std::string raw_label(const Trace& trace, OpId op) {
  return std::string(layer_type(trace, op)) + "_" + std::to_string(trace.ops.type_index[op.index()]) + "_" +
         std::to_string(trace.ops.raw_index[op.index()]) + "_raw";
}

std::string layer_label_short(const Trace& trace, LayerId layer) {
  return std::string(trace.strings[trace.layers.layer_type[layer.index()]]) + "_" +
         std::to_string(trace.layers.type_num[layer.index()]);
}

std::string layer_label(const Trace& trace, LayerId layer) {
  auto label = layer_label_short(trace, layer);
  if (const auto total = trace.layers.total_num[layer.index()]; total > 0) label += "_" + std::to_string(total);
  return label;
}

std::string op_label(const Trace& trace, OpId op, bool always_pass) {
  const auto layer = trace.ops.layer[op.index()];
  if (layer < 0) return raw_label(trace, op);
  auto label = layer_label(trace, LayerId{static_cast<std::uint32_t>(layer)});
  if (always_pass || trace.layers.num_passes[row(layer)] > 1) {
    label += ":" + std::to_string(trace.ops.pass_index[op.index()]);
  }
  return label;
}

std::string module_call_label(const Trace& trace, ModuleCallId call) {
  const auto module = row(trace.module_calls.module[call.index()]);
  return std::string(trace.strings[trace.modules.address[module]]) + ":" +
         std::to_string(trace.module_calls.call_index[call.index()]);
}

std::vector<ModuleCallId> module_stack(const Trace& trace, OpId op) {
  std::vector<ModuleCallId> stack;
  for (auto call = trace.ops.module_call[op.index()]; call > 0; call = trace.module_calls.parent_call[row(call)]) {
    stack.push_back(ModuleCallId{static_cast<std::uint32_t>(call)});
  }
  std::ranges::reverse(stack);
  return stack;
}

std::span<const std::int64_t> op_args(const Trace& trace, OpId op) {
  const auto begin = row(trace.ops.args_begin[op.index()]);
  const auto end = op.index() + 1 < trace.num_ops() ? row(trace.ops.args_begin[op.index() + 1]) : trace.args.size();
  return trace.args.view().subspan(begin, end - begin);
}

std::span<const std::int64_t> flow_args(const Trace& trace, std::size_t flow_row) {
  const auto& begins = trace.flow.args_begin;
  const auto begin = row(begins[flow_row]);
  const auto end = flow_row + 1 < begins.size() ? row(begins[flow_row + 1]) : trace.flow_args.size();
  return trace.flow_args.view().subspan(begin, end - begin);
}

std::vector<OpId> parents(const Trace& trace, OpId op) {
  std::vector<OpId> result;
  const auto [begin, end] = edge_range(trace, op);
  for (auto edge = begin; edge < end; ++edge) {
    const OpId parent{static_cast<std::uint32_t>(trace.edges.parent[edge])};
    if (std::ranges::find(result, parent) == result.end()) result.push_back(parent);
  }
  return result;
}

ChildIndex make_child_index(const Trace& trace) {
  ChildIndex index;
  const auto ops = trace.num_ops();
  index.begin.assign(ops + 1, 0);
  for (const auto parent : trace.edges.parent) ++index.begin[row(parent) + 1];
  for (std::size_t op = 0; op < ops; ++op) index.begin[op + 1] += index.begin[op];
  index.child.resize(trace.edges.parent.size());
  auto cursor = index.begin;
  for (std::size_t op = 0; op < ops; ++op) {
    const auto [begin, end] = edge_range(trace, OpId{static_cast<std::uint32_t>(op)});
    for (auto edge = begin; edge < end; ++edge) {
      index.child[row(cursor[row(trace.edges.parent[edge])]++)] = static_cast<std::int32_t>(op);
    }
  }
  return index;
}

Evidence evidence_of(const Trace& trace, OpId op, bool statistics) {
  const auto at_hand = [&](std::int32_t payload) {
    if (payload < 0) return false;
    const auto encoding = static_cast<PayloadEncoding>(trace.payloads.encoding[row(payload)]);
    if (encoding == PayloadEncoding::kEmpty || encoding == PayloadEncoding::kOpaque) return false;
    return trace.payload_source != nullptr || trace.payloads.shard[row(payload)] >= 0;
  };
  if (at_hand(trace.ops.payload[op.index()])) return Evidence::kFull;
  if (at_hand(trace.ops.sample[op.index()])) return Evidence::kSampled;
  return statistics ? Evidence::kStatistics : Evidence::kShape;
}

std::vector<std::string> site_keys(const Trace& trace) {
  std::vector<std::string> keys(trace.num_ops());
  std::vector<std::string> stack_text(trace.module_calls.module.size());
  for (std::size_t call = 1; call < stack_text.size(); ++call) {
    const auto parent = trace.module_calls.parent_call[call];
    if (parent > 0) stack_text[call] = stack_text[row(parent)] + "/";
    append_escaped(stack_text[call], trace.strings[trace.modules.address[row(trace.module_calls.module[call])]]);
  }
  std::unordered_map<std::string, std::int64_t> seen;  // ordinals restart in every innermost module call
  for (std::size_t op = 0; op < keys.size(); ++op) {
    if (trace.ops.kind[op] != 0) continue;
    const auto call = trace.ops.module_call[op];
    std::string key = "s1|" + stack_text[row(call)] + "|";
    append_escaped(key, layer_type(trace, OpId{static_cast<std::uint32_t>(op)}));
    key += "|";
    if (trace.ops.num_slots[op] > 1) key += std::to_string(trace.ops.slot[op]);
    key += "|";
    const auto ordinal = ++seen[key + "#" + std::to_string(call)];
    keys[op] = key + std::to_string(ordinal);
  }
  return keys;
}

}  // namespace tl
