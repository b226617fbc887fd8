// Before: everything is computed. After: the columns hold little spare capacity and the trace says that it is finished;
// nothing changes a column from here on. Last.
#include "postprocess/step.h"

namespace tl {

void freeze(StepContext& context) {
  auto& trace = context.trace;
  // A copy costs as much as a step, so an eighth to spare is left alone.
  const auto shrink = [](auto& column) {
    auto& rows = column.rows();
    if (rows.capacity() - rows.size() <= rows.size() / 8) return;
    rows.shrink_to_fit();
    column.refresh();
  };
  for_each_table(trace, [&](std::string_view, auto& rows, auto&& visit) {
    visit(rows, [&](std::string_view, auto& column, std::string_view, std::string_view) { shrink(column); });
  });
  shrink(trace.args);
  shrink(trace.flow_args);
  shrink(trace.op_seconds);
  shrink(trace.module_call_seconds);
  trace.finished = true;
}

}  // namespace tl
