#include "table.h"

#include <algorithm>
#include <numeric>

#include "core/text.h"

namespace tl::cli {
namespace {

constexpr std::size_t kGap = 2;

/// Width of the first `count` columns with the gaps between them.
std::size_t total_width(const std::vector<std::size_t>& widths, std::size_t count) {
  const auto end = widths.begin() + static_cast<std::ptrdiff_t>(count);
  return std::accumulate(widths.begin(), end, std::size_t{0}) + (count > 0 ? kGap * (count - 1) : 0);
}

}  // namespace

std::string Table::row_text(const Row& row, const std::vector<std::size_t>& widths) const {
  std::string text;
  std::size_t column = 0;
  for (std::size_t i = 0; column < columns_.size(); ++i) {
    const auto span = i == 0 ? std::min(row.span, columns_.size()) : 1;
    const std::vector<std::size_t> covered(widths.begin() + static_cast<std::ptrdiff_t>(column),
                                           widths.begin() + static_cast<std::ptrdiff_t>(column + span));
    const auto width = total_width(covered, span);
    // Escaped first: what is cut and aligned must be what is printed.
    const auto cell = elide(i < row.cells.size() ? escape_for_terminal(row.cells[i]) : std::string(), width);
    const bool right = columns_[column].right && span == 1;
    text += (column > 0 ? std::string(kGap, ' ') : "") + (right ? pad_left(cell, width) : pad_right(cell, width));
    column += span;
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::vector<std::size_t> Table::natural_widths() const {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < columns_.size(); ++column) {
    std::size_t width = display_width(columns_[column].title);
    for (const auto& row : rows_) {
      if (column < row.span && row.span > 1) continue;
      const auto cell = column - (row.span - 1);
      if (cell < row.cells.size()) width = std::max(width, display_width(escape_for_terminal(row.cells[cell])));
    }
    const auto bound = columns_[column].max_width;
    widths.push_back(bound > 0 ? std::min(width, bound) : width);
  }
  return widths;
}

/// Takes from the widest column that may still give, until the table fits.
void Table::shrink(std::vector<std::size_t>& widths, std::size_t limit) const {
  while (total_width(widths, widths.size()) > limit) {
    std::size_t widest = widths.size();
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (columns_[i].min_width == 0 || widths[i] <= columns_[i].min_width) continue;
      if (widest == widths.size() || widths[i] > widths[widest]) widest = i;
    }
    if (widest == widths.size()) return;
    --widths[widest];
  }
}

void Table::widen_for_spans(std::vector<std::size_t>& widths) const {
  for (const auto& row : rows_) {
    if (row.span <= 1 || row.span > widths.size() || row.cells.empty()) continue;
    const auto needed = display_width(escape_for_terminal(row.cells[0]));
    const auto have = total_width(widths, row.span);
    if (needed > have) widths[row.span - 1] += needed - have;
  }
}

std::vector<std::size_t> Table::fitted_widths(const std::string& indent, std::size_t width) const {
  auto widths = natural_widths();
  widen_for_spans(widths);
  if (width > indent.size()) {
    shrink(widths, width - indent.size());
    widen_for_spans(widths);
  }
  return widths;
}

std::size_t Table::needed_width(const std::string& indent, std::size_t width) const {
  return indent.size() + total_width(fitted_widths(indent, width), columns_.size());
}

void Table::print(Output& out, const std::string& indent, std::size_t width) const {
  const auto widths = fitted_widths(indent, width);
  Row titles;
  for (const auto& column : columns_) titles.cells.push_back(column.title);
  out.line(indent + row_text(titles, widths));
  for (const auto& row : rows_) out.line(indent + row_text(row, widths));
}

}  // namespace tl::cli
