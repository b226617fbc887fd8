#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "core/escape.h"
#include "core/text.h"
#include "diff/report_parts.h"
#include "diff/reports.h"
#include "tensor/metric.h"

namespace tl {
namespace {

using report::counted;
using report::short_number;

constexpr std::size_t kMarkdownRows = 20;

/// The rows of a CSV file. Numbers go in as they are, text through the escapes.
class CsvRow {
 public:
  void text(std::string_view cell) { add(escape_for_csv(cell)); }
  void number(double value) { add(report::exact_number(value)); }
  /// An element as text: a number where it reads as one.
  void element(std::string_view text) {
    double value = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_number = end.ec == std::errc() && end.ptr == text.data() + text.size() && std::isfinite(value);
    add(is_number ? std::string(text) : escape_for_csv(text));
  }
  void integer(std::int64_t value) { add(std::to_string(value)); }
  void empty() { add(""); }
  std::string ended() { return line_ + "\n"; }

 private:
  void add(const std::string& cell) {
    if (started_) line_ += ",";
    started_ = true;
    line_ += cell;
  }
  std::string line_;
  bool started_ = false;
};

std::string joined_arguments(const DiffSite& site) {
  std::string text;
  for (const auto& each : site.arguments) text += (text.empty() ? "" : "; ") + report::argument_text(each);
  return text;
}

void add_ref(CsvRow& row, const SiteRef& ref) {
  row.text(ref.label);
  row.text(ref.module);
  row.text(ref.func_name);
  row.text(ref.dtype == DType::kNone ? std::string_view() : short_name(ref.dtype));
  row.text(report::dims_text(ref.sizes));
}

std::string csv_header() {
  std::string header =
      "row,name,class,within,evidence,basis,error,noise_floor,tolerance,failed_rule,input_error,amplification";
  for (const MetricInfo& info : metric_table()) header += "," + std::string(info.name);
  header += ",numel,needed_atol,needed_rtol,worst_at,worst_reference,worst_subject,arguments,cause";
  for (const char* side : {"reference", "subject"}) {
    for (const char* column : {"label", "module", "func_name", "dtype", "shape"}) {
      header += "," + std::string(side) + "_" + column;
    }
  }
  return header + ",file,line,samples,mean_error,worst_error,worst_sample,selected\n";
}

void add_metrics(CsvRow& row, const DiffSite& site) {
  for (const MetricInfo& info : metric_table()) {
    const auto value = site.metrics ? metric_value(*site.metrics, info.metric) : std::nullopt;
    value ? row.number(*value) : row.empty();
  }
  if (site.metrics) {
    row.integer(site.metrics->numel);
    row.number(site.metrics->needed_atol);
    row.number(site.metrics->needed_rtol);
  } else {
    for (int i = 0; i < 3; ++i) row.empty();
  }
}

std::string csv_line(const DiffSite& site, std::size_t index) {
  CsvRow row;
  row.integer(static_cast<std::int64_t>(index));
  row.text(report::name_of(site));
  row.text(to_string(site.site_class));
  row.text(site.within ? "true" : "false");
  row.text(to_string(site.evidence));
  row.text(to_string(site.basis));
  for (const double value : {site.error, site.noise_floor, site.tolerance}) row.number(value);
  row.text(site.failed_rule);
  row.number(site.input_error);
  row.number(site.amplification);
  add_metrics(row, site);
  row.text(report::worst_of(site).empty() ? "" : report::dims_text(site.worst_at));
  row.element(site.worst_reference);
  row.element(site.worst_subject);
  row.text(joined_arguments(site));
  row.text(site.cause);
  add_ref(row, site.reference);
  add_ref(row, site.subject);
  row.text(report::located(site).file);
  row.integer(report::located(site).line);
  row.integer(site.samples);
  row.number(site.mean_error);
  row.number(site.worst_error);
  row.integer(site.worst_sample);
  row.text(site.selected ? "true" : "false");
  return row.ended();
}

std::string md(std::string_view text) { return escape_for_markdown(text); }

std::string side_line(std::string_view role, const DiffSide& side) {
  std::string text = "| " + std::string(role) + " | " + md(side.name) + " | " + md(report::facts_of(side));
  if (!side.outcome.empty() && side.outcome != "complete") text += " · **" + md(side.outcome) + "**";
  return text + " |\n";
}

std::string coverage_line(const DiffReport& report) {
  const DiffCoverage& coverage = report.coverage;
  const std::int64_t count = report.is_static ? coverage.matched : coverage.compared;
  return std::to_string(count) + " of " + std::to_string(coverage.total) + " " + md(coverage.unit) +
         (report.is_static ? " matched, values not looked at" : " compared by value");
}

std::string precondition_lines(const DiffReport& report, std::size_t most) {
  std::string same;
  std::string text;
  for (const auto& each : report.preconditions) {
    if (each.agreement == Agreement::kSame) {
      same += (same.empty() ? "" : ", ") + md(each.name);
    } else if (each.agreement == Agreement::kDifferent) {
      text += "- **" + md(each.name) + " differ**";
      if (!each.reference.empty() || !each.subject.empty()) {
        text += ": " + md(each.reference) + " in reference, " + md(each.subject) + " in subject";
      }
      text += "\n";
      for (const auto& detail : report::detail_lines(each, most)) text += "  - " + md(detail) + "\n";
    } else if (!each.details.empty()) {
      for (const auto& detail : report::detail_lines(each, most)) text += "- " + md(detail) + "\n";
    }
  }
  if (!same.empty()) text = "- same: " + same + "\n" + text;
  return text;
}

std::string source_section(const DiffSite& site, bool first) {
  std::string text = std::string(first ? "### First source: " : "#### Source: ") + md(report::name_of(site)) + "\n\n";
  const auto item = [&](std::string_view head, const std::string& body) {
    if (!body.empty()) text += "- " + std::string(head) + " " + md(body) + "\n";
  };
  item("op", report::label_of(site));
  item("at", report::place_of(site));
  if (!site.cause.empty()) text += "- **" + md(site.cause) + "**\n";
  item("output", report::value_of(site));
  item("error", report::error_line(site));
  item("worst", report::worst_of(site));
  item("broke", site.failed_rule);
  item("its inputs",
       "error " + short_number(site.input_error) + ", rounding explains " + short_number(site.input_floor));
  return text + "\n";
}

std::string failed_table(const DiffReport& report, std::span<const std::size_t> rows, std::size_t most) {
  const std::size_t shown = std::min(rows.size(), most);
  std::string text =
      "<details><summary>" + counted(static_cast<std::int64_t>(rows.size()), "site") +
      " out of tolerance</summary>\n\n| site | op | class | error | rounding explains | evidence | at |\n" +
      "|---|---|---|---:|---:|---|---|\n";
  for (const std::size_t row : rows.first(shown)) {
    const DiffSite& site = report.sites[row];
    text += "| " + md(report::name_of(site)) + " | " + md(report::label_of(site)) + " | " +
            md(to_string(site.site_class)) + " | " + short_number(site.error) + " | " + short_number(site.noise_floor) +
            " | " + to_string(site.evidence) + " | " + md(report::place_of(site)) + " |\n";
  }
  if (shown < rows.size()) text += "\n… and " + std::to_string(rows.size() - shown) + " more\n";
  return text + "\n</details>\n\n";
}

std::string argument_table(const DiffReport& report, std::span<const std::size_t> rows, std::size_t most) {
  std::string text = "| site | op | arguments |\n|---|---|---|\n";
  for (const std::size_t row : rows.first(std::min(rows.size(), most))) {
    const DiffSite& site = report.sites[row];
    text += "| " + md(report::name_of(site)) + " | " + md(report::label_of(site)) + " | " + md(joined_arguments(site)) +
            " |\n";
  }
  if (rows.size() > most) text += "\n… and " + std::to_string(rows.size() - most) + " more\n";
  return text + "\n";
}

std::string change_lines(const DiffReport& report, std::size_t most) {
  std::string text;
  const auto names = [](const std::vector<SiteRef>& refs) {
    std::string list;
    for (const SiteRef& ref : refs) list += (list.empty() ? "" : ", ") + ref.label;
    return list.empty() ? std::string("nothing") : list;
  };
  for (std::size_t i = 0; i < std::min(report.changes.size(), most); ++i) {
    const DiffChange& change = report.changes[i];
    text += "- " + std::string(to_string(change.kind)) + ": " + md(names(change.reference)) + " in reference, " +
            md(names(change.subject)) + " in subject\n";
  }
  if (report.changes.size() > most) text += "- … and " + std::to_string(report.changes.size() - most) + " more\n";
  return text.empty() ? text : text + "\n";
}

}  // namespace

std::string csv_report(const DiffReport& report) {
  std::string text = csv_header();
  for (std::size_t row = 0; row < report.sites.size(); ++row) text += csv_line(report.sites[row], row);
  return text;
}

std::string markdown_report(const DiffReport& report, const ReportOptions& options) {
  const std::size_t most = options.max_rows.value_or(kMarkdownRows);
  std::string text = "## " + std::string(report.different ? "❌ " : "✅ ") + md(report.verdict) + "\n\n";
  text += "| | | |\n|---|---|---|\n" + side_line("reference", report.reference) + side_line("subject", report.subject);
  text += "\n";
  if (report.coverage.total > 0 || !report.is_static) text += "- " + coverage_line(report) + "\n";
  text += precondition_lines(report, most);
  for (const auto& note : report.notes) text += "- note: " + md(note) + "\n";
  text += "\n";
  constexpr std::size_t kSections = 3;
  for (std::size_t i = 0; i < std::min(report.sources.size(), kSections); ++i) {
    text += source_section(report.sites[static_cast<std::size_t>(report.sources[i])], i == 0);
  }
  if (const auto rows = report::failed_rows(report); !rows.empty()) text += failed_table(report, rows, most);
  if (const auto rows = report::argument_rows(report); report.is_static && !rows.empty()) {
    text += argument_table(report, rows, most);
  }
  text += change_lines(report, most);
  if (!report.is_static) text += "Tolerance: " + md(report.tolerance_rule) + ".\n\n";
  if (!report.again.empty()) text += "Again: " + md(report.again) + "\n\n";
  return text;
}

}  // namespace tl
