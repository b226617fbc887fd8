#include <algorithm>
#include <string>

#include "core/escape.h"
#include "diff/report_parts.h"
#include "diff/reports.h"

namespace tl {
namespace {

using report::counted;

/// GitHub shows ten annotations of a kind a step.
constexpr std::size_t kAnnotations = 10;

std::string xml(std::string_view text) { return escape_for_html(text); }

std::string attribute(std::string_view name, std::string_view value) {
  return " " + std::string(name) + "=\"" + xml(value) + "\"";
}

/// What a reader wants to know of a site out of tolerance, a fact a line.
std::string failure_body(const DiffSite& site) {
  std::string text;
  const auto line = [&](std::string_view head, const std::string& body) {
    if (!body.empty()) text += xml(head) + xml(body) + "\n";
  };
  line("", site.cause);
  for (const auto& argument : report::other_arguments(site)) line("argument ", argument);
  line("output ", report::value_of(site));
  line("error ", report::error_line(site));
  line("rounding explains ", report::short_number(site.noise_floor));
  line("broke ", site.failed_rule);
  line("worst ", report::worst_of(site));
  line("its inputs' error ", report::short_number(site.input_error));
  line("at ", report::place_of(site));
  return text;
}

std::string test_case(const DiffReport& report, const DiffSite& site) {
  std::string text = "    <testcase" +
                     attribute("classname", site.subject.module.empty() ? "(root)" : site.subject.module) +
                     attribute("name", report::label_of(site));
  const SiteRef& located = report::located(site);
  if (!located.file.empty()) text += attribute("file", located.file);
  if (!located.file.empty() && located.line > 0) text += attribute("line", std::to_string(located.line));
  text += " time=\"0\"";
  if (site.site_class == SiteClass::kNotCompared) {
    if (report.is_static) return text + "/>\n";
    return text + ">\n      <skipped message=\"a side has no value\"/>\n    </testcase>\n";
  }
  if (site.within && site.evidence == Evidence::kStatistics) {
    return text + ">\n      <system-out>compared by statistics only, which is weaker evidence</system-out>\n" +
           "    </testcase>\n";
  }
  if (site.within) return text + "/>\n";
  if (!report.different) {
    return text + ">\n      <system-out>" + failure_body(site) + "</system-out>\n    </testcase>\n";
  }
  return text + ">\n      <failure" + attribute("type", to_string(site.site_class)) +
         attribute("message", report::error_line(site)) + ">" + failure_body(site) + "</failure>\n    </testcase>\n";
}

/// What differs before anything ran, a line each.
std::string precondition_body(const DiffReport& report) {
  std::string text;
  for (const auto& each : report.preconditions) {
    if (each.agreement != Agreement::kDifferent) continue;
    for (const auto& line : report::detail_lines(each)) text += xml(each.name + ": " + line) + "\n";
  }
  return text;
}

std::string properties(const DiffReport& report) {
  std::string text = "    <properties>\n";
  const auto property = [&](std::string_view name, std::string_view value) {
    text += "      <property" + attribute("name", name) + attribute("value", value) + "/>\n";
  };
  property("reference", report.reference.name);
  property("subject", report.subject.name);
  if (report.coverage.total > 0 || !report.is_static) {
    property("compared", std::to_string(report.coverage.compared) + " of " + std::to_string(report.coverage.total) +
                             " " + report.coverage.unit);
  }
  if (!report.tolerance_rule.empty()) property("tolerance", report.tolerance_rule);
  for (const auto& each : report.preconditions) {
    property(each.name, each.agreement == Agreement::kSame        ? "same"
                        : each.agreement == Agreement::kDifferent ? "different"
                                                                  : "unknown");
  }
  property("again", report.again);
  return text + "    </properties>\n";
}

/// The data of a workflow command: https://github.com/actions/toolkit, packages/core/src/command.ts, escapeData.
std::string command_data(std::string_view text) {
  std::string escaped;
  for (const char c : escape_for_terminal(text)) {
    switch (c) {
      case '%':
        escaped += "%25";
        break;
      case '\r':
        escaped += "%0D";
        break;
      case '\n':
        escaped += "%0A";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

/// The same for properties (escapeProperty), whose separators are `:` and `,`.
std::string command_property(std::string_view text) {
  std::string escaped;
  for (const char c : command_data(text)) {
    if (c == ':') {
      escaped += "%3A";
    } else if (c == ',') {
      escaped += "%2C";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

/// The file relative to the checkout, as annotations need it.
std::string below(std::string_view workspace, const std::string& file) {
  while (workspace.ends_with('/')) workspace.remove_suffix(1);
  if (workspace.empty() || !file.starts_with(workspace) || file.size() <= workspace.size() + 1) return file;
  return file[workspace.size()] == '/' ? file.substr(workspace.size() + 1) : file;
}

/// `message` is escaped.
std::string annotation(std::string_view level, const SiteRef& at, std::string_view title, const std::string& message,
                       const ReportOptions& options) {
  std::string text = "::" + std::string(level) + " ";
  if (!at.file.empty()) {
    text += "file=" + command_property(below(options.workspace, at.file)) + ",";
    if (at.line > 0) text += "line=" + std::to_string(at.line) + ",";
  }
  return text + "title=" + command_property(title) + "::" + message + "\n";
}

std::string source_message(const DiffSite& site) {
  std::string text = report::name_of(site) + ": ";
  if (!site.cause.empty()) text += site.cause + "; ";
  text += report::error_line(site) + ", its inputs " + report::short_number(site.input_error);
  const std::string worst = report::worst_of(site);
  return worst.empty() ? text : text + "; worst " + worst;
}

std::string argument_message(const DiffSite& site) {
  std::string text = report::name_of(site) + ":";
  for (const auto& each : site.arguments)
    text += (each.name == site.arguments.front().name ? " " : "; ") + report::argument_text(each);
  return text;
}

}  // namespace

std::string junit_report(const DiffReport& report) {
  const auto tests = std::ranges::count_if(report.sites, &DiffSite::selected);
  const auto skipped = report.is_static ? 0 : std::ranges::count_if(report.sites, [](const DiffSite& site) {
    return site.selected && site.site_class == SiteClass::kNotCompared;
  });
  const std::int64_t failed = report.different ? std::ranges::count_if(report.sites, report::out_of_tolerance) : 0;
  // What else made the verdict negative (arguments, weights, structure) fails a case of its own.
  const bool verdict_fails = report.different && failed == 0;
  const std::string counts = " tests=\"" + std::to_string(tests + 1) + "\" failures=\"" +
                             std::to_string(failed + (verdict_fails ? 1 : 0)) + "\" errors=\"0\" skipped=\"" +
                             std::to_string(skipped) + "\" time=\"0\"";
  const std::string name = "torchlens diff " + report.reference.name + " " + report.subject.name;
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites" + counts + ">\n  <testsuite" +
                     attribute("name", name) + counts + ">\n" + properties(report);
  text += "    <testcase classname=\"torchlens\" name=\"verdict\" time=\"0\"";
  if (verdict_fails) {
    text += ">\n      <failure type=\"verdict\"" + attribute("message", report.verdict);
    const auto body = precondition_body(report);
    text += (body.empty() ? "/>" : ">" + body + "</failure>") + std::string("\n    </testcase>\n");
  } else {
    text += ">\n      <system-out>" + xml(report.verdict) + "</system-out>\n    </testcase>\n";
  }
  for (const DiffSite& site : report.sites) {
    if (site.selected) text += test_case(report, site);
  }
  return text + "  </testsuite>\n</testsuites>\n";
}

std::string github_report(const DiffReport& report, const ReportOptions& options) {
  const std::size_t most = options.max_rows.value_or(kAnnotations);
  const std::string_view level = report.different ? "error" : "warning";
  std::string text;
  for (std::size_t i = 0; i < std::min(report.sources.size(), most); ++i) {
    const DiffSite& site = report.sites[static_cast<std::size_t>(report.sources[i])];
    text +=
        annotation(level, report::located(site), "torchlens diff: source", command_data(source_message(site)), options);
  }
  if (report.sources.empty()) {
    const auto rows = report::failed_rows(report);
    if (!rows.empty()) {
      const DiffSite& site = report.sites[rows.front()];
      text += annotation(level, report::located(site), "torchlens diff: first difference",
                         command_data(source_message(site)), options);
    }
  }
  std::size_t arguments = 0;
  for (const std::size_t row : report::argument_rows(report)) {
    const DiffSite& site = report.sites[row];
    if (site.site_class == SiteClass::kSource || arguments++ >= most) continue;
    const std::string_view argument_level = report.is_static ? level : "warning";
    text += annotation(argument_level, report::located(site), "torchlens diff: arguments",
                       command_data(argument_message(site)), options);
  }
  for (const auto& each : report.preconditions) {
    if (!report.is_static || each.agreement != Agreement::kDifferent) continue;
    std::string lines;
    for (const auto& line : report::detail_lines(each, most))
      lines += (lines.empty() ? "" : "%0A") + command_data(line);
    if (!lines.empty()) text += annotation(level, {}, "torchlens diff: " + each.name, lines, options);
  }
  std::string summary = report.verdict;
  if (report.sources.size() > most) summary += "; " + std::to_string(report.sources.size() - most) + " more sources";
  summary = command_data(summary);
  if (!report.again.empty()) summary += "%0A" + command_data("again: " + report.again);
  return text + annotation(report.different ? "error" : "notice", {}, "torchlens diff", summary, options);
}

}  // namespace tl
