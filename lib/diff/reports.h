#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "diff/report.h"

namespace tl {

/// The forms of a comparison that are written to files or read by machines. The screen is not among them.
enum class ReportFormat : std::uint8_t {
  kJson,      ///< one document, torchlens.diff/1 (schemas/diff.schema.json)
  kJsonl,     ///< a record a line, told apart by `type`
  kCsv,       ///< a row a site
  kMarkdown,  ///< for a pull request
  kHtml,      ///< one self-contained page
  kJunit,     ///< a test case a site
  kGithub,    ///< workflow commands that annotate source lines
};

struct ReportOptions {
  /// Rows of tables that are cut to what a reader can take in (Markdown, HTML) and annotations; nullopt: each format's
  /// own number. json, jsonl, csv and junit are always whole.
  std::optional<std::size_t> max_rows = {};
  /// Folder of the checkout that annotated files are named relative to; empty: as the recording has them.
  std::string workspace = {};
};

/// Each is a pure function of the report: same report, same bytes. All text from files is escaped for its format.
std::string json_report(const DiffReport& report);
std::string jsonl_report(const DiffReport& report);
std::string csv_report(const DiffReport& report);
std::string markdown_report(const DiffReport& report, const ReportOptions& options = {});
std::string html_report(const DiffReport& report, const ReportOptions& options = {});
std::string junit_report(const DiffReport& report);
std::string github_report(const DiffReport& report, const ReportOptions& options = {});
std::string make_report(const DiffReport& report, ReportFormat format, const ReportOptions& options = {});

/// json, jsonl, csv, md, html, junit, github.
std::string_view to_string(ReportFormat format);
std::optional<ReportFormat> report_format_from_name(std::string_view name);

/// The argument of --report, [FORMAT:]PATH.
struct ReportTarget {
  ReportFormat format = ReportFormat::kJson;
  std::filesystem::path path;
};

/// A known format before a colon wins; else the extension decides (.json .jsonl .csv .md .markdown .html .htm .xml).
/// Throws Error(kUsage) where neither tells.
ReportTarget parse_report_target(std::string_view argument);

/// Writes the report to its path: replaces the file, or appends to it for Markdown, so that $GITHUB_STEP_SUMMARY keeps
/// what other steps wrote. Throws Error(kOutputFailed).
void save_report(const DiffReport& report, const ReportTarget& target, const ReportOptions& options = {});

}  // namespace tl
