#pragma once

#include <string_view>
#include <vector>

#include "analysis/summary.h"
#include "analysis/summary_tree.h"

namespace tl {

/// Turns a tree of calls into the rows of a summary: goes into what says little, folds repeated blocks, adds up what is
/// too long.
class SummaryRows {
 public:
  SummaryRows(SummaryTree& tree, const SummaryOptions& options) : tree_(tree), options_(options) {}

  /// Rows for the parts of a node.
  std::vector<SummaryRow> make(std::size_t base);

 private:
  /// Neighbours that make one row.
  struct Group {
    std::vector<std::size_t> members;
    std::string_view prefix;  ///< of folded ones: the address before the number
    std::string folded;       ///< `0-11`
    bool is_numbered = false;
    std::int64_t first = 0;  ///< number of the first member
    std::int64_t last = 0;
  };

  std::vector<std::size_t> parts_of(std::size_t base) const;
  std::vector<Group> fold(const std::vector<std::size_t>& parts) const;
  void emit(const std::vector<std::size_t>& parts, int depth, std::string_view above);
  void emit_group(const Group& group, int depth, std::string_view above);
  void emit_elided(const std::vector<Group>& groups, std::size_t begin, std::size_t end, int depth);
  bool are_alike(std::size_t one, std::size_t other) const;
  bool is_called(const SummaryNode& node, std::string_view address) const;
  SummaryRow row_of(std::size_t node, const Group& group, int depth, std::string_view above) const;
  int levels() const;

  SummaryTree& tree_;
  const SummaryOptions& options_;
  std::vector<SummaryRow> rows_;
};

}  // namespace tl
