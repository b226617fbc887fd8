// Recordings of small models in TorchScript and exported form (data/*.trace, the records without places and host
// values) against what Python TorchLens 2.36.1 reports for the same models: total_flops_forward, total_macs_forward and
// num_params of its traces. Where it differs on purpose, the reason stands in the table.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "cost/op_costs.h"
#include "cost/parameters.h"
#include "trace/text.h"

namespace tl {
namespace {

struct Expected {
  std::int64_t flops;
  std::int64_t macs;
  std::int64_t params;
};

const std::map<std::string, Expected> kExpected = {
    {"attention", {35390, 12720, 1427}},
    {"branch", {97, 32, 20}},
    {"branch.elif", {58, 0, 20}},
    {"branch.else", {34, 0, 20}},
    {"buffers_bn", {12609, 5400, 120}},
    {"early_return", {9, 0, 0}},
    {"early_return.then", {9, 0, 0}},
    {"handwritten_fn", {168, 0, 0}},
    {"inplace", {112, 32, 20}},
    {"loop_fn", {168, 0, 0}},
    {"loop_single_fn", {336, 32, 20}},
    // TorchLens says 166 and 60: it counts topk (2) and max (4) once an output, and has no count for the LSTM: 6 steps
    // of weights [20,4] and [20,5], two biases of 20, 5 hidden units of 32 operations.
    {"multi_output", {166 - 2 - 4 + 2 * 1080 + 240 + 960, 60 + 1080, 256}},
    {"orphan", {120, 32, 40}},
    {"orphan.script", {120 - 32, 32, 40}},  // scripting drops the sigmoid, whose value nobody reads
    {"recurrent_cell", {636, 208, 50}},
    {"seq_mlp", {342, 144, 58}},
    {"shared_relu", {780, 336, 130}},
};

TEST(ReferenceTotals, FlopsMultiplyAddsAndParametersAreThoseOfTorchLens) {
  std::size_t recordings = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TL_SOURCE_DIR "/tests/unit/cost/data")) {
    const auto name = entry.path().stem().stem().string();  // model.form.trace
    SCOPED_TRACE(entry.path().filename().string());
    std::ifstream file(entry.path());
    std::ostringstream text;
    text << file.rdbuf();
    const auto trace = trace_from_text(text.str());
    const auto totals = cost_totals(trace, op_costs(trace));
    const auto with_form = entry.path().stem().string();  // model.form, where a form differs
    const auto& expected = kExpected.at(kExpected.contains(with_form) ? with_form : name);
    EXPECT_EQ(totals.flops, expected.flops);
    EXPECT_EQ(totals.macs, expected.macs);
    EXPECT_EQ(param_totals(trace).all.elements, expected.params);
    EXPECT_FALSE(totals.is_lower_bound());
    ++recordings;
  }
  EXPECT_EQ(recordings, 27U);
}

}  // namespace
}  // namespace tl
