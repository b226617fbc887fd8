#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "output.h"

namespace tl::cli {

/// Text in columns, each as wide as its widest cell and no wider than its bound.
class Table {
 public:
  struct ColumnSpec {
    std::string title;
    std::size_t max_width = 0;  ///< longer cells are cut; 0: no bound
    bool right = false;         ///< aligned to the right
  };

  explicit Table(std::vector<ColumnSpec> columns) : columns_(std::move(columns)) {}
  /// As many cells as columns; missing ones at the end are empty.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// Prints the titles and all rows, each behind `indent`.
  void print(Output& out, const std::string& indent) const;

 private:
  std::string row_text(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const;

  std::vector<ColumnSpec> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tl::cli
