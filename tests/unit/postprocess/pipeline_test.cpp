#include "postprocess/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/error.h"
#include "postprocess/observers.h"
#include "postprocess/row_map.h"
#include "support/trace_fixtures.h"
#include "trace/text.h"

namespace tl {
namespace {

// for _ in range(2): x = tanh(x) * 0.5; the file, addresses and values can be varied without changing the graph's
// shape.
std::string loop_text(const std::string& file, const std::string& func, const std::string& shape,
                      const std::string& role) {
  return "trace 1\ncall_site s0 file=" + file + " line=7 column=16 column_end=29\ncall_site s1 file=" + file +
         " line=7 column=16 column_end=35\nmodule self\ncontext c0 module=self\n" +
         "instruction i0 op_name=aten::tanh func_name=" + func +
         " layer_type=tanh call_site=s0\ninstruction i1 op_name=aten::mul func_name=__mul__ layer_type=mul "
         "call_site=s1\n" +
         "call self:1 first_op=a end_op=end output_op=e\n" + "op a input out=f32" + shape + " address=" + role +
         "\nop b i0 out=f32" + shape + " parents=a@0\nop c i1 out=f32" + shape + " parents=b@0\nop d i0 out=f32" +
         shape + " parents=c@0\nop e i1 out=f32" + shape + " parents=d@0\nop f output out=f32" + shape +
         " parents=e@0 address=output\n";
}

Trace run_loop(const std::string& file = "m.py", const std::string& func = "tanh", const std::string& shape = "[2]",
               const std::string& role = "input.x") {
  return run_pipeline(test::capture_from_text(loop_text(file, func, shape, role)));
}

TEST(Pipeline, TurnsALoopIntoLayersWithPasses) {
  const auto trace = run_loop();
  EXPECT_TRUE(trace.finished);
  EXPECT_THAT(test::labels(trace),
              testing::ElementsAre("input_1", "tanh_1_1:1", "mul_1_2:1", "tanh_1_1:2", "mul_1_2:2", "output_1"));
  EXPECT_EQ(trace.ops.max_distance_to_output[0], 5);
  EXPECT_EQ(trace.modules.num_calls[0], 1);
  EXPECT_NE(trace.ops.flags[4] & kOpOutputParent, 0U);
  EXPECT_EQ(trace.ops.flags[4] & kOpModuleOutput, 0U);  // the root call's values are the outputs
}

TEST(Pipeline, StopsAfterAStep) {
  const auto trace = run_pipeline(test::capture_from_text(loop_text("m.py", "tanh", "[2]", "input.x")), {},
                                  {.stop_after = "group-loops"});
  EXPECT_FALSE(trace.finished);
  EXPECT_EQ(trace.layers.num_passes[1], 2);
  EXPECT_EQ(trace.layers.type_num[1], 0);
}

TEST(Pipeline, AnUnknownStepIsNamedWithTheNearest) {
  try {
    run_pipeline({}, {}, {.stop_after = "group-loop"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kUsage);
    EXPECT_THAT(error.hint, testing::HasSubstr("group-loops"));
  }
}

TEST(Pipeline, AnEmptyCaptureIsAnEmptyTrace) {
  StepVerifier verifier;
  StepObserver* observers[] = {&verifier};
  const auto trace = run_pipeline({}, observers);
  EXPECT_TRUE(trace.finished);
  EXPECT_EQ(trace.num_ops(), 0U);
}

TEST(Pipeline, StepsHaveNamesRunAndAbout) {
  std::set<std::string_view> names;
  for (const auto& step : pipeline_steps()) {
    EXPECT_TRUE(names.insert(step.name).second) << step.name;
    EXPECT_NE(step.run, nullptr);
    EXPECT_FALSE(step.about.empty());
    EXPECT_EQ(&find_step(step.name), &step);
  }
}

TEST(GraphHash, IsBlindToPlacesShapesAndPools) {
  const auto hash = run_loop().graph_shape_hash;
  EXPECT_EQ(hash.size(), 32U);
  EXPECT_EQ(run_loop("other.py").graph_shape_hash, hash);
  EXPECT_EQ(run_loop("m.py", "tanh_").graph_shape_hash, hash);  // normalised: the layer type
  EXPECT_EQ(run_loop("m.py", "tanh", "[5,1]").graph_shape_hash, hash);
  EXPECT_NE(run_loop("m.py", "tanh", "[2]", "input.y").graph_shape_hash, hash);
}

TEST(GraphHash, SeesEdgesPositionsAndModules) {
  const auto text = loop_text("m.py", "tanh", "[2]", "input.x");
  const auto hash = run_loop().graph_shape_hash;
  const auto changed = [&](const std::string& from, const std::string& to) {
    auto other = text;
    const auto at = other.find(from);
    EXPECT_NE(at, std::string::npos);
    other.replace(at, from.size(), to);
    return run_pipeline(test::capture_from_text(other)).graph_shape_hash;
  };
  EXPECT_NE(changed("parents=c@0", "parents=b@0"), hash);
  EXPECT_NE(changed("parents=c@0", "parents=c@1"), hash);
  EXPECT_NE(changed("parents=c@0", "parents=c@0+1"), hash);
  EXPECT_NE(changed("op c i1", "op c i0"), hash);
  EXPECT_EQ(changed("parents=c@0", "parents=c@0"), hash);
}

TEST(GraphHash, SeesTheModuleAnOpRanIn) {
  auto text = loop_text("m.py", "tanh", "[2]", "input.x");
  const auto insert_before = [&](const std::string& at, const std::string& what) { text.insert(text.find(at), what); };
  insert_before("context c0", "module m parent=self\n");
  insert_before("op a input", "call m:1 parent_call=self:1 first_op=d end_op=e output_op=d\n");
  const auto idle = run_pipeline(test::capture_from_text(text));
  EXPECT_EQ(idle.graph_shape_hash, run_loop().graph_shape_hash);
  const auto at = text.find("parents=c@0") + std::string("parents=c@0").size();
  text.insert(at, " call=m:1");
  const auto inside = run_pipeline(test::capture_from_text(text));
  EXPECT_NE(inside.graph_shape_hash, idle.graph_shape_hash);
  EXPECT_NE(inside.ops.flags[3] & kOpModuleOutput, 0U);
}

TEST(RowMap, FindsEveryKeyAgain) {
  struct Key {
    std::uint64_t value = 0;
    bool operator==(const Key&) const = default;
    std::uint64_t hash() const { return mix(0, value % 7); }  // long probe sequences
  };
  RowMap<Key> map;
  for (std::int32_t row = 0; row < 1000; ++row)
    EXPECT_EQ(map.find_or_insert({static_cast<std::uint64_t>(row) * 3}, row), row);
  for (std::int32_t row = 0; row < 1000; ++row)
    EXPECT_EQ(map.find_or_insert({static_cast<std::uint64_t>(row) * 3}, 5000), row);
}

}  // namespace
}  // namespace tl
