#include "support/trace_fixtures.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "trace/args.h"
#include "trace/text.h"

namespace tl::test {
namespace {

void append(BlockList<std::int64_t>& args, std::span<const std::int64_t> words) {
  for (const auto word : words) args.push_back(word);
}

void fill_branches_and_loops(const Trace& trace, Capture& capture) {
  for (std::size_t row = 0; row < trace.branches.arm.size(); ++row) {
    const auto conditional = static_cast<std::size_t>(trace.branches.conditional[row]);
    capture.branches.push_back({static_cast<std::uint32_t>(trace.conditionals.instruction[conditional]),
                                static_cast<std::uint32_t>(trace.conditionals.site_context[conditional]),
                                static_cast<std::uint32_t>(trace.branches.module_call[row]),
                                static_cast<std::uint32_t>(trace.branches.test_op[row]),
                                static_cast<std::uint32_t>(trace.branches.first_op[row]),
                                static_cast<std::uint32_t>(trace.branches.end_op[row]), trace.branches.arm[row]});
  }
  for (std::size_t row = 0; row < trace.loops.iterations.size(); ++row) {
    capture.loops.push_back({static_cast<std::uint32_t>(trace.loops.instruction[row]),
                             static_cast<std::uint32_t>(trace.loops.module_call[row]),
                             static_cast<std::uint32_t>(trace.loops.iterations[row]),
                             static_cast<std::uint32_t>(trace.loops.first_op[row]),
                             static_cast<std::uint32_t>(trace.loops.end_op[row])});
  }
}

CaptureOutput output_of(const Trace& trace, std::size_t op) {
  CaptureOutput output;
  output.role = trace.strings[trace.ops.address[op]];
  const auto sources = parents(trace, OpId{static_cast<std::uint32_t>(op)});
  if (!sources.empty()) output.op = sources[0].value;
  const auto uses = trace.param_uses.op.view();
  const auto use = std::ranges::find(uses, static_cast<std::int32_t>(op));
  if (use != uses.end()) {
    output.param = static_cast<std::uint32_t>(trace.param_uses.param[static_cast<std::size_t>(use - uses.begin())]);
  }
  output.shape = static_cast<std::uint32_t>(trace.ops.shape[op]);
  output.payload = static_cast<std::uint32_t>(trace.ops.payload[op]);
  output.dtype = static_cast<DType>(trace.ops.dtype[op]);
  return output;
}

void append_event(const Trace& trace, std::size_t op, Capture& capture) {
  const auto& ops = trace.ops;
  CaptureEvent event;
  event.instruction = static_cast<std::uint32_t>(ops.instruction[op]);
  event.site_context = static_cast<std::uint32_t>(ops.site_context[op]);
  event.module_call = static_cast<std::uint32_t>(ops.module_call[op]);
  event.shape = static_cast<std::uint32_t>(ops.shape[op]);
  event.edge_begin = static_cast<std::uint32_t>(capture.edges.size());
  event.args_begin = static_cast<std::uint32_t>(capture.args.size());
  event.payload = static_cast<std::uint32_t>(ops.payload[op]);
  event.address = static_cast<std::uint32_t>(ops.address[op]);
  event.flags = ops.flags[op];
  event.slot = ops.slot[op];
  event.num_slots = ops.num_slots[op];
  event.kind = static_cast<OpKind>(ops.kind[op]);
  event.dtype = static_cast<DType>(ops.dtype[op]);
  event.device = static_cast<DeviceKind>(ops.device[op]);
  event.duration_ns = trace.op_seconds.empty() ? 0 : static_cast<std::uint32_t>(trace.op_seconds[op] * 1e9F);
  capture.events.push_back(event);
  const auto [begin, end] = edge_range(trace, OpId{static_cast<std::uint32_t>(op)});
  for (auto edge = begin; edge < end; ++edge) {
    capture.edges.push_back(
        {static_cast<std::uint32_t>(trace.edges.parent[edge]), trace.edges.arg[edge], trace.edges.sub[edge]});
  }
  append(capture.args, op_args(trace, OpId{static_cast<std::uint32_t>(op)}));
}

}  // namespace

Capture capture_from_trace(const Trace& trace) {
  Capture capture;
  capture.strings = trace.strings;
  capture.shapes = trace.shapes;
  capture.instructions = trace.instructions;
  capture.call_sites = trace.call_sites;
  capture.site_contexts = trace.site_contexts;
  capture.modules = trace.modules;
  capture.params = trace.params;
  capture.buffers = trace.buffers;
  capture.module_calls = trace.module_calls;
  capture.module_call_seconds.assign(trace.module_call_seconds.begin(), trace.module_call_seconds.end());
  capture.run = trace.run;
  capture.payloads = trace.payload_source;
  capture.flow = trace.flow;
  append(capture.flow_args, trace.flow_args.view());
  for (std::size_t op = 0; op < trace.num_ops(); ++op) {
    if (trace.ops.kind[op] == static_cast<std::uint8_t>(OpKind::kOutput)) {
      capture.outputs.push_back(output_of(trace, op));
      continue;
    }
    append_event(trace, op, capture);
  }
  for (std::size_t row = 0; row < trace.param_uses.op.size(); ++row) {
    const auto op = static_cast<std::uint32_t>(trace.param_uses.op[row]);
    if (trace.ops.kind[op] == static_cast<std::uint8_t>(OpKind::kOutput)) continue;
    capture.param_uses.push_back(
        {op, static_cast<std::uint32_t>(trace.param_uses.param[row]), trace.param_uses.arg[row]});
  }
  fill_branches_and_loops(trace, capture);
  return capture;
}

Capture capture_from_text(const std::string& text) { return capture_from_trace(trace_from_text(text)); }

std::vector<SourceText> source_texts(const std::filesystem::path& path) {
  constexpr std::string_view kHead = "#source ";
  std::vector<SourceText> sources;
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kHead)) {
      std::stringstream head(line.substr(kHead.size()));
      head >> sources.emplace_back().first_line >> sources.back().file;
    } else if (!sources.empty()) {
      sources.back().text += line + "\n";
    }
  }
  return sources;
}

std::vector<std::string> labels(const Trace& trace) {
  std::vector<std::string> result;
  for (std::uint32_t op = 0; op < trace.num_ops(); ++op) result.push_back(op_label(trace, OpId{op}));
  return result;
}

std::string shared_file(const std::string& name) {
  const auto path = std::filesystem::path(TL_SHARED_DIR) / name;
  return std::filesystem::exists(path) ? path.string() : std::string();
}

}  // namespace tl::test
