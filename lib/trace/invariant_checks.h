#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "trace/invariants.h"
#include "trace/trace.h"

namespace tl {

/// Findings as they are collected; a family that floods is cut.
class Findings {
 public:
  void add(std::string_view check, const std::string& message);
  bool empty() const { return list_.empty(); }
  std::vector<Finding> take() { return std::move(list_); }

 private:
  static constexpr std::size_t kMost = 20;
  std::string last_check_;
  std::size_t of_last_ = 0;
  std::vector<Finding> list_;
};

/// Lengths, ranges of every row number and string code, monotone begins, packed arguments. All others need it to be
/// clean.
void check_ranges(const Trace& trace, Findings& findings);

void check_edges(const Trace& trace, Findings& findings);
void check_order(const Trace& trace, Findings& findings);
void check_slots(const Trace& trace, Findings& findings);
void check_distances(const Trace& trace, Findings& findings);
void check_op_kinds(const Trace& trace, Findings& findings);

void check_passes(const Trace& trace, Findings& findings);
void check_labels(const Trace& trace, Findings& findings);
void check_modules(const Trace& trace, Findings& findings);
void check_contexts(const Trace& trace, Findings& findings);
void check_buffers(const Trace& trace, Findings& findings);
void check_branches(const Trace& trace, Findings& findings);
void check_payloads(const Trace& trace, Findings& findings);

}  // namespace tl
