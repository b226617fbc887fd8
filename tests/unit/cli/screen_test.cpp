#include "screen.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/text.h"
#include "json_output.h"
#include "postprocess/pipeline.h"
#include "summary_table.h"
#include "support/trace_fixtures.h"
#include "table.h"
#include "unit/tlspec/json_schema.h"

namespace tl::cli {
namespace {

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Trace golden_trace(const std::string& name) {
  const auto path = std::filesystem::path(TL_SOURCE_DIR) / "tests/golden/inputs" / name;
  return run_pipeline(test::capture_from_text(read_text(path)));
}

template <typename Print>
std::string printed(Print&& print) {
  std::FILE* file = std::tmpfile();
  Output out(file, false);
  print(out);
  out.flush();
  std::rewind(file);
  std::string text;
  char buffer[4096];
  for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, file)) > 0;) text.append(buffer, got);
  std::fclose(file);
  return text;
}

TEST(Screen, JsonIsWhatTheSchemaSays) {
  test::JsonSchema schema(
      nlohmann::json::parse(read_text(std::filesystem::path(TL_SOURCE_DIR) / "schemas/show_trace.schema.json")));
  for (const std::string name : {"net.trace", "deep.trace", "partial.trace"}) {
    SCOPED_TRACE(name);
    auto trace = golden_trace(name);
    trace.module_call_seconds.resize(trace.module_calls.module.size());
    for (const bool stable : {false, true}) {
      SummaryScreenOptions options;
      options.level = stable ? "op" : "auto";
      options.stable = stable;
      auto body = first_screen_json(trace, {}, options);
      body["level"] = "portable";
      const auto document = nlohmann::json::parse(json_envelope("show", true, body));
      EXPECT_EQ(schema.violations(document), std::vector<std::string>());
      EXPECT_EQ(document["run"].contains("forward_seconds"), !stable);
      EXPECT_EQ(document["totals"].contains("duration"), !stable);
    }
  }
}

TEST(Screen, EveryLineFitsIntoEightyColumns) {
  for (const std::string view : {"overview", "compute", "memory"}) {
    const auto trace = golden_trace("deep.trace");
    SummaryScreenOptions options;
    options.view = view;
    options.level = "module";
    const auto summary = summarise(trace, summary_options(options));
    std::istringstream lines(printed([&](Output& out) { print_summary_table(out, trace, summary, options); }));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), 80U) << line;
  }
}

TEST(Screen, StableOutputHasNoTimes) {
  auto trace = golden_trace("deep.trace");
  SummaryScreenOptions options;
  options.stable = true;
  const auto before = printed([&](Output& out) { print_first_screen(out, trace, {}, options); });
  std::vector<double> seconds(trace.module_calls.module.size(), 0.5);
  trace.module_call_seconds.assign(seconds);
  trace.run.inputs[0].source = "/elsewhere/x.npz:x";
  const auto after = printed([&](Output& out) { print_first_screen(out, trace, {}, options); });
  EXPECT_EQ(before, after);
}

TEST(Screen, OpsAndLayers) {
  TraceSummary summary;
  summary.num_ops = 69;
  summary.num_layers = 61;
  EXPECT_EQ(ops_and_layers(summary), "69 ops, 61 layers");
  summary.num_recurrent = 8;
  summary.min_passes = summary.max_passes = 2;
  EXPECT_EQ(ops_and_layers(summary), "69 ops, 61 layers (8 run twice)");
  summary.max_passes = 3;
  EXPECT_EQ(ops_and_layers(summary), "69 ops, 61 layers (8 run 2-3 times)");
  summary.min_passes = 3;
  EXPECT_EQ(ops_and_layers(summary), "69 ops, 61 layers (8 run 3 times)");
}

TEST(Screen, Flops) {
  EXPECT_EQ(format_flops(0, 0), "-");
  EXPECT_EQ(format_flops(1500, 0), "1.50 K");
  EXPECT_EQ(format_flops(1500, 1), "≥ 1.50 K");
  EXPECT_EQ(format_flops(0, 1), "?");
}

TEST(Table, TheWidestColumnGivesWayAndSpansStay) {
  const auto text = printed([](Output& out) {
    Table table({{"name", 0, false, 6}, {"class", 0, false, 4}, {"size", 0, true}});
    table.add({"a very long name indeed", "class", "1"});
    table.add_spanning(2, {"total over both columns", "12345"});
    table.print(out, "", 32);
  });
  EXPECT_EQ(text,
            "name                class   size\n"
            "a very long name …  class      1\n"
            "total over both columns    12345\n");
}

}  // namespace
}  // namespace tl::cli
