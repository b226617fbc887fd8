#include "trace/invariants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <random>

#include "support/trace_fixtures.h"
#include "trace/args.h"
#include "trace/text.h"

namespace tl {
namespace {

constexpr const char* kSound = R"(trace 1 finished hash=00000000000000000000000000000000
call_site s0 file=m.py line=4 column=8 column_end=15 function=forward
module self num_calls=1
module bn parent=self num_calls=2
context c0 module=self
context c1 module=bn
instruction aten::split func_name=split layer_type=split call_site=s0
instruction aten::mul func_name=mul layer_type=mul call_site=s0
instruction prim::If func_name=if layer_type=if call_site=s0
buffer bn.mean module=bn num_versions=2 last_op=buffer_2
call self:1 first_op=input_1 end_op=end
call bn:1 parent_call=self:1 first_op=mul_1_3:1 end_op=buffer_2
call bn:2 parent_call=self:1 first_op=mul_1_3:2 end_op=output_1
conditional if0 instruction=prim::If site_context=c0 num_arms=1 then_count=1
branch arm0 conditional=if0 module_call=self:1 first_op=mul_1_3:2 end_op=output_1
layer input_1
layer split_1_1
layer split_2_2
layer buffer_1
layer mul_1_3
layer buffer_2
layer output_1
payload p0 first_op=input_1 shape=[4] strides=[1] bytes=16 dtype=f32
op input_1 input out=f32[4] raw=1/1 from_input=0 to_output=3..4 flags=output_ancestor,input_descendant address=input.x payload=p0
op split_1_1 aten::split slot=0/2 out=f32[2] parents=input_1@0 raw=1/2 from_input=1 to_output=2..3 flags=output_ancestor,input_descendant
op split_2_2 aten::split slot=1/2 out=f32[2] parents=input_1@0 raw=2/3 from_input=1 flags=input_descendant args=[1:ints(2,2)]
op buffer_1 buffer out=f32[2] raw=1/4 to_output=2..3 flags=output_ancestor address=bn.mean
op mul_1_3:1 aten::mul out=f32[2] parents=split_1_1@0,buffer_1@1 call=bn:1 context=c1 raw=1/5 from_input=2 to_output=2 flags=output_ancestor,input_descendant
op buffer_2 buffer out=f32[2] parents=mul_1_3:1@w raw=2/6 from_input=3 flags=buffer_write,input_descendant address=bn.mean
op mul_1_3:2 aten::mul out=f32[2] parents=split_1_1@0,mul_1_3:1@1,buffer_1@2 call=bn:2 context=c1 raw=2/7 from_input=2..3 to_output=1 flags=output_ancestor,input_descendant branch=arm0
op output_1 output out=f32[2] parents=mul_1_3:2@0 raw=1/8 from_input=3..4 to_output=0 flags=output_ancestor,input_descendant address=output
)";

std::vector<std::string> families(const Trace& trace) {
  std::vector<std::string> result;
  for (const auto& finding : check_invariants(trace)) result.push_back(finding.check);
  return result;
}

TEST(Invariants, ASoundTraceHasNoFinding) {
  for (const auto& finding : check_invariants(trace_from_text(kSound)))
    ADD_FAILURE() << finding.check << ": " << finding.message;
  EXPECT_TRUE(check_invariants(Trace{}).empty());
}

struct Damage {
  const char* name;
  const char* family;
  std::function<void(Trace&)> apply;
};

void PrintTo(const Damage& damage, std::ostream* out) { *out << damage.name; }

std::vector<Damage> damages() {
  return {Damage{"short_column", "columns", [](Trace& t) { t.ops.shape.resize(3); }},
          Damage{"code", "columns", [](Trace& t) { t.modules.address.mut(0) = 1000; }},
          Damage{"reference", "columns", [](Trace& t) { t.ops.layer.mut(2) = -7; }},
          Damage{"begin", "columns", [](Trace& t) { t.ops.edge_begin.mut(3) = 0; }},
          Damage{"lost_edge", "columns", [](Trace& t) { t.ops.edge_begin.mut(0) = 1; }},
          Damage{"argument", "args",
                 [](Trace& t) {
                   t.args.mut(0) = ArgHeader{ArgTag::kOp, 0}.pack();
                 }},
          Damage{"tag", "args", [](Trace& t) { t.args.mut(0) = 99; }},
          Damage{"flow", "args",
                 [](Trace& t) {
                   t.args.mut(0) = ArgHeader{ArgTag::kIntList, 1, 5}.pack();
                 }},
          Damage{"list_length", "args", [](Trace& t) { t.args.mut(1) = 1LL << 60; }},
          Damage{"cycle", "edges", [](Trace& t) { t.edges.parent.mut(0) = 4; }},
          Damage{"no_parent", "edges", [](Trace& t) { t.edges.parent.mut(0) = -1; }},
          Damage{"raw_twice", "order", [](Trace& t) { t.ops.raw_index.mut(2) = 2; }},
          Damage{"op_after_output", "order",
                 [](Trace& t) {
                   t.ops.kind.mut(6) = 3;
                   t.ops.kind.mut(7) = 1;
                 }},
          Damage{"slots", "slots", [](Trace& t) { t.ops.slot.mut(2) = 0; }},
          Damage{"slot_count", "slots", [](Trace& t) { t.ops.num_slots.mut(4) = 2; }},
          Damage{"distance", "distances", [](Trace& t) { t.ops.max_distance_to_output.mut(0) = 3; }},
          Damage{"ancestor", "distances", [](Trace& t) { t.ops.flags.mut(2) |= kOpOutputAncestor; }},
          Damage{"kind", "kinds", [](Trace& t) { t.ops.kind.mut(1) = 9; }},
          Damage{"no_role", "kinds", [](Trace& t) { t.ops.address.mut(0) = -1; }},
          Damage{"outside_call", "kinds", [](Trace& t) { t.ops.module_call.mut(6) = 1; }},
          Damage{"pass_number", "passes", [](Trace& t) { t.ops.pass_index.mut(6) = 3; }},
          Damage{"other_code", "passes", [](Trace& t) { t.ops.site_context.mut(6) = 0; }},
          Damage{"count", "passes", [](Trace& t) { t.layers.num_passes.mut(4) = 1; }},
          Damage{"type_num", "labels", [](Trace& t) { t.layers.type_num.mut(2) = 1; }},
          Damage{"total_num", "labels", [](Trace& t) { t.layers.total_num.mut(3) = 3; }},
          Damage{"module_cycle", "modules", [](Trace& t) { t.modules.parent.mut(0) = 1; }},
          Damage{"call_range", "modules", [](Trace& t) { t.module_calls.end_op.mut(0) = 6; }},
          Damage{"call_index", "modules", [](Trace& t) { t.module_calls.call_index.mut(2) = 3; }},
          Damage{"num_calls", "modules", [](Trace& t) { t.modules.num_calls.mut(1) = 1; }},
          Damage{"context_cycle", "contexts", [](Trace& t) { t.site_contexts.parent.mut(0) = 1; }},
          Damage{"versions", "buffers", [](Trace& t) { t.buffers.num_versions.mut(0) = 1; }},
          Damage{"branch", "branches", [](Trace& t) { t.ops.branch.mut(1) = 0; }},
          Damage{"payload", "payloads", [](Trace& t) { t.payloads.first_op.mut(0) = 2; }},
          Damage{"payload_strides", "payloads", [](Trace& t) {
                   t.payloads.strides.mut(0) = t.shapes.intern(std::vector<std::int64_t>{1, 1});
                 }}};
}

class BrokenTraces : public testing::TestWithParam<Damage> {};

TEST_P(BrokenTraces, AreFound) {
  auto trace = trace_from_text(kSound);
  GetParam().apply(trace);
  EXPECT_THAT(families(trace), testing::Contains(GetParam().family));
}

INSTANTIATE_TEST_SUITE_P(All, BrokenTraces, testing::ValuesIn(damages()),
                         [](const auto& damage) { return damage.param.name; });

TEST(Invariants, FindingsOfAFamilyAreCut) {
  auto trace = trace_from_text(kSound);
  std::vector<std::int32_t> layers(100, 55);
  for (int row = 0; row < 100; ++row) trace.layer_ops.op.push_back(1000 + row);
  const auto findings = check_invariants(trace);
  EXPECT_EQ(findings.size(), 20U);
  EXPECT_THAT(findings.back().message, testing::HasSubstr("left out"));
}

TEST(Invariants, AreSafeOnAnyColumns) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    auto trace = test::random_columns(seed, 1 + seed % 9);
    if (seed % 3 != 0) {
      std::mt19937_64 random(seed);
      for_each_table(trace, [&](std::string_view, auto& rows, auto&& visit) {
        visit(rows, [&](std::string_view, auto& column, std::string_view, std::string_view) {
          using Value = std::remove_cvref_t<decltype(column[0])>;
          if (random() % 5 == 0) column.mut(random() % column.size()) = static_cast<Value>(random());
          if (random() % 20 == 0) column.resize(random() % 4);
        });
      });
    }
    EXPECT_FALSE(check_invariants(trace).empty());
  }
}

}  // namespace
}  // namespace tl
