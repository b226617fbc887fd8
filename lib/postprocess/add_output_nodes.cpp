// Before: ops hold what ran; what the model returned is a list of leaves beside them. After: every returned tensor is a
// row of kind output at the end of ops, in structural order, whose parent is the Op that made the value and whose
// payload is that Op's, and so are its statistics. A returned input has the input as parent; a returned parameter has
// no parent and a row of param_uses. The root call's range covers the outputs. Here, before anything asks what feeds an
// output.
#include <algorithm>
#include <utility>

#include "postprocess/step.h"

namespace tl {
namespace {

std::int32_t signed_row(std::uint32_t id) { return static_cast<std::int32_t>(id); }

void append_output(Trace& trace, const CaptureOutput& output, std::int32_t number) {
  auto& ops = trace.ops;
  const bool has_producer = output.op != OpId::kNone;
  const auto producer = static_cast<std::size_t>(output.op);
  const auto row = trace.num_ops();
  const auto raw_index = ops.raw_index.empty() ? 1 : ops.raw_index.back() + 1;
  visit_ops(ops, [](std::string_view, auto& column, std::string_view, std::string_view) { column.push_back({}); });
  ops.kind.mut(row) = static_cast<std::uint8_t>(OpKind::kOutput);
  ops.instruction.mut(row) = -1;
  ops.num_slots.mut(row) = 1;
  ops.layer.mut(row) = -1;
  ops.branch.mut(row) = -1;
  ops.dtype.mut(row) = static_cast<std::uint8_t>(output.dtype);
  ops.device.mut(row) = static_cast<std::uint8_t>(output.device);
  ops.shape.mut(row) = signed_row(output.shape);
  ops.edge_begin.mut(row) = static_cast<std::int32_t>(trace.edges.parent.size());
  ops.args_begin.mut(row) = static_cast<std::int32_t>(trace.args.size());
  ops.payload.mut(row) = signed_row(output.payload);
  const bool inherits = has_producer && output.same_value && output.payload == PayloadId::kNone;
  if (inherits) ops.payload.mut(row) = ops.payload[producer];
  ops.sample.mut(row) = inherits && ops.payload[row] < 0 ? ops.sample[producer] : -1;
  if (output.uninitialised) ops.flags.mut(row) |= kOpUninitialised;
  ops.address.mut(row) = trace.strings.intern(output.role);
  ops.raw_index.mut(row) = raw_index;
  ops.type_index.mut(row) = number;
  for (auto* distance : {&ops.min_distance_from_input, &ops.max_distance_from_input, &ops.min_distance_to_output,
                         &ops.max_distance_to_output}) {
    distance->mut(row) = -1;
  }
  trace.op_seconds.push_back(0);
  if (has_producer) {
    ops.flags.mut(producer) |= kOpOutputParent;
    trace.edges.parent.push_back(signed_row(output.op));
    trace.edges.arg.push_back(0);
    trace.edges.sub.push_back(-1);
    if (const auto numbers = trace.statistics.find(producer))
      trace.statistics.append_copy(row, trace.statistics, *numbers);
  } else if (output.param != ParamId::kNone) {
    trace.param_uses.op.push_back(static_cast<std::int32_t>(row));
    trace.param_uses.param.push_back(signed_row(output.param));
    trace.param_uses.arg.push_back(0);
  }
}

}  // namespace

void add_output_nodes(StepContext& context) {
  auto& trace = context.trace;
  std::int32_t number = 0;
  for (const auto& output : std::exchange(context.capture.outputs, {})) {
    const bool is_tensor = output.scalar.empty();
    if (is_tensor) append_output(trace, output, ++number);
  }
  if (!trace.module_calls.end_op.empty()) {
    trace.module_calls.end_op.mut(0) = static_cast<std::int32_t>(trace.num_ops());
  }
}

}  // namespace tl
