#include <sys/stat.h>
#include <unistd.h>

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/file_descriptor.h"
#include "core/output_file.h"
#include "diff/reports.h"

namespace tl {
namespace {

constexpr std::array kNames = {
    std::pair{ReportFormat::kJson, std::string_view("json")},
    std::pair{ReportFormat::kJsonl, std::string_view("jsonl")},
    std::pair{ReportFormat::kCsv, std::string_view("csv")},
    std::pair{ReportFormat::kMarkdown, std::string_view("md")},
    std::pair{ReportFormat::kHtml, std::string_view("html")},
    std::pair{ReportFormat::kJunit, std::string_view("junit")},
    std::pair{ReportFormat::kGithub, std::string_view("github")},
};

/// Extensions beyond the names themselves.
constexpr std::array kExtensions = {
    std::pair{std::string_view("markdown"), ReportFormat::kMarkdown},
    std::pair{std::string_view("htm"), ReportFormat::kHtml},
    std::pair{std::string_view("xml"), ReportFormat::kJunit},
};

std::optional<ReportFormat> format_from_extension(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  if (dot == std::string_view::npos || path.find('/', dot) != std::string_view::npos) return std::nullopt;
  const std::string_view extension = path.substr(dot + 1);
  const auto other = std::ranges::find(kExtensions, extension, &std::pair<std::string_view, ReportFormat>::first);
  return other == kExtensions.end() ? report_format_from_name(extension) : other->second;
}

void write_all(int file, const std::filesystem::path& path, std::string_view text) {
  while (!text.empty()) {
    const ::ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw_output_failed(path, written < 0 ? errno : EIO);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// Half a report reads like a whole one: where not all of it fits, the file is left as it was.
void append_file(const std::filesystem::path& path, std::string_view text) {
  if (write_fault_due()) throw_output_failed(path, errno);
  struct stat before {};
  const bool was_there = ::stat(path.c_str(), &before) == 0;
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (file.get() < 0) throw_output_failed(path, errno);
  try {
    write_all(file.get(), path, text);
  } catch (const Error&) {
    std::error_code ignored;
    if (!was_there)
      std::filesystem::remove(path, ignored);
    else if (S_ISREG(before.st_mode) && ::ftruncate(file.get(), before.st_size) != 0)
      std::filesystem::resize_file(path, static_cast<std::uintmax_t>(before.st_size), ignored);
    throw;
  }
}

/// As append_file: a report that stood there is replaced by a whole one or stays. Devices and pipes are written to.
void replace_file(const std::filesystem::path& path, std::string_view text) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored))
    return write_file(path, text);
  const auto real = std::filesystem::weakly_canonical(path, ignored);
  const auto target = real.empty() ? path : real;
  auto partial = target;
  partial += ".partial-" + std::to_string(::getpid());
  try {
    write_file(partial, text);
    std::filesystem::rename(partial, target);
  } catch (const std::filesystem::filesystem_error& error) {
    std::filesystem::remove(partial, ignored);
    throw_output_failed(path, error.code().value());
  } catch (const Error&) {
    std::filesystem::remove(partial, ignored);
    throw;
  }
}

}  // namespace

std::string_view to_string(ReportFormat format) {
  return std::ranges::find(kNames, format, &std::pair<ReportFormat, std::string_view>::first)->second;
}

std::optional<ReportFormat> report_format_from_name(std::string_view name) {
  const auto row = std::ranges::find(kNames, name, &std::pair<ReportFormat, std::string_view>::second);
  if (row == kNames.end()) return std::nullopt;
  return row->first;
}

std::string make_report(const DiffReport& report, ReportFormat format, const ReportOptions& options) {
  switch (format) {
    case ReportFormat::kJson:
      return json_report(report);
    case ReportFormat::kJsonl:
      return jsonl_report(report);
    case ReportFormat::kCsv:
      return csv_report(report);
    case ReportFormat::kMarkdown:
      return markdown_report(report, options);
    case ReportFormat::kHtml:
      return html_report(report, options);
    case ReportFormat::kJunit:
      return junit_report(report);
    case ReportFormat::kGithub:
      return github_report(report, options);
  }
  TL_CHECK(false, "every ReportFormat has a writer");
}

ReportTarget parse_report_target(std::string_view argument) {
  const std::size_t colon = argument.find(':');
  if (colon != std::string_view::npos) {
    if (const auto format = report_format_from_name(argument.substr(0, colon))) {
      if (colon + 1 < argument.size()) return {*format, std::filesystem::path(argument.substr(colon + 1))};
      throw Error(ErrorCode::kUsage, "--report " + std::string(argument) + " names no file",
                  "write --report " + std::string(argument) + "FILE");
    }
    if (argument.substr(0, colon) == "text") {
      throw Error(ErrorCode::kUsage,
                  "--report " + std::string(argument) + ": text is what diff prints, not a format of reports",
                  "write > FILE for the text, or --report with json, jsonl, csv, md, html, junit or github");
    }
  }
  if (const auto format = format_from_extension(argument)) return {*format, std::filesystem::path(argument)};
  throw Error(ErrorCode::kUsage, "--report " + std::string(argument) + ": the name does not tell a format",
              "write --report FORMAT:" + std::string(argument) + " with json, jsonl, csv, md, html, junit or github");
}

void save_report(const DiffReport& report, const ReportTarget& target, const ReportOptions& options) {
  const std::string text = make_report(report, target.format, options);
  if (target.format == ReportFormat::kMarkdown) return append_file(target.path, text);
  replace_file(target.path, text);
}

}  // namespace tl
