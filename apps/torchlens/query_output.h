#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "command.h"
#include "select/fields.h"
#include "select/selection.h"

namespace tl::cli {

/// A column of the result: a field of the table, or the term of the selector that took a row in.
struct QueryColumn {
  static constexpr std::string_view kMatchedBy = "matched_by";

  const Field* field = nullptr;  ///< nullptr: kMatchedBy
  std::string_view name() const { return field != nullptr ? field->name : kMatchedBy; }
};

/// The rows that a query shows, and what is needed to show them.
struct QueryResult {
  const FieldContext& context;
  TableId table;
  std::vector<QueryColumn> columns;
  std::vector<SelectedRow> rows;   ///< in the order of the result, cut by --limit
  std::vector<std::string> terms;  ///< of the selector
  std::size_t matched = 0;         ///< rows before --limit
};

/// Writes the rows as text, csv, jsonl or md, row by row: memory does not grow with their number. JSON is written by
/// the command, as an envelope around query_rows_json.
void print_query(Context& context, const QueryResult& result);

/// The rows as objects, keys being the columns.
nlohmann::ordered_json query_rows_json(const QueryResult& result);

/// What each column of a list holds: name, type, unit, meaning.
nlohmann::ordered_json columns_json(std::span<const QueryColumn> columns);

}  // namespace tl::cli
