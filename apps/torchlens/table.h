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
    std::size_t min_width = 0;  ///< where the table must become narrower, this column may down to that; 0: it may not
  };

  explicit Table(std::vector<ColumnSpec> columns) : columns_(std::move(columns)) {}
  /// As many cells as columns; missing ones at the end are empty.
  void add(std::vector<std::string> cells) { rows_.push_back({std::move(cells), 1}); }
  /// A row whose first cell stands over the first `span` columns, which are made wide enough for it; the other cells
  /// follow behind.
  void add_spanning(std::size_t span, std::vector<std::string> cells) { rows_.push_back({std::move(cells), span}); }
  /// Columns that print takes for the table where it has `width` of them; more, if the table cannot be so narrow.
  std::size_t needed_width(const std::string& indent, std::size_t width) const;
  /// Prints the titles and all rows, each behind `indent`, in at most `width` columns as far as the columns allow; 0:
  /// no limit.
  void print(Output& out, const std::string& indent, std::size_t width = 0) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    std::size_t span = 1;
  };

  std::vector<std::size_t> natural_widths() const;
  std::vector<std::size_t> fitted_widths(const std::string& indent, std::size_t width) const;
  void shrink(std::vector<std::size_t>& widths, std::size_t limit) const;
  void widen_for_spans(std::vector<std::size_t>& widths) const;
  std::string row_text(const Row& row, const std::vector<std::size_t>& widths) const;

  std::vector<ColumnSpec> columns_;
  std::vector<Row> rows_;
};

}  // namespace tl::cli
