#include "trace/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "core/error.h"
#include "support/trace_fixtures.h"
#include "trace/args.h"
#include "trace/invariants.h"

namespace tl {
namespace {

std::string parse_error(const std::string& text) {
  try {
    trace_from_text(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kTextSyntax);
    return error.message;
  }
  return "parsed";
}

TEST(TraceText, ReadsTheWorkedExampleOfTheDocumentation) {
  std::ifstream file(std::string(TL_SOURCE_DIR) + "/docs/trace-text.md");
  std::stringstream text;
  text << file.rdbuf();
  const auto document = text.str();
  const std::string fence = "```trace\n";
  const auto begin = document.find(fence) + fence.size();
  ASSERT_NE(begin, std::string::npos + fence.size());
  const auto example = document.substr(begin, document.find("```", begin) - begin);
  const auto trace = trace_from_text(example);
  EXPECT_EQ(to_text(trace), example);
  EXPECT_TRUE(trace.finished);
  EXPECT_EQ(trace.num_ops(), 6U);
  EXPECT_THAT(test::labels(trace),
              testing::ElementsAre("input_1", "tanh_1_1:1", "mul_1_2:1", "tanh_1_1:2", "mul_1_2:2", "output_1"));
  EXPECT_EQ(raw_label(trace, OpId{4}), "mul_2_5_raw");
  EXPECT_THAT(test::rows(trace.layer_ops.op), testing::ElementsAre(0, 1, 3, 2, 4, 5));
  EXPECT_EQ(trace.layers.num_passes[1], 2);
  EXPECT_EQ(trace.run.inputs[0].sizes, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(trace.run.seed, 7);
  for (const auto& finding : check_invariants(trace)) ADD_FAILURE() << finding.check << ": " << finding.message;
}

TEST(TraceText, ReadsEveryFormOfAnOpLine) {
  const auto trace =
      trace_from_text(R"(trace 1
module self
instruction aten::add func_name=__iadd__ layer_type=iadd
instruction aten::size
param w
call self:1
op input_1_1_raw input out=i64[] address=input.x
op iadd_7_9_raw aten::add slot=1/3 out=bf16[0,2] device=cuda parents=input_1_1_raw@0,input_1_1_raw@1+2,input_1_1_raw@w )"
                      R"(args=[0:int(-3),1:double(0.5),2:string("a b"),3:ints(1,2)<f0,4:none()] params=w@1,w@2 )"
                      R"(from_input=1..3 flags=in_place,view
flow f0 instruction=aten::size before_op=iadd_7_9_raw args=[5:op(input_1_1_raw),6:bools(1,0)] value=double(1.5)
)");
  const auto& ops = trace.ops;
  EXPECT_EQ(ops.kind[1], 0);
  EXPECT_EQ(ops.type_index[1], 7);
  EXPECT_EQ(ops.raw_index[1], 9);
  EXPECT_EQ(ops.slot[1], 1);
  EXPECT_EQ(ops.num_slots[1], 3);
  EXPECT_EQ(ops.dtype[1], static_cast<std::uint8_t>(DType::kBF16));
  EXPECT_THAT(test::rows(trace.shapes[ops.shape[1]]), testing::ElementsAre(0, 2));
  EXPECT_EQ(ops.device[1], static_cast<std::uint8_t>(DeviceKind::kCuda));
  EXPECT_THAT(test::rows(trace.edges.parent), testing::ElementsAre(0, 0, 0));
  EXPECT_THAT(test::rows(trace.edges.arg), testing::ElementsAre(0, 1, -1));
  EXPECT_THAT(test::rows(trace.edges.sub), testing::ElementsAre(-1, 2, -1));
  EXPECT_THAT(test::rows(trace.param_uses.arg), testing::ElementsAre(1, 2));
  EXPECT_EQ(ops.min_distance_from_input[1], 1);
  EXPECT_EQ(ops.max_distance_from_input[1], 3);
  EXPECT_EQ(ops.flags[1], kOpInPlace | kOpView);
  const auto words = op_args(trace, OpId{1});
  ASSERT_EQ(words.size(), 2U + 2 + 2 + 4 + 1);  // header and value each; a list has its length before its values
  EXPECT_EQ(words[0], (ArgHeader{ArgTag::kInt, 0}.pack()));
  EXPECT_EQ(words[1], -3);
  EXPECT_EQ(words[6], (ArgHeader{ArgTag::kIntList, 3, 0}.pack()));
  EXPECT_THAT(test::rows(words.subspan(7, 3)), testing::ElementsAre(2, 1, 2));
  const auto flow_words = flow_args(trace, 0);
  ASSERT_EQ(flow_words.size(), 2U + 4);
  EXPECT_EQ(flow_words[1], 0);
  EXPECT_EQ(trace.flow.value[0], 0x3ff8000000000000);  // the bits of 1.5
  EXPECT_EQ(trace.flow.before_op[0], 1);
}

/// Every cell as text: strings and shapes by content, anything else by number.
std::vector<std::string> cells(const Trace& trace) {
  std::vector<std::string> result;
  for_each_table(trace, [&](std::string_view table, const auto& rows, auto&& visit) {
    visit(rows, [&](std::string_view field, const auto& column, std::string_view unit, std::string_view) {
      for (std::size_t row = 0; row < column.size(); ++row) {
        const auto value = static_cast<std::int64_t>(column[row]);
        auto text = std::to_string(value);
        if (unit == "string" && value >= 0) text = trace.strings[static_cast<std::int32_t>(value)];
        if (unit == "row of shapes" && value >= 0) {
          text = "dims";
          for (const auto dim : trace.shapes[static_cast<std::int32_t>(value)]) text += " " + std::to_string(dim);
        }
        result.push_back(std::string(table) + "." + std::string(field) + "[" + std::to_string(row) + "] = " + text);
      }
    });
  });
  return result;
}

TEST(TraceText, KeepsEveryColumnOfRandomTables) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const auto trace = test::random_columns(seed, seed % 7);
    const auto text = to_text(trace);
    const auto again = trace_from_text(text);
    ASSERT_EQ(to_text(again), text) << "seed " << seed;
    ASSERT_EQ(cells(again), cells(trace)) << "seed " << seed << "\n" << text;
  }
}

TEST(TraceText, KeepsTimesOnlyWhenAsked) {
  Trace trace = trace_from_text("trace 1\nmodule self\ncall self:1\nop input_1_1_raw input out=f32[]\n");
  trace.op_seconds.push_back(1.25e-7F);
  trace.module_call_seconds.push_back(0.1);
  trace.run.forward_seconds = 2.5;
  EXPECT_EQ(to_text(trace).find("seconds"), std::string::npos);
  const auto text = to_text(trace, {.stable = false});
  const auto again = trace_from_text(text);
  EXPECT_EQ(again.op_seconds[0], 1.25e-7F);
  EXPECT_EQ(again.module_call_seconds[0], 0.1);
  EXPECT_EQ(again.run.forward_seconds, 2.5);
  EXPECT_EQ(to_text(again, {.stable = false}), text);
}

TEST(TraceText, NamesTheLineOfAnError) {
  EXPECT_THAT(parse_error(""), testing::HasSubstr("line 1"));
  EXPECT_THAT(parse_error("trace 2\n"), testing::HasSubstr("expected `trace 1`"));
  EXPECT_THAT(parse_error("trace 1\n\nnode a\n"), testing::HasSubstr("line 3, column 5: unknown kind of line `node`"));
  EXPECT_THAT(parse_error("trace 1\nop a input out=f33[2]\n"),
              testing::HasSubstr("line 2, column 19: unknown dtype `f33`"));
  EXPECT_THAT(parse_error("trace 1\nop a input\nop b input parents=c@0\n"),
              testing::HasSubstr("line 3, column 21: no row of ops has the name `c`"));
  EXPECT_THAT(parse_error("trace 1\nop a input\nop a input\n"),
              testing::HasSubstr("line 3, column 5: the name `a` is taken"));
  EXPECT_THAT(parse_error("trace 1\nop a aten::relu\n"),
              testing::HasSubstr("no row of instructions has the name `aten::relu`"));
  EXPECT_THAT(parse_error("trace 1\nop a\n"), testing::HasSubstr("expected input, buffer, output or an instruction"));
  EXPECT_THAT(parse_error("trace 1\nop a input colour=red\n"), testing::HasSubstr("unknown field `colour`"));
  EXPECT_THAT(parse_error("trace 1\nop a input slot=70000/1\n"), testing::HasSubstr("the value 70000 is out of range"));
  EXPECT_THAT(parse_error("trace 1\nmodule \"a\n"), testing::HasSubstr("a quoted text does not end"));
  EXPECT_THAT(parse_error("trace 1\nop a input args=[0:ints(1,2]\n"), testing::HasSubstr("expected `,`"));
  EXPECT_THAT(parse_error("trace 1\nop a input args=[0:int(1,2)]\n"),
              testing::HasSubstr("wrong number of values for int"));
}

TEST(TraceText, SurvivesDamagedText) {
  const auto text = to_text(test::random_columns(3, 5), {.stable = false});
  std::mt19937_64 random(5);
  std::size_t refused = 0;
  for (int round = 0; round < 2000; ++round) {
    auto damaged = text;
    for (int edit = 0; edit < 3; ++edit) {
      const auto at = random() % damaged.size();
      if (random() % 2 == 0) {
        damaged[at] = static_cast<char>(random() % 256);
      } else {
        damaged.erase(at, random() % 20);
      }
    }
    try {
      check_invariants(trace_from_text(damaged));
    } catch (const Error& error) {
      ASSERT_EQ(error.code, ErrorCode::kTextSyntax) << error.message;
      ++refused;
    }
  }
  EXPECT_GT(refused, 500U);
}

}  // namespace
}  // namespace tl
