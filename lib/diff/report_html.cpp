#include <algorithm>
#include <span>
#include <string>

#include "core/escape.h"
#include "diff/report_parts.h"
#include "diff/report_plot.h"
#include "diff/reports.h"
#include "tensor/metric.h"

namespace tl {
namespace {

using report::short_number;

/// Rows that a browser still scrolls well.
constexpr std::size_t kTableRows = 5000;

constexpr std::string_view kStyle = R"css(
:root { color-scheme: light dark; --ink: #1c1f23; --soft: #667; --line: #d6d9de; --back: #fff; --source: #c62828;
  --inherited: #d98200; --undetermined: #7b4bb3; --drift: #9a7b00; --agrees: #2e7d4f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --soft: #9aa3ad; --line: #3a4048; --back: #16191d;
  --source: #ff6b6b; --inherited: #ffb347; --undetermined: #c39bff; --drift: #e0c24a; --agrees: #66c68f; } }
body { font: 14px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--back); margin: 2em auto; max-width: 70em;
  padding: 0 1em; }
h1 { font-size: 1.4em; } h2 { font-size: 1.1em; margin-top: 2em; }
h1.different { color: var(--source); } h1.same { color: var(--agrees); }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .25em .6em; border-bottom: 1px solid var(--line);
  overflow-wrap: anywhere; }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
code, pre { font: 12.5px/1.45 ui-monospace, monospace; white-space: pre-wrap; }
.soft { color: var(--soft); }
.k1 { color: var(--source); font-weight: 600; } .k2 { color: var(--inherited); } .k3 { color: var(--undetermined); }
.k4 { color: var(--drift); } .k5 { color: var(--soft); }
.source { border-left: 4px solid var(--source); padding-left: 1em; margin: 1em 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1em 1em; margin: .4em 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
summary { cursor: pointer; }
input, select { font: inherit; padding: .2em .4em; }
.plot { width: 100%; height: auto; } .plot text { font-size: 11px; fill: var(--soft); text-anchor: end;
  dominant-baseline: middle; }
.grid { stroke: var(--line); } .floor, .series { fill: none; stroke: var(--soft); } .floor { stroke-dasharray: 4 3; }
.c0 { fill: var(--agrees); } .c1 { fill: var(--source); } .c2 { fill: var(--inherited); } .c3 { fill: var(--undetermined); }
.c4 { fill: var(--drift); } .c5 { fill: var(--soft); }
)css";

constexpr std::string_view kScript = R"js(
const rows = [...document.querySelectorAll('#sites tbody tr')], text = document.getElementById('text'),
  kind = document.getElementById('kind'), count = document.getElementById('count');
const lower = rows.map(row => row.textContent.toLowerCase());
function filter() {
  const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  rows.forEach((row, i) => {
    const keep = (!kind.value || row.dataset.kind === kind.value) && words.every(word => lower[i].includes(word));
    row.hidden = !keep;
    shown += keep;
  });
  count.textContent = shown + ' of ' + rows.length;
}
text.addEventListener('input', filter);
kind.addEventListener('change', filter);
filter();
)js";

std::string h(std::string_view text) { return escape_for_html(text); }

std::string item(std::string_view name, const std::string& value) {
  return value.empty() ? std::string() : "<dt>" + h(name) + "</dt><dd>" + h(value) + "</dd>";
}

std::string side_row(std::string_view role, const DiffSide& side) {
  std::string text =
      "<tr><th>" + h(role) + "</th><td><code>" + h(side.name) + "</code></td><td>" + h(report::facts_of(side));
  if (!side.outcome.empty() && side.outcome != "complete") text += " · <b class=\"k1\">" + h(side.outcome) + "</b>";
  return text + "</td></tr>\n";
}

std::string precondition_list(const DiffReport& report) {
  std::string text;
  for (const auto& each : report.preconditions) {
    const bool differs = each.agreement == Agreement::kDifferent;
    text += "<dt>" + h(each.name) + "</dt><dd" + (differs ? " class=\"k1\"" : "") + ">";
    text += differs ? "differ" : each.agreement == Agreement::kSame ? "same" : "unknown";
    if (each.total > 0) text += " " + std::to_string(each.same) + "/" + std::to_string(each.total);
    if (!each.reference.empty() || !each.subject.empty()) {
      text += " · " + h(each.reference) +
              (each.reference == each.subject ? "" : " in reference, " + h(each.subject) + " in subject");
    }
    for (const auto& detail : report::detail_lines(each)) text += "<br>" + h(detail);
    text += "</dd>";
  }
  return text;
}

std::string facts(const DiffReport& report) {
  const DiffCoverage& coverage = report.coverage;
  const std::int64_t count = report.is_static ? coverage.matched : coverage.compared;
  std::string text = "<dl>";
  if (coverage.total > 0 || !report.is_static) {
    text += item(report.is_static ? "matched" : "compared",
                 std::to_string(count) + " of " + std::to_string(coverage.total) + " " + coverage.unit);
  }
  text += precondition_list(report);
  if (!report.is_static) {
    text += item("tolerance", report.tolerance_rule) + item("rounding", report.floor_rule);
    text += item("would pass", "rel L2 " + short_number(report.needed_tolerance));
  }
  for (const auto& note : report.notes) text += item("note", note);
  return text + "</dl>\n";
}

std::string metric_items(const DiffSite& site) {
  std::string text;
  if (!site.metrics) return text;
  for (const MetricInfo& info : metric_table()) {
    if (const auto value = metric_value(*site.metrics, info.metric)) text += item(info.name, short_number(*value));
  }
  text += item("needed atol", short_number(site.metrics->needed_atol));
  return text + item("needed rtol", short_number(site.metrics->needed_rtol));
}

/// All that is known of a site but its metrics.
std::string site_items(const DiffSite& site) {
  std::string text = item("cause", site.cause);
  if (!site.selected) text += item("judged", "no, left out by --only");
  for (const auto& each : report::other_arguments(site)) text += item("argument", each);
  text +=
      item("op", report::label_of(site)) + item("output", report::value_of(site)) + item("at", report::place_of(site));
  text +=
      item("error", report::error_line(site)) + item("worst", report::worst_of(site)) + item("broke", site.failed_rule);
  if (site.site_class != SiteClass::kNotCompared) text += item("rounding explains", short_number(site.noise_floor));
  if (!site.inputs.empty()) {
    text += item("its inputs",
                 "error " + short_number(site.input_error) + ", rounding explains " + short_number(site.input_floor));
  }
  if (site.amplification > 0) text += item("amplification", short_number(site.amplification));
  text += item("matched by", to_string(site.basis)) + item("evidence", to_string(site.evidence));
  if (site.top_k) {
    text += item("top 1",
                 std::to_string(site.top_k->top1_agree) + " of " + std::to_string(site.top_k->rows) + " rows agree");
  }
  if (site.samples > 1) {
    text += item("samples", std::to_string(site.samples) + ", mean error " + short_number(site.mean_error) +
                                ", worst " + short_number(site.worst_error));
  }
  return text;
}

std::string table_row(const DiffSite& site) {
  const auto kind = std::to_string(static_cast<int>(site.site_class));
  const bool compared = site.site_class != SiteClass::kNotCompared;
  return "<tr data-kind=\"" + kind + "\"><td class=\"k" + kind + "\">" + h(to_string(site.site_class)) +
         "</td><td><details><summary>" + h(report::name_of(site)) + "</summary><dl>" + site_items(site) +
         metric_items(site) + "</dl></details></td><td><code>" + h(report::label_of(site)) +
         "</code></td><td class=\"n\">" + (compared ? short_number(site.error) : "-") + "</td><td class=\"n\">" +
         (compared ? short_number(site.noise_floor) : "-") + "</td><td>" + h(report::place_of(site)) + "</td></tr>\n";
}

/// All rows in order where they are few enough, else those out of tolerance first.
std::vector<std::size_t> table_rows(const DiffReport& report, std::size_t most) {
  std::vector<std::size_t> rows;
  if (report.sites.size() > most) {
    rows = report::failed_rows(report);
    for (std::size_t row = 0; row < report.sites.size() && rows.size() < most; ++row) {
      if (!report::out_of_tolerance(report.sites[row])) rows.push_back(row);
    }
    rows.resize(std::min(rows.size(), most));
    std::ranges::sort(rows);
    return rows;
  }
  for (std::size_t row = 0; row < report.sites.size(); ++row) rows.push_back(row);
  return rows;
}

std::string site_table(const DiffReport& report, std::size_t most) {
  std::string text =
      "<h2>Sites</h2>\n<p><input id=\"text\" type=\"search\" placeholder=\"filter by words\" "
      "aria-label=\"filter by words\"> <select id=\"kind\" aria-label=\"class\"><option value=\"\">all</option>";
  for (int kind = 0; kind <= static_cast<int>(SiteClass::kNotCompared); ++kind) {
    text +=
        "<option value=\"" + std::to_string(kind) + "\">" + h(to_string(static_cast<SiteClass>(kind))) + "</option>";
  }
  text += "</select> <span id=\"count\" class=\"soft\"></span></p>\n";
  const auto rows = table_rows(report, most);
  if (rows.size() < report.sites.size()) {
    text += "<p class=\"soft\">" + std::to_string(rows.size()) + " of " + std::to_string(report.sites.size()) +
            " sites are listed, those out of tolerance before others; the json and csv reports hold all.</p>\n";
  }
  text +=
      "<table id=\"sites\"><thead><tr><th>class</th><th>site</th><th>op</th><th class=\"n\">error</th>"
      "<th class=\"n\">rounding explains</th><th>at</th></tr></thead><tbody>\n";
  for (const std::size_t row : rows) text += table_row(report.sites[row]);
  return text + "</tbody></table>\n";
}

std::string change_table(const DiffReport& report, std::size_t most) {
  if (report.changes.empty()) return {};
  const auto names = [](const std::vector<SiteRef>& refs) {
    std::string list;
    for (const SiteRef& ref : refs) list += (list.empty() ? "" : ", ") + ref.label;
    return h(list);
  };
  std::string text =
      "<h2>Only on one side, or in another form</h2>\n<table><thead><tr><th>what</th><th>reference</th>"
      "<th>subject</th></tr></thead><tbody>\n";
  for (std::size_t i = 0; i < std::min(report.changes.size(), most); ++i) {
    const DiffChange& change = report.changes[i];
    text += "<tr><td>" + h(to_string(change.kind)) + "</td><td><code>" + names(change.reference) +
            "</code></td><td><code>" + names(change.subject) + "</code></td></tr>\n";
  }
  text += "</tbody></table>\n";
  if (report.changes.size() > most) {
    text += "<p class=\"soft\">and " + std::to_string(report.changes.size() - most) + " more</p>\n";
  }
  return text;
}

std::string sources(const DiffReport& report) {
  constexpr std::size_t kShown = 20;
  std::string text;
  for (std::size_t i = 0; i < std::min(report.sources.size(), kShown); ++i) {
    const DiffSite& site = report.sites[static_cast<std::size_t>(report.sources[i])];
    text += "<div class=\"source\"><h2>" + std::string(i == 0 ? "First source: " : "Source: ") +
            h(report::name_of(site)) + "</h2><dl>" + site_items(site) + "</dl></div>\n";
  }
  if (report.sources.size() > kShown) {
    text += "<p class=\"soft\">and " + std::to_string(report.sources.size() - kShown) + " more sources</p>\n";
  }
  return text;
}

std::string growth(const DiffReport& report) {
  const std::string plot = report::growth_plot(report);
  if (plot.empty()) return {};
  std::string text =
      "<h2>Error by site</h2>\n<p class=\"soft\">Dashed: what rounding alone explains. Zero lies on the lower "
      "edge.</p>\n" +
      plot;
  for (const GrowthSeries& series : report.growth) {
    if (const std::string line = report::series_plot(series); !line.empty()) {
      text += "<details><summary>" + h(series.name) + "</summary>" + line + "</details>\n";
    }
  }
  return text;
}

}  // namespace

std::string html_report(const DiffReport& report, const ReportOptions& options) {
  const std::size_t most = options.max_rows.value_or(kTableRows);
  std::string text =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<title>" +
      h("torchlens diff " + report.reference.name + " " + report.subject.name) + "</title>\n<style>";
  text += kStyle;
  text += "</style></head><body>\n<h1 class=\"" + std::string(report.different ? "different" : "same") + "\">" +
          h(report.verdict) + "</h1>\n<table>" + side_row("reference", report.reference) +
          side_row("subject", report.subject) + "</table>\n" + facts(report) + sources(report) + growth(report) +
          site_table(report, most) + change_table(report, most);
  if (!report.again.empty()) text += "<h2>Again</h2>\n<pre>" + h(report.again) + "</pre>\n";
  text += "<script>";
  text += kScript;
  return text + "</script>\n</body></html>\n";
}

}  // namespace tl
