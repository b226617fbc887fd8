#include "diff/reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "report_fixture.h"
#include "unit/tlspec/json_schema.h"

namespace tl {
namespace {

using test::sample_report;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The expected text is data/report.NAME; TL_UPDATE_GOLDENS in the environment rewrites it.
void expect_golden(const std::string& text, const std::string& name) {
  const std::filesystem::path path = std::filesystem::path(TL_SOURCE_DIR) / "tests/unit/diff/data" / ("report." + name);
  if (std::getenv("TL_UPDATE_GOLDENS") != nullptr) std::ofstream(path, std::ios::binary) << text;
  EXPECT_EQ(text, read(path));
}

ReportOptions in_repo() { return {.workspace = "/ci/repo"}; }

TEST(Reports, AreWhatTheGoldenFilesHold) {
  const DiffReport report = sample_report();
  expect_golden(json_report(report), "json");
  expect_golden(jsonl_report(report), "jsonl");
  expect_golden(csv_report(report), "csv");
  expect_golden(markdown_report(report), "md");
  expect_golden(html_report(report), "html");
  expect_golden(junit_report(report), "xml");
  expect_golden(github_report(report, in_repo()), "github");
}

TEST(Reports, JsonFollowsItsSchema) {
  test::JsonSchema schema(
      nlohmann::json::parse(read(std::filesystem::path(TL_SOURCE_DIR) / "schemas/diff.schema.json")));
  EXPECT_THAT(schema.violations(nlohmann::json::parse(json_report(sample_report()))), testing::IsEmpty());
  EXPECT_THAT(schema.violations(nlohmann::json::parse(json_report({}))), testing::IsEmpty());
}

TEST(Reports, JsonlHoldsWhatJsonDoes) {
  const auto document = nlohmann::ordered_json::parse(json_report(sample_report()));
  std::stringstream lines(jsonl_report(sample_report()));
  std::vector<nlohmann::ordered_json> sites;
  for (std::string line; std::getline(lines, line);) {
    auto record = nlohmann::ordered_json::parse(line);
    const std::string type = record["type"];
    record.erase("type");
    if (type == "site") sites.push_back(record);
    if (type == "verdict") {
      for (const auto& [key, value] : record.items()) EXPECT_EQ(document[key], value) << key;
    }
  }
  EXPECT_EQ(document["sites"], nlohmann::ordered_json(sites));
}

TEST(Reports, NoTextFromAFileBecomesMarkupOrACommand) {
  const DiffReport report = sample_report();
  EXPECT_THAT(html_report(report), Not(HasSubstr("<script>alert")));
  EXPECT_THAT(junit_report(report), Not(HasSubstr("<script>")));
  EXPECT_THAT(markdown_report(report), Not(HasSubstr("<script>")));
  EXPECT_THAT(csv_report(report), Not(HasSubstr(",=cmd")));
  for (const auto& text : {github_report(report), csv_report(report), markdown_report(report), jsonl_report(report)}) {
    EXPECT_THAT(text, Not(HasSubstr("\n::error::x")));
  }
  // A file whose name holds the separators of workflow commands.
  EXPECT_THAT(github_report(report, in_repo()),
              StartsWith("::error file=wan/model%2C v2%3Aa.py,line=231,title=torchlens diff%3A source::"));
}

TEST(Reports, WhatIsAcceptedDoesNotFailATestCase) {
  DiffReport report = sample_report();
  report.different = false;
  EXPECT_THAT(junit_report(report), HasSubstr("failures=\"0\""));
  EXPECT_THAT(junit_report(report), Not(HasSubstr("<failure")));
  EXPECT_THAT(github_report(report), Not(HasSubstr("::error")));
  // A negative verdict for another reason fails a case of its own.
  report.different = true;
  for (DiffSite& site : report.sites) site.within = true;
  EXPECT_THAT(junit_report(report), HasSubstr("failures=\"1\""));
}

TEST(Reports, WhatOnlyLeftOutIsNeitherFailureNorTestCase) {
  DiffReport report = sample_report();
  report.sites[2].selected = report.sites[3].selected = false;
  EXPECT_THAT(junit_report(report), HasSubstr("tests=\"4\" failures=\"1\" errors=\"0\" skipped=\"0\""));
  EXPECT_THAT(markdown_report(report), HasSubstr("1 site out of tolerance"));
  EXPECT_THAT(html_report(report), HasSubstr("no, left out by --only"));
}

TEST(Reports, LongTablesAreCutAndSaySo) {
  DiffReport report = sample_report();
  report.sites.assign(100, report.sites[1]);
  EXPECT_THAT(markdown_report(report), HasSubstr("and 80 more"));
  EXPECT_THAT(markdown_report(report, {.max_rows = 3}), HasSubstr("and 97 more"));
  EXPECT_THAT(html_report(report, {.max_rows = 3}), HasSubstr("3 of 100 sites are listed"));
  report.sites.assign(20000, report.sites[1]);
  EXPECT_LT(html_report(report, {.max_rows = 10}).size(), 300000U) << "the plot does not grow with the sites";
}

TEST(Reports, AnEmptyComparisonIsWellFormed) {
  const DiffReport report;
  for (int format = 0; format <= static_cast<int>(ReportFormat::kGithub); ++format) {
    EXPECT_FALSE(make_report(report, static_cast<ReportFormat>(format)).empty());
  }
}

TEST(ReportTarget, PrefixWinsOverExtension) {
  const auto parsed = [](std::string_view argument) {
    const ReportTarget target = parse_report_target(argument);
    return std::string(to_string(target.format)) + " " + target.path.string();
  };
  EXPECT_EQ(parsed("out.html"), "html out.html");
  EXPECT_EQ(parsed("md:out.html"), "md out.html");
  EXPECT_EQ(parsed("junit:a:b.xml"), "junit a:b.xml");
  EXPECT_EQ(parsed("C:out.xml"), "junit C:out.xml");
  EXPECT_EQ(parsed("dir.x/report.markdown"), "md dir.x/report.markdown");
  EXPECT_EQ(parsed("github:-"), "github -");
  for (const char* wrong : {"report", "report.txt", "json:", "dir.json/report", "text:out"}) {
    try {
      parse_report_target(wrong);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.code, ErrorCode::kUsage);
      EXPECT_FALSE(error.hint.empty());
    }
  }
}

TEST(ReportTarget, MarkdownAppendsOthersReplace) {
  const auto directory = std::filesystem::temp_directory_path() / ("tl_reports_" + std::to_string(::getpid()));
  std::filesystem::create_directory(directory);
  const DiffReport report = sample_report();
  for (const ReportFormat format : {ReportFormat::kMarkdown, ReportFormat::kJson}) {
    const ReportTarget target{format, directory / "report"};
    const std::string before = "# what another step wrote\n";
    std::ofstream(target.path) << before;
    save_report(report, target);
    EXPECT_EQ(read(target.path), (format == ReportFormat::kMarkdown ? before : "") + make_report(report, format));
  }
  EXPECT_THROW(save_report(report, {ReportFormat::kMarkdown, directory / "none" / "x.md"}), Error);
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace tl
