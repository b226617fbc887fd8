#include "select/row_links.h"

#include <algorithm>

namespace tl {
namespace {

using Marks = std::vector<std::uint16_t>;

std::size_t at(std::int32_t value) { return static_cast<std::size_t>(value); }

void mark(Marks& rows, std::int32_t row, std::uint16_t value) {
  if (row >= 0 && at(row) < rows.size() && rows[at(row)] == 0) rows[at(row)] = value;
}

/// Rows that a column of ops refers to.
void mark_referred(Marks& rows, const Column<std::int32_t>& column, const Marks& ops) {
  for (std::size_t op = 0; op < ops.size(); ++op) {
    if (ops[op] != 0) mark(rows, column[op], ops[op]);
  }
}

/// Rows that refer to an Op.
void mark_referring(Marks& rows, const Column<std::int32_t>& column, const Marks& ops) {
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (column[row] >= 0 && at(column[row]) < ops.size()) rows[row] = ops[at(column[row])];
  }
}

void mark_edges(Marks& rows, const Trace& trace, const Marks& ops) {
  for (std::size_t op = 0; op < ops.size(); ++op) {
    if (ops[op] == 0) continue;
    const auto [begin, end] = edge_range(trace, OpId{static_cast<std::uint32_t>(op)});
    for (auto edge = begin; edge < end; ++edge) rows[edge] = ops[op];
  }
}

void mark_buffers(Marks& rows, const Trace& trace, const Marks& ops) {
  std::vector<std::int32_t> row_of_address(trace.strings.size(), -1);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (trace.buffers.address[row] >= 0)
      row_of_address[at(trace.buffers.address[row])] = static_cast<std::int32_t>(row);
  }
  for (std::size_t op = 0; op < ops.size(); ++op) {
    if (ops[op] == 0 || static_cast<OpKind>(trace.ops.kind[op]) != OpKind::kBuffer || trace.ops.address[op] < 0)
      continue;
    mark(rows, row_of_address[at(trace.ops.address[op])], ops[op]);
  }
}

/// Loops: the first marked Op of their range, found by the next marked Op after each place.
void mark_ranges(Marks& rows, const Column<std::int32_t>& first, const Column<std::int32_t>& end, const Marks& ops) {
  std::vector<std::uint32_t> next(ops.size() + 1, static_cast<std::uint32_t>(ops.size()));
  for (auto op = ops.size(); op-- > 0;) next[op] = ops[op] != 0 ? static_cast<std::uint32_t>(op) : next[op + 1];
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (first[row] < 0 || at(first[row]) >= ops.size()) continue;
    const auto found = next[at(first[row])];
    if (found < ops.size() && static_cast<std::int64_t>(found) < end[row]) rows[row] = ops[found];
  }
}

/// Rows of a table that rows of another refer to, whose marks are there.
Marks through(const Marks& marks, const Column<std::int32_t>& column, std::size_t rows) {
  Marks result(rows, 0);
  for (std::size_t row = 0; row < marks.size(); ++row) {
    if (marks[row] != 0) mark(result, column[row], marks[row]);
  }
  return result;
}

/// True if `all`, separated by commas, has `wanted`.
bool lists(std::string_view all, std::string_view wanted) {
  for (std::size_t begin = 0; begin <= all.size();) {
    const auto end = std::min(all.find(',', begin), all.size());
    if (all.substr(begin, end - begin) == wanted) return true;
    begin = end + 1;
  }
  return false;
}

/// The module that has a parameter of that address.
std::optional<std::size_t> module_at(const Trace& trace, std::string_view address) {
  const auto dot = address.rfind('.');
  const auto wanted = dot == std::string_view::npos ? std::string_view("self") : address.substr(0, dot);
  for (std::size_t row = 0; row < trace.modules.address.size(); ++row) {
    const auto own = trace.modules.address[row];
    const auto all = trace.modules.all_addresses[row];
    if (trace.strings[own] == wanted || (all >= 0 && all != own && lists(trace.strings[all], wanted))) return row;
  }
  return std::nullopt;
}

}  // namespace

Marks rows_of_ops(const FieldContext& context, TableId table, const Marks& ops) {
  const auto& trace = context.trace();
  if (table == TableId::k_ops) return ops;
  Marks rows(num_rows(trace, table), 0);
  switch (table) {
    case TableId::k_ops:
      break;
    case TableId::k_edges:
      mark_edges(rows, trace, ops);
      break;
    case TableId::k_param_uses:
      mark_referring(rows, trace.param_uses.op, ops);
      break;
    case TableId::k_instructions:
      mark_referred(rows, trace.ops.instruction, ops);
      break;
    case TableId::k_call_sites:
      return through(rows_of_ops(context, TableId::k_instructions, ops), trace.instructions.call_site, rows.size());
    case TableId::k_site_contexts:
      mark_referred(rows, trace.ops.site_context, ops);
      break;
    case TableId::k_layers:
      mark_referred(rows, trace.ops.layer, ops);
      break;
    case TableId::k_layer_ops:
      mark_referring(rows, trace.layer_ops.op, ops);
      break;
    case TableId::k_modules:
      return through(rows_of_ops(context, TableId::k_module_calls, ops), trace.module_calls.module, rows.size());
    case TableId::k_module_calls:
      mark_referred(rows, trace.ops.module_call, ops);
      break;
    case TableId::k_params:
      return through(rows_of_ops(context, TableId::k_param_uses, ops), trace.param_uses.param, rows.size());
    case TableId::k_buffers:
      mark_buffers(rows, trace, ops);
      break;
    case TableId::k_branches:
      mark_referred(rows, trace.ops.branch, ops);
      break;
    case TableId::k_conditionals:
      return through(rows_of_ops(context, TableId::k_branches, ops), trace.branches.conditional, rows.size());
    case TableId::k_conditional_arms:
      return through(rows_of_ops(context, TableId::k_branches, ops), trace.branches.conditional_arm, rows.size());
    case TableId::k_bools:
      mark_referring(rows, trace.bools.op, ops);
      break;
    case TableId::k_loops:
      mark_ranges(rows, trace.loops.first_op, trace.loops.end_op, ops);
      break;
    case TableId::k_flow:
      mark_referring(rows, trace.flow.before_op, ops);
      break;
    case TableId::k_payloads:
      mark_referred(rows, trace.ops.payload, ops);
      break;
    default:  // a table that no Op belongs to
      break;
  }
  return rows;
}

std::vector<ParamPlace> places_of_param(const Trace& trace, std::size_t param) {
  std::vector<ParamPlace> places;
  const auto& params = trace.params;
  if (params.module[param] >= 0) places.push_back({at(params.module[param]), trace.strings[params.address[param]]});
  if (params.all_addresses[param] < 0 || params.all_addresses[param] == params.address[param]) return places;
  const auto all = trace.strings[params.all_addresses[param]];
  for (std::size_t begin = 0; begin < all.size();) {
    const auto end = std::min(all.find(',', begin), all.size());
    const auto address = all.substr(begin, end - begin);
    begin = end + 1;
    if (const auto module = module_at(trace, address)) {
      if (places.empty() || *module != places.front().module) places.push_back({*module, address});
    }
  }
  return places;
}

std::optional<ModuleColumn> module_column(const Trace& trace, TableId table) {
  switch (table) {
    case TableId::k_modules:
      return ModuleColumn{.column = nullptr, .own = true};
    case TableId::k_module_calls:
      return ModuleColumn{.column = &trace.module_calls.module};
    case TableId::k_params:
      return ModuleColumn{.column = &trace.params.module};
    case TableId::k_buffers:
      return ModuleColumn{.column = &trace.buffers.module};
    case TableId::k_site_contexts:
      return ModuleColumn{.column = &trace.site_contexts.module};
    default:
      return std::nullopt;
  }
}

}  // namespace tl
