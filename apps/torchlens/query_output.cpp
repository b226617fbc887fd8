#include "query_output.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/escape.h"
#include "core/text.h"
#include "field_text.h"

namespace tl::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxCell = 60;            ///< columns of a cell of text; longer ones are cut
constexpr std::size_t kWriteBytes = 64 * 1024;  ///< collected before they are written
constexpr std::string_view kMatchedByMeaning = "the term of the selector that took the row in";

std::string_view matched_by(const QueryResult& result, const SelectedRow& row) {
  return row.term < result.terms.size() ? std::string_view(result.terms[row.term]) : std::string_view();
}

/// The value of a cell; of kMatchedBy a text.
void get(const QueryResult& result, const QueryColumn& column, const SelectedRow& row, FieldValue& value) {
  if (column.field != nullptr) return column.field->get(result.context, row.row, value);
  if (const auto term = matched_by(result, row); !term.empty()) return value.set_text(term);
  value.set_none();
}

std::string cell_text(const QueryColumn& column, const FieldValue& value, bool for_people) {
  static constexpr Field kText{.name = QueryColumn::kMatchedBy, .type = FieldType::kString, .unit = {}, .meaning = {}};
  return field_text(column.field != nullptr ? *column.field : kText, value, for_people);
}

bool is_number(const QueryColumn& column) {
  return column.field != nullptr &&
         (column.field->type == FieldType::kInteger || column.field->type == FieldType::kReal);
}

/// Collects what goes out at once.
class Writer {
 public:
  explicit Writer(Output& out) : out_(out) {}
  ~Writer() { out_.raw(text_); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void line(std::string_view text) {
    text_.append(text).append("\n");
    if (text_.size() < kWriteBytes) return;
    out_.raw(text_);
    text_.clear();
  }

 private:
  Output& out_;
  std::string text_;
};

/// Calls visit(cells) for the titles, then for each row; cells are cut and escaped by `cell`.
template <typename Cell, typename Visit>
void each_row(const QueryResult& result, Cell cell, Visit visit) {
  std::vector<std::string> cells(result.columns.size());
  FieldValue value;
  for (const auto& row : result.rows) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      get(result, result.columns[i], row, value);
      cells[i] = cell(result.columns[i], value);
    }
    visit(cells);
  }
}

void print_text(Output& out, const QueryResult& result) {
  const auto cell = [](const QueryColumn& column, const FieldValue& value) {
    // Escaped first: what is cut and aligned must be what is printed.
    return elide(escape_for_terminal(cell_text(column, value, true)), kMaxCell);
  };
  std::vector<std::size_t> widths;
  std::vector<std::string> titles;
  for (const auto& column : result.columns) {
    titles.emplace_back(column.name());
    widths.push_back(column.name().size());
  }
  each_row(result, cell, [&](const std::vector<std::string>& cells) {
    for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], display_width(cells[i]));
  });
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) text += "  ";
      text += is_number(result.columns[i]) ? pad_left(cells[i], widths[i]) : pad_right(cells[i], widths[i]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  };
  Writer writer(out);
  writer.line(line(titles));
  each_row(result, cell, [&](const std::vector<std::string>& cells) { writer.line(line(cells)); });
}

/// Cells of csv and md: numbers as they are, everything else escaped by the rules of the format.
template <typename Escape>
auto escaped_cell(Escape escape) {
  return [escape](const QueryColumn& column, const FieldValue& value) {
    auto text = cell_text(column, value, false);
    const bool plain = is_number(column) || value.kind == FieldValue::Kind::kBool;
    return plain ? text : escape(text);
  };
}

void print_csv(Output& out, const QueryResult& result) {
  Writer writer(out);
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (std::size_t i = 0; i < cells.size(); ++i) text.append(i > 0 ? "," : "").append(cells[i]);
    writer.line(text);
  };
  std::vector<std::string> titles;
  for (const auto& column : result.columns) titles.emplace_back(column.name());
  line(titles);
  each_row(result, escaped_cell(escape_for_csv), line);
}

void print_markdown(Output& out, const QueryResult& result) {
  Writer writer(out);
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text = "|";
    for (const auto& cell : cells) text.append(" ").append(cell).append(" |");
    writer.line(text);
  };
  std::vector<std::string> titles;
  std::string rule = "|";
  for (const auto& column : result.columns) {
    titles.push_back(escape_for_markdown(column.name()));
    rule += is_number(column) ? " ---: |" : " --- |";
  }
  line(titles);
  writer.line(rule);
  each_row(result, escaped_cell(escape_for_markdown), line);
}

Json row_json(const QueryResult& result, const SelectedRow& row, FieldValue& value) {
  static constexpr Field kText{.name = QueryColumn::kMatchedBy, .type = FieldType::kString, .unit = {}, .meaning = {}};
  Json object = Json::object();
  for (const auto& column : result.columns) {
    get(result, column, row, value);
    object[std::string(column.name())] = field_json(column.field != nullptr ? *column.field : kText, value);
  }
  return object;
}

/// Strings of JSON are UTF-8; names from files may be any bytes.
void make_valid(Json& value) {
  if (value.is_string()) {
    value = escape_invalid_utf8(value.get_ref<const std::string&>());
  } else if (value.is_structured()) {
    for (auto& item : value) make_valid(item);
  }
}

void print_json_lines(Output& out, const QueryResult& result) {
  Writer writer(out);
  FieldValue value;
  for (const auto& row : result.rows) {
    auto object = row_json(result, row, value);
    make_valid(object);
    writer.line(escape_json_for_log(object.dump(-1, ' ', true)));
  }
}

}  // namespace

void print_query(Context& context, const QueryResult& result) {
  switch (context.format) {
    case Format::kCsv:
      return print_csv(context.out, result);
    case Format::kMarkdown:
      return print_markdown(context.out, result);
    case Format::kJsonl:
      return print_json_lines(context.out, result);
    default:
      return print_text(context.out, result);
  }
}

Json query_rows_json(const QueryResult& result) {
  Json rows = Json::array();
  FieldValue value;
  for (const auto& row : result.rows) rows.push_back(row_json(result, row, value));
  return rows;
}

Json columns_json(std::span<const QueryColumn> columns) {
  Json list = Json::array();
  for (const auto& column : columns) {
    const auto* field = column.field;
    list.push_back({{"name", column.name()},
                    {"type", to_string(field != nullptr ? field->type : FieldType::kString)},
                    {"unit", field != nullptr ? field->unit : ""},
                    {"meaning", field != nullptr ? field->meaning : kMatchedByMeaning}});
  }
  return list;
}

}  // namespace tl::cli
