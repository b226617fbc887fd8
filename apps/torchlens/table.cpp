#include "table.h"

#include <algorithm>

#include "core/text.h"

namespace tl::cli {

std::string Table::row_text(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const {
  std::string text;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    // Escaped first: what is cut and aligned must be what is printed.
    const auto cell = elide(i < cells.size() ? escape_for_terminal(cells[i]) : std::string(), widths[i]);
    text += (i > 0 ? "  " : "") + (columns_[i].right ? pad_left(cell, widths[i]) : pad_right(cell, widths[i]));
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

void Table::print(Output& out, const std::string& indent) const {
  std::vector<std::size_t> widths;
  std::vector<std::string> titles;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = display_width(columns_[i].title);
    for (const auto& row : rows_) {
      if (i < row.size()) width = std::max(width, display_width(escape_for_terminal(row[i])));
    }
    widths.push_back(columns_[i].max_width > 0 ? std::min(width, columns_[i].max_width) : width);
    titles.push_back(columns_[i].title);
  }
  out.line(indent + row_text(titles, widths));
  for (const auto& row : rows_) out.line(indent + row_text(row, widths));
}

}  // namespace tl::cli
