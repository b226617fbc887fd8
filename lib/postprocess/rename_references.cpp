// Before: the facts of the run, written while it ran, name Ops by raw label (relu_1_4_raw). After: they name them by
// final label (relu_1_2:3). The label of an Op that remove-orphans dropped stays raw: it has no other. After
// assign-labels.
#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "postprocess/step.h"

namespace tl {
namespace {

/// The number before `_raw`; 0 if the text is no raw label.
std::int32_t raw_index_of(std::string_view label) {
  constexpr std::string_view kSuffix = "_raw";
  if (!label.ends_with(kSuffix)) return 0;
  label.remove_suffix(kSuffix.size());
  const auto digits = label.substr(label.rfind('_') + 1);
  std::int32_t index = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  return result.ec == std::errc{} && result.ptr == digits.data() + digits.size() ? index : 0;
}

void rename(const Trace& trace, std::string& label) {
  const auto raw_index = raw_index_of(label);
  const auto found = std::ranges::lower_bound(trace.ops.raw_index.view(), raw_index);
  const auto row = static_cast<std::size_t>(found - trace.ops.raw_index.view().begin());
  if (raw_index == 0 || row == trace.num_ops()) return;
  const OpId op{static_cast<std::uint32_t>(row)};
  if (raw_label(trace, op) == label) label = op_label(trace, op);
}

}  // namespace

void rename_references(StepContext& context) {
  auto& trace = context.trace;
  for (auto& label : trace.run.health.nonfinite) rename(trace, label);
  rename(trace, trace.run.outcome.boundary_label);
  rename(trace, trace.run.outcome.reason);
  for (auto& label : trace.run.outcome.frontier_labels) rename(trace, label);
}

}  // namespace tl
