// Runs one step of the pipeline on tests/steps/<step>/<case>.in.trace and compares the trace text with
// <case>.out.trace. TL_UPDATE_GOLDENS=1 rewrites the expected files; review the difference. For materialise-ops and
// add-output-nodes the text stands for the Capture: rows of kind output are what the model returned. Where there is a
// <case>.source, it holds the source texts of the model: each behind a line `#source LINE FILE`.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <sstream>
#include <vector>

#include "postprocess/observers.h"
#include "postprocess/pipeline.h"
#include "support/trace_fixtures.h"
#include "trace/invariants.h"
#include "trace/text.h"

namespace tl {
namespace {

struct Case {
  std::string step;
  std::string name;
};

void PrintTo(const Case& which, std::ostream* out) { *out << which.step << "/" << which.name; }

std::filesystem::path file_of(const Case& which, const char* suffix) {
  return std::filesystem::path(TL_STEP_CASES) / which.step / (which.name + suffix);
}

std::vector<Case> find_cases() {
  std::vector<Case> cases;
  constexpr std::string_view kSuffix = ".in.trace";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(TL_STEP_CASES)) {
    const auto file = entry.path().filename().string();
    if (!file.ends_with(kSuffix)) continue;
    cases.push_back({entry.path().parent_path().filename().string(), file.substr(0, file.size() - kSuffix.size())});
  }
  std::ranges::sort(cases, {}, [](const Case& which) { return which.step + "/" + which.name; });
  return cases;
}

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::stringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty() && line[0] != '#') lines.push_back(line);
  }
  return lines;
}

/// Lines that differ, by longest common subsequence: `-` expected, `+` got.
std::string diff(const std::vector<std::string>& expected, const std::vector<std::string>& got) {
  std::vector<std::vector<int>> common(expected.size() + 1, std::vector<int>(got.size() + 1, 0));
  for (auto i = expected.size(); i-- > 0;) {
    for (auto j = got.size(); j-- > 0;) {
      common[i][j] = expected[i] == got[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  std::string out;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < expected.size() || j < got.size()) {
    if (i < expected.size() && j < got.size() && expected[i] == got[j]) {
      ++i;
      ++j;
    } else if (j == got.size() || (i < expected.size() && common[i + 1][j] >= common[i][j + 1])) {
      out += "- " + expected[i++] + "\n";
    } else {
      out += "+ " + got[j++] + "\n";
    }
  }
  return out;
}

Trace run(const Case& which, const std::string& text) {
  if (which.step == "materialise-ops" || which.step == "add-output-nodes") {
    return run_pipeline(test::capture_from_text(text), {}, {.stop_after = which.step});
  }
  auto trace = trace_from_text(text);
  EXPECT_EQ(check_invariants(trace).size(), 0U) << check_invariants(trace)[0].message;
  Capture capture;
  const auto sources = test::source_texts(file_of(which, ".source"));
  StepContext context{trace, capture, sources};
  const auto& step = find_step(which.step);
  StepContract contract;
  contract.before(step, trace);
  step.run(context);
  contract.after(step, trace);
  return trace;
}

class Steps : public testing::TestWithParam<Case> {};

TEST_P(Steps, TurnsInIntoOut) {
  const auto trace = run(GetParam(), read(file_of(GetParam(), ".in.trace")));
  for (const auto& finding : check_invariants(trace)) ADD_FAILURE() << finding.check << ": " << finding.message;
  if (std::getenv("TL_UPDATE_GOLDENS") != nullptr) {
    std::ofstream(file_of(GetParam(), ".out.trace"), std::ios::binary) << to_text(trace);
  }
  const auto expected = read(file_of(GetParam(), ".out.trace"));
  ASSERT_FALSE(expected.empty()) << "there is no " << file_of(GetParam(), ".out.trace") << "; the step gives\n"
                                 << to_text(trace);
  const auto difference = diff(lines_of(expected), lines_of(to_text(trace)));
  EXPECT_EQ(difference, "") << "-expected +got\n" << difference;
}

INSTANTIATE_TEST_SUITE_P(All, Steps, testing::ValuesIn(find_cases()), [](const auto& which) {
  auto name = which.param.step + "_" + which.param.name;
  std::ranges::replace(name, '-', '_');
  std::ranges::replace(name, '.', '_');
  return name;
});

TEST(StepCases, EveryStepButTheTrivialHasOne) {
  for (const auto& step : pipeline_steps()) {
    if (step.name == "settle-payloads" || step.name == "freeze" || step.name == "hash-graph") continue;  // unit tests
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(TL_STEP_CASES) / step.name)) << step.name;
  }
}

}  // namespace
}  // namespace tl
