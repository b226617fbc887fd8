#include "summary_table.h"

#include <algorithm>
#include <array>
#include <optional>

#include "core/text.h"
#include "table.h"
#include "text_format.h"

namespace tl::cli {
namespace {

constexpr std::size_t kMaxName = 44;
constexpr std::size_t kMinName = 14;
constexpr std::size_t kOperatorsNamed = 3;
constexpr std::size_t kColumnsUnderTotal = 3;

/// What a cell is made from: a row, or all rows together.
struct CellFacts {
  const Trace& trace;
  const TraceSummary& summary;
  const SummaryRow& row;
};

std::string count_text(std::int64_t count) {
  return count > 0 ? format_count(static_cast<std::uint64_t>(count)) : std::string("-");
}

std::string bytes_text(std::int64_t bytes) {
  return bytes > 0 ? format_bytes(static_cast<std::uint64_t>(bytes)) : std::string("-");
}

std::string share_text(double part, double whole) {
  if (!(whole > 0)) return "-";
  const auto permille = static_cast<std::int64_t>(1000 * part / whole + 0.5);
  return std::to_string(permille / 10) + "." + std::to_string(permille % 10) + " %";
}

std::string output_sizes(const CellFacts& facts) {
  const auto op = facts.row.output;
  if (!op.valid()) return "-";
  const auto sizes = facts.trace.shapes[facts.trace.ops.shape[op.index()]];
  return sizes.empty() ? "[]" : format_sizes(sizes);
}

using Cell = std::string (*)(const CellFacts&);

struct ColumnRow {
  SummaryColumn column;
  Cell cell;
};

const CostSum& cost(const CellFacts& facts) { return facts.row.cost; }

constexpr std::array kColumns = {
    ColumnRow{{"class", "class", "class of the module, or number of operations", false, false, 26, 8},
              [](const CellFacts& facts) { return facts.row.class_name; }},
    ColumnRow{{"output", "output", "sizes of the first output of the first call", false, false, 20, 8}, output_sizes},
    ColumnRow{{"calls", "calls", "how often it was called"},
              [](const CellFacts& facts) { return std::to_string(facts.row.calls); }},
    ColumnRow{{"ops", "ops", "operations inside"},
              [](const CellFacts& facts) { return count_text(cost(facts).num_ops); }},
    ColumnRow{{"params", "params", "elements of the distinct parameters below it"},
              [](const CellFacts& facts) { return count_text(facts.row.params.inclusive.elements); }},
    ColumnRow{{"weights", "weights", "bytes of the distinct parameters below it"},
              [](const CellFacts& facts) { return bytes_text(facts.row.params.inclusive.bytes); }},
    ColumnRow{{"flops", "FLOPs", "floating-point operations, a multiply-add counted as two"},
              [](const CellFacts& facts) { return format_flops(cost(facts).flops, cost(facts).uncounted_calls); }},
    ColumnRow{{"macs", "MACs", "multiply-adds"},
              [](const CellFacts& facts) { return format_flops(cost(facts).macs, cost(facts).uncounted_calls); }},
    ColumnRow{{"share", "share", "part of all counted FLOPs, in percent"},
              [](const CellFacts& facts) {
                if (cost(facts).uncounted_calls > 0 && cost(facts).flops == 0) return std::string("?");
                return share_text(static_cast<double>(cost(facts).flops),
                                  static_cast<double>(facts.summary.cost.flops));
              }},
    ColumnRow{{"read", "read", "bytes of the tensors that its operations were given"},
              [](const CellFacts& facts) { return bytes_text(cost(facts).bytes_read); }},
    ColumnRow{{"written", "written", "bytes of the tensors that its operations wrote"},
              [](const CellFacts& facts) { return bytes_text(cost(facts).bytes_written); }},
    ColumnRow{{"intensity", "FLOP/B", "FLOPs for each byte read or written"},
              [](const CellFacts& facts) {
                const auto bytes =
                    static_cast<double>(cost(facts).bytes_read) + static_cast<double>(cost(facts).bytes_written);
                return bytes > 0 ? format_number(static_cast<double>(cost(facts).flops) / bytes, 3) : std::string("-");
              }},
    ColumnRow{{"activations", "activations", "bytes of the values of its operations, views included"},
              [](const CellFacts& facts) { return bytes_text(cost(facts).activation_bytes); }},
    ColumnRow{{"saved", "saved", "bytes of the values and samples kept of its operations"},
              [](const CellFacts& facts) { return bytes_text(cost(facts).saved_bytes); }},
    ColumnRow{{"time", "time", "wall time", true},
              [](const CellFacts& facts) { return format_duration(cost(facts).seconds); }},
    ColumnRow{{"time_share", "of time", "part of the time of all rows, in percent", true},
              [](const CellFacts& facts) { return share_text(cost(facts).seconds, facts.summary.seconds); }},
    ColumnRow{{"rate", "FLOP/s", "counted FLOPs for each second", true},
              [](const CellFacts& facts) {
                const auto rate = static_cast<double>(cost(facts).flops) / cost(facts).seconds;
                return rate > 0 && rate < 1e18 ? format_count(static_cast<std::uint64_t>(rate)) : std::string("-");
              }},
};

constexpr auto kSpecs = [] {
  std::array<SummaryColumn, kColumns.size()> specs{};
  for (std::size_t i = 0; i < kColumns.size(); ++i) specs[i] = kColumns[i].column;
  return specs;
}();

std::vector<std::string> columns_of_view(const std::string& view) {
  if (view == "compute") return {"class", "ops", "flops", "share", "macs", "time", "rate"};
  if (view == "memory") return {"class", "weights", "read", "written", "activations", "saved"};
  return {"class", "output", "params", "flops", "time", "saved"};
}

std::vector<const ColumnRow*> chosen_columns(const SummaryScreenOptions& options) {
  std::vector<const ColumnRow*> chosen;
  for (const auto& name : options.columns.empty() ? columns_of_view(options.view) : options.columns) {
    const auto found = std::ranges::find(kColumns, name, [](const ColumnRow& row) { return row.column.name; });
    if (found != kColumns.end() && !(options.stable && found->column.is_time)) chosen.push_back(&*found);
  }
  return chosen;
}

/// The row that all rows come to.
SummaryRow total_row(const TraceSummary& summary) {
  SummaryRow row;
  row.calls = 1;
  row.cost.num_ops = summary.num_ops;
  row.cost.flops = summary.cost.flops;
  row.cost.macs = summary.cost.macs;
  for (const auto& uncounted : summary.cost.uncounted) row.cost.uncounted_calls += uncounted.calls;
  row.cost.bytes_read = summary.cost.bytes_read;
  row.cost.bytes_written = summary.cost.bytes_written;
  row.cost.saved_bytes = summary.saved_bytes;
  row.cost.seconds = summary.seconds;
  for (const auto& part : summary.rows) {
    if (part.depth > 0) continue;
    row.cost.activation_bytes = saturating_add(row.cost.activation_bytes, part.cost.activation_bytes);
  }
  row.params.inclusive = summary.params.all;
  return row;
}

std::string name_cell(const SummaryRow& row) {
  return std::string(2 * static_cast<std::size_t>(row.depth), ' ') + display_name(row);
}

/// How often a block was folded stands at the end of its name and must not be cut.
std::size_t least_name_width(const TraceSummary& summary) {
  std::size_t width = kMinName;
  for (const auto& row : summary.rows) {
    if (!row.folded.empty()) width = std::max(width, display_width(name_cell(row)));
  }
  return std::min(width, kMaxName);
}

void print_notes(Output& out, const Trace& trace, const TraceSummary& summary) {
  if (!summary.base.empty()) out.line("  the parts of " + summary.base);
  const auto& uncounted = summary.cost.uncounted;
  std::string names;
  for (std::size_t i = 0; i < std::min(uncounted.size(), kOperatorsNamed); ++i) {
    names += (i > 0 ? ", " : "") + uncounted[i].name + " ×" + std::to_string(uncounted[i].calls);
  }
  if (uncounted.size() > kOperatorsNamed)
    names += " and " + std::to_string(uncounted.size() - kOperatorsNamed) + " more";
  if (!names.empty()) out.line("  FLOPs are a lower bound: no count for " + names);
  const auto& params = summary.params;
  if (params.tied > 0) out.line("  " + counted(params.tied, "tied tensor") + " counted once in the total");
  if (const auto unused = params.all.elements - params.used.elements; unused > 0) {
    out.line("  " + format_count(static_cast<std::uint64_t>(unused)) + " of the parameters were not read");
  }
  const auto& memory = summary.memory;
  if (!memory.peak_op.valid()) return;
  out.line("  peak " + format_bytes(static_cast<std::uint64_t>(memory.peak_bytes)) + " of live activations at " +
           op_label(trace, memory.peak_op));
  out.line("  " + format_bytes(static_cast<std::uint64_t>(memory.total_bytes)) +
           " of activations and inputs if none were freed");
}

/// `says_ops` puts the number of ops and layers into the line of the total; nullopt where too few columns stand below
/// it.
std::optional<Table> summary_table(const Trace& trace, const TraceSummary& summary, const SummaryScreenOptions& options,
                                   bool says_ops) {
  const auto columns = chosen_columns(options);
  std::vector<Table::ColumnSpec> specs = {{"module", kMaxName, false, least_name_width(summary)}};
  std::size_t leading = 1;
  for (const auto* entry : columns) {
    const auto& column = entry->column;
    specs.push_back({std::string(column.title), column.max_width, column.right, column.min_width});
    if (leading == specs.size() - 1 && !column.right) ++leading;
  }
  if (says_ops && leading < kColumnsUnderTotal) return std::nullopt;
  Table table(std::move(specs));
  for (const auto& row : summary.rows) {
    std::vector<std::string> cells = {name_cell(row)};
    for (const auto* entry : columns) cells.push_back(entry->cell({trace, summary, row}));
    table.add(std::move(cells));
  }
  const auto total = total_row(summary);
  std::vector<std::string> cells = {says_ops ? "total  " + ops_and_layers(summary) : "total"};
  for (std::size_t i = leading - 1; i < columns.size(); ++i) {
    cells.push_back(columns[i]->column.right ? columns[i]->cell({trace, summary, total}) : std::string());
  }
  table.add_spanning(leading, std::move(cells));
  return table;
}

}  // namespace

std::span<const SummaryColumn> summary_columns() { return kSpecs; }

bool is_summary_column(std::string_view name) {
  return std::ranges::find(kSpecs, name, &SummaryColumn::name) != kSpecs.end();
}

std::string summary_column_names() {
  std::string names;
  for (const auto& column : kSpecs) names += (names.empty() ? "" : ",") + std::string(column.name);
  return names;
}

std::string ops_and_layers(const TraceSummary& summary) {
  auto text = counted(summary.num_ops, "op") + ", " + counted(summary.num_layers, "layer");
  if (summary.num_recurrent == 0) return text;
  text += " (" + std::to_string(summary.num_recurrent) + " run ";
  if (summary.max_passes == 2) return text + "twice)";
  if (summary.min_passes < summary.max_passes) text += std::to_string(summary.min_passes) + "-";
  return text + std::to_string(summary.max_passes) + " times)";
}

std::string format_flops(std::int64_t count, std::int64_t uncounted_calls) {
  if (uncounted_calls == 0) return count_text(count);
  return count > 0 ? "≥ " + count_text(count) : std::string("?");
}

void print_summary_table(Output& out, const Trace& trace, const TraceSummary& summary,
                         const SummaryScreenOptions& options) {
  constexpr const char* kIndent = "  ";
  // The total stands over the first columns, where that makes the table no wider, else below the table.
  auto table = summary_table(trace, summary, options, true);
  const bool fits = table && (out.width() == 0 || table->needed_width(kIndent, out.width()) <= out.width());
  if (!fits) table = summary_table(trace, summary, options, false);
  table->print(out, kIndent, out.width());
  if (!fits) out.line(kIndent + ops_and_layers(summary));
  print_notes(out, trace, summary);
}

}  // namespace tl::cli
