#include "trace/invariants.h"

#include "trace/invariant_checks.h"

namespace tl {

void Findings::add(std::string_view check, const std::string& message) {
  if (check != last_check_) {
    last_check_ = check;
    of_last_ = 0;
  }
  if (++of_last_ < kMost) list_.push_back({std::string(check), message});
  if (of_last_ == kMost) list_.push_back({std::string(check), "more findings of this kind are left out"});
}

std::vector<Finding> check_invariants(const Trace& trace) {
  Findings findings;
  check_ranges(trace, findings);
  if (!findings.empty()) return findings.take();
  constexpr void (*kChecks[])(const Trace&, Findings&) = {
      check_edges,  check_order,   check_slots,    check_distances, check_op_kinds, check_passes,
      check_labels, check_modules, check_contexts, check_buffers,   check_branches, check_payloads,
  };
  for (const auto check : kChecks) check(trace, findings);
  return findings.take();
}

}  // namespace tl
