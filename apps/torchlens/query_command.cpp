#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "command.h"
#include "core/error.h"
#include "core/text.h"
#include "json_output.h"
#include "query_output.h"
#include "query_sort.h"
#include "screen.h"
#include "select/selection.h"
#include "table.h"
#include "tlspec/reader.h"

namespace tl::cli {
namespace {

using Json = nlohmann::ordered_json;

struct QueryOptions {
  std::string path;
  std::string selector;
  std::string table = "ops";
  std::vector<std::string> columns;
  std::vector<std::string> sort;
  std::optional<std::int64_t> limit;
  bool list_columns = false;
  bool allow_empty = false;
};

std::string joined(std::span<const std::string> names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

TableId table_of(const QueryOptions& options) {
  if (const auto table = table_from_name(options.table)) return *table;
  std::vector<std::string> names(table_names().begin(), table_names().end());
  const auto close = did_you_mean(options.table, names);
  throw Error(ErrorCode::kUsage, "unknown table '" + options.table + "'",
              close.empty() ? "the tables are " + joined(names) : "did you mean " + joined(close) + "?");
}

/// A field by its name, which a user typed.
const Field& field_named(TableId table, const std::string& name) {
  if (const auto* field = find_field(table, name)) return *field;
  std::vector<std::string> names;
  for (const auto& field : fields_of(table)) names.emplace_back(field.name);
  const auto close = did_you_mean(name, names);
  throw Error(ErrorCode::kUnknownField, "'" + name + "': " + std::string(to_string(table)) + " have no such field",
              close.empty() ? "--list-columns shows the fields" : "did you mean " + joined(close) + "?");
}

std::vector<QueryColumn> all_columns(TableId table) {
  std::vector<QueryColumn> columns;
  for (const auto& field : fields_of(table)) columns.push_back({&field});
  return columns;
}

std::vector<QueryColumn> columns_of(const QueryOptions& options, TableId table) {
  if (options.columns.empty()) {
    const auto names = default_columns(table);
    if (names.empty()) return all_columns(table);
    std::vector<QueryColumn> columns;
    for (const auto name : names) columns.push_back({&field_named(table, std::string(name))});
    return columns;
  }
  std::vector<QueryColumn> columns;
  for (const auto& name : options.columns) {
    if (name == "all") {
      const auto all = all_columns(table);
      columns.insert(columns.end(), all.begin(), all.end());
    } else {
      columns.push_back({name == QueryColumn::kMatchedBy ? nullptr : &field_named(table, name)});
    }
  }
  return columns;
}

/// numel, -numel, numel:desc
SortKey sort_key(TableId table, std::string text) {
  bool descending = false;
  if (text.ends_with(":desc") || text.ends_with(":asc")) {
    descending = text.ends_with(":desc");
    text.erase(text.rfind(':'));
  } else if (text.starts_with('-')) {
    descending = true;
    text.erase(0, 1);
  }
  if (const auto colon = text.find(':'); colon != std::string::npos && find_field(table, text.substr(0, colon))) {
    throw Error(ErrorCode::kUsage, "--sort " + text + ": '" + text.substr(colon + 1) + "' is no order",
                "write " + text.substr(0, colon) + ":asc or " + text.substr(0, colon) + ":desc");
  }
  return {&field_named(table, text), descending};
}

std::vector<SelectedRow> every_row(const Trace& trace, TableId table) {
  std::vector<SelectedRow> rows(num_rows(trace, table));
  for (std::size_t row = 0; row < rows.size(); ++row) rows[row] = {static_cast<std::uint32_t>(row), Site::kNoTerm};
  return rows;
}

int list_columns(TableId table, Context& context) {
  const auto columns = all_columns(table);
  if (context.format == Format::kJson) {
    context.out.raw(json_envelope("query", true, {{"table", to_string(table)}, {"columns", columns_json(columns)}}));
    return 0;
  }
  if (context.format != Format::kText) {
    throw Error(ErrorCode::kUsage, "--list-columns is text or json", "--format json");
  }
  Table list({{"column"}, {"type"}, {"unit"}, {"meaning"}});
  for (const auto& column : columns) {
    const auto& field = *column.field;
    list.add({std::string(field.name), std::string(to_string(field.type)), std::string(field.unit),
              std::string(field.meaning)});
  }
  list.print(context.out, "");
  return 0;
}

void print(const QueryOptions& options, const std::optional<Selector>& selector, const QueryResult& result,
           Context& context) {
  const auto& trace = result.context.trace();
  if (context.format == Format::kJson) {
    Json body = {{"trace", options.path},
                 {"table", to_string(result.table)},
                 {"selector", selector ? Json(selector->text()) : Json(nullptr)},
                 {"matched", result.matched},
                 {"columns", columns_json(result.columns)},
                 {"rows", query_rows_json(result)}};
    if (!trace.run.outcome.complete()) body["outcome"] = outcome_json(trace.run.outcome);
    context.out.raw(json_envelope("query", true, body));
    return;
  }
  print_query(context, result);
  context.out.flush();
  if (context.quiet()) return;
  auto counts = std::to_string(result.matched) + " of " + std::to_string(num_rows(trace, result.table)) + " " +
                std::string(to_string(result.table));
  if (result.rows.size() < result.matched) counts += ", " + std::to_string(result.rows.size()) + " shown";
  context.err.line(counts);
  print_partial(context.err, trace.run.outcome);
}

int query(const QueryOptions& options, Context& context) {
  const auto table = table_of(options);
  if (options.list_columns) return list_columns(table, context);
  if (options.path.empty()) {
    throw Error(ErrorCode::kUsage, "nothing to query", "torchlens query TRACE [SELECTOR]");
  }
  // What was typed is checked before the recording is read.
  if (options.limit && *options.limit < 0) {
    throw Error(ErrorCode::kUsage, "--limit " + std::to_string(*options.limit) + ": a number of rows is not negative",
                "leave it out for all rows");
  }
  const auto selector = options.selector.empty() ? std::nullopt : std::optional(Selector::parse(options.selector));
  auto columns = columns_of(options, table);
  std::vector<SortKey> keys;
  for (const auto& text : options.sort) keys.push_back(sort_key(table, text));

  const auto trace = read_tlspec(options.path, {.payloads = false});
  const FieldContext fields(trace);
  QueryResult result{.context = fields, .table = table, .columns = std::move(columns), .rows = {}, .terms = {}};
  if (selector) {
    result.terms = term_texts(*selector);
    result.rows = select_rows(*selector, fields, table, options.allow_empty ? NoMatch::kAllow : NoMatch::kRefuse);
  } else {
    result.rows = every_row(trace, table);
  }
  result.matched = result.rows.size();
  const auto shown =
      options.limit ? std::min(static_cast<std::size_t>(*options.limit), result.matched) : result.matched;
  if (!keys.empty()) sort_rows(fields, keys, result.rows, shown);
  result.rows.resize(shown);
  print(options, selector, result, context);
  return 0;
}

}  // namespace

Runner add_query_command(CLI::App& app) {
  auto options = std::make_shared<QueryOptions>();
  app.add_option("TRACE", options->path, "a recording (.tlspec)")->type_name("");
  app.add_option("SELECTOR", options->selector, "which rows; all if left out. docs/selectors.md has the grammar")
      ->type_name("");
  app.add_option("--table", options->table,
                 "ops, layers, modules, module-calls, params, buffers, conditionals, edges, flow, payloads …")
      ->type_name("TABLE")
      ->group("Query");
  app.add_option("--columns", options->columns, "fields to show, by comma; all: every field")
      ->type_name("LIST")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group("Query");
  app.add_option("--sort", options->sort, "fields to sort by, by comma; numel:desc for the largest first")
      ->type_name("LIST")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group("Query");
  app.add_option("--limit", options->limit, "rows to show at most")->type_name("N")->group("Query");
  app.add_flag("--list-columns", options->list_columns, "the fields of the table with type, unit and meaning")
      ->group("Query");
  app.add_flag("--allow-empty", options->allow_empty, "a selector that matches nothing is no error")->group("Query");
  return [options](Context& context) { return query(*options, context); };
}

}  // namespace tl::cli
