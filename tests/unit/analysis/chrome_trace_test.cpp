// The document against what the Trace Event Format asks for: B and E pair up per thread like brackets, timestamps are
// microseconds that never decrease, X events lie inside the B and E around them, counters hold numbers.
#include "analysis/chrome_trace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "trace/text.h"

namespace tl {
namespace {

using nlohmann::json;

constexpr const char* kText = R"(trace 1
run model_file="we##[ird\".pt"
call_site s0 file=net.py line=7 column=12 column_end=22 function=forward
module self class_name=Net
module block class_name=Block parent=self
module block.fc class_name=Linear parent=block
context c0 module=self
instruction aten::relu func_name=relu call_site=s0 arg_template="self=%0"
instruction aten::topk func_name=topk arg_template="self=%0, k=1, dim=1"
instruction zoo::secret func_name=secret arg_template="x=%0"
call self:1 first_op=x end_op=end
call block:1 parent_call=self:1 first_op=a end_op=c
call block.fc:1 parent_call=block:1 first_op=a end_op=b
call block:2 parent_call=self:1 first_op=d end_op=y
call block.fc:2 parent_call=block:2 first_op=y end_op=y
op x input out=f32[2,2]
op a aten::relu out=f32[2,2] parents=x@0 call=block.fc:1
op b aten::relu out=f32[2,2] parents=a@0 call=block:1
op c aten::topk slot=0/2 out=f32[2,1] parents=b@0
op c2 aten::topk slot=1/2 out=i64[2,1] parents=b@0
op d zoo::secret out=f32[2,1] parents=c@0 call=block:2
op y output out=f32[2,1] parents=d@0
)";

json document_of(const Trace& trace, bool stable = false) {
  std::string text;
  write_chrome_trace(trace, stable, [&](std::string_view piece) { text += piece; });
  EXPECT_EQ(text.find("##["), std::string::npos);
  return json::parse(text);
}

struct Timeline {
  std::vector<std::string> names;  ///< of B and X events, `>` for each that is open around them
  double end = 0;
};

Timeline check_events(const json& document) {
  Timeline timeline;
  std::vector<double> open;  // begin of each B
  double now = 0;
  double busy_until = 0;
  std::size_t counters = 0;
  for (const auto& event : document.at("traceEvents")) {
    const auto phase = event.at("ph").get<std::string>();
    EXPECT_EQ(event.at("pid"), 1);
    EXPECT_EQ(event.at("tid"), 1);
    if (phase == "M") continue;
    const auto ts = event.at("ts").get<double>();
    EXPECT_GE(ts, now) << event;
    now = ts;
    if (phase == "C") {
      EXPECT_TRUE(event.at("args").at("bytes").is_number_integer());
      ++counters;
      continue;
    }
    if (phase == "E") {
      EXPECT_FALSE(open.empty());
      EXPECT_GE(ts, busy_until) << "an X event reaches beyond the E after it";
      if (!open.empty()) open.pop_back();
      continue;
    }
    EXPECT_TRUE(phase == "B" || phase == "X") << phase;
    EXPECT_GE(ts, busy_until) << "two calls overlap";
    timeline.names.push_back(std::string(open.size(), '>') + event.at("name").get<std::string>());
    if (phase == "B") open.push_back(ts);
    if (phase == "X") busy_until = ts + event.at("dur").get<double>();
  }
  EXPECT_TRUE(open.empty()) << "a B without an E";
  EXPECT_GT(counters, 0U);
  timeline.end = now;
  return timeline;
}

TEST(ChromeTrace, CallsNestAndTimeGoesOn) {
  const auto document = document_of(trace_from_text(kText));
  const auto timeline = check_events(document);
  const std::vector<std::string> expected = {"self:1", ">block:1", ">>block.fc:1", ">>>relu",     ">>relu",
                                             ">topk",  ">block:2", ">>secret",     ">>block.fc:2"};
  EXPECT_EQ(timeline.names, expected);
  EXPECT_DOUBLE_EQ(timeline.end, 4) << "four calls, a microsecond each where nothing was measured";
}

TEST(ChromeTrace, MeasuredTimesAreLaidEndToEnd) {
  auto trace = trace_from_text(kText);
  trace.op_seconds.assign({0, 1e-6F, 2e-6F, 4e-6F, 0, 8e-6F, 0});
  trace.module_call_seconds.assign({40e-6, 10e-6, 1.5e-6, 20e-6, 1e-6});
  const auto timeline = check_events(document_of(trace));
  EXPECT_NEAR(timeline.end, 40, 0.01);
  EXPECT_DOUBLE_EQ(check_events(document_of(trace, true)).end, 4);
}

TEST(ChromeTrace, TimesThatAreNoTimesDoNoHarm) {
  auto trace = trace_from_text(kText);
  trace.op_seconds.assign({-1, NAN, INFINITY, 1e30F, 0, 8e-6F, 0});
  trace.module_call_seconds.assign({-INFINITY, NAN, 1e300, 0, 0});
  check_events(document_of(trace));
}

TEST(ChromeTrace, AnOperationTellsWhatItIs) {
  const auto document = document_of(trace_from_text(kText));
  std::vector<json> operations;
  for (const auto& event : document.at("traceEvents")) {
    if (event.at("ph") == "X") operations.push_back(event.at("args"));
  }
  ASSERT_EQ(operations.size(), 4U);
  EXPECT_EQ(operations[0].at("inputs"), "f32[2,2]");
  EXPECT_EQ(operations[0].at("source"), "net.py:7");
  EXPECT_EQ(operations[0].at("operator"), "aten::relu");
  EXPECT_EQ(operations[0].at("flops"), 4);
  EXPECT_EQ(operations[2].at("outputs"), "f32[2,1] i64[2,1]");
  EXPECT_FALSE(operations[3].contains("flops")) << "not known";
  EXPECT_EQ(document.at("otherData").at("model"), "we##[ird\".pt");
}

TEST(ChromeTrace, AnEmptyTraceIsADocument) {
  const auto document = document_of(trace_from_text("trace 1\n"));
  EXPECT_TRUE(document.at("traceEvents").is_array());
}

}  // namespace
}  // namespace tl
