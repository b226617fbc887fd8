#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "diff_fixtures.h"

namespace tl {
namespace {

using test::diff_of;
using test::floats;
using test::trace_of;

/// Instructions of the names, which are types too, and the call around everything.
std::string header(const std::vector<std::string>& types) {
  std::string text = "module self\ncontext c0 module=self\n";
  for (const auto& type : types) text += "instruction " + type + " func_name=" + type + " layer_type=" + type + "\n";
  return text + "call self:1 first_op=x end_op=end\nop x input out=f32[4] address=input.x\n";
}

std::string op(const std::string& name, const std::string& type, const std::string& parents,
               const std::string& shape = "f32[4]") {
  return "op " + name + " " + type + " out=" + shape + (parents.empty() ? "" : " parents=" + parents) + "\n";
}

std::string output(const std::string& parents) {
  return "op y output out=f32[4] parents=" + parents + " address=output\n";
}

const HostTensor kValue = floats({1, 2, 3, 4});

Trace run_of(const std::string& text, std::size_t events) {
  return trace_of(text, std::vector<HostTensor>(events, kValue));
}

Alignment aligned(const Trace& a, const Trace& b) { return align(make_side(a), make_side(b), {{}, false}); }

TEST(Coverage, LeavesOutStepsOfAFusedOperation) {
  // layer_fwd is linear, relu, linear in one; nothing else reads what stands between.
  const auto fused =
      run_of(header({"layer_fwd", "tanh"}) + op("f", "layer_fwd", "x@0") + op("t", "tanh", "f@0") + output("t@0"), 4);
  const auto apart =
      run_of(header({"linear", "relu", "scale", "tanh"}) + op("l", "linear", "x@0") + op("r", "relu", "l@0") +
                 op("s", "scale", "r@0") + op("t", "tanh", "s@0") + output("t@0"),
             6);
  const auto report = diff_of(fused, apart);
  ASSERT_EQ(report.changes.size(), 1U);
  EXPECT_EQ(report.changes[0].kind, ChangeKind::kSplit);
  EXPECT_EQ(report.coverage.total, 2);
  EXPECT_EQ(report.coverage.compared, 2);
  EXPECT_EQ(report.coverage.inside_fused, 2);
}

TEST(Coverage, CountsAStepThatIsReadOutside) {
  const auto fused =
      run_of(header({"layer_fwd", "tanh"}) + op("f", "layer_fwd", "x@0") + op("t", "tanh", "f@0") + output("t@0"), 4);
  const auto apart =
      run_of(header({"linear", "relu", "scale", "tanh"}) + op("l", "linear", "x@0") + op("r", "relu", "l@0") +
                 op("s", "scale", "r@0") + op("t", "tanh", "s@0,l@1") + output("t@0"),
             6);
  const auto report = diff_of(fused, apart);
  EXPECT_EQ(report.coverage.total, 3);
  EXPECT_EQ(report.coverage.inside_fused, 1);
}

TEST(Coverage, LeavesOutWhatNoOutputHangsOn) {
  const auto plain = run_of(header({"tanh"}) + op("t", "tanh", "x@0") + output("t@0"), 3);
  const auto more = run_of(header({"tanh", "mean", "gt"}) + op("m", "mean", "x@0") + op("g", "gt", "m@0") +
                               op("t", "tanh", "x@0") + output("t@0"),
                           5);
  const auto report = diff_of(more, plain);
  EXPECT_EQ(report.coverage.total, 1);
  EXPECT_EQ(report.coverage.compared, 1);
}

TEST(Coverage, CountsWhatIsWrittenToABuffer) {
  const std::string buffer = "buffer state module=self dtype=f32 shape=[4] bytes=16\n";
  const auto plain = run_of(header({"tanh"}) + op("t", "tanh", "x@0") + output("t@0"), 3);
  const auto more = run_of(header({"tanh", "mean"}) + op("m", "mean", "x@0") +
                               "op w buffer out=f32[4] parents=m@0 flags=buffer_write address=state\n" +
                               op("t", "tanh", "x@0") + output("t@0"),
                           5);
  EXPECT_EQ(diff_of(more, plain).coverage.total, 2);
}

TEST(AlignReads, OperationsWithoutAPartnerByWhatReadsThem) {
  const auto made =
      trace_of(header({"tensor", "add"}) + op("c", "tensor", "") + op("a", "add", "x@0,c@1") + output("a@0"));
  const auto lifted = trace_of(header({"liftfreshcopy", "detach", "add"}) + op("l", "liftfreshcopy", "") +
                               op("d", "detach", "l@0") + op("a", "add", "x@0,d@1") + output("a@0"));
  EXPECT_THAT(aligned(made, lifted).subject_of, testing::ElementsAre(0, 2, 3, 4));
}

TEST(AlignReads, NotWhereShapesDiffer) {
  const auto made =
      trace_of(header({"tensor", "add"}) + op("c", "tensor", "", "f32[4]") + op("a", "add", "x@0,c@1") + output("a@0"));
  const auto other =
      trace_of(header({"arange", "add"}) + op("r", "arange", "", "f32[1]") + op("a", "add", "x@0,r@1") + output("a@0"));
  EXPECT_THAT(aligned(made, other).subject_of, testing::ElementsAre(0, -1, 2, 3));
}

TEST(AlignViews, OfOperationsThatAreNoPairAreNone) {
  // Attention whole and in steps: the one view of the reference is the last one of the subject, not the first.
  const auto whole = trace_of(header({"attention", "view", "tanh"}) + op("a", "attention", "x@0", "f32[2,2]") +
                              op("v", "view", "a@0") + op("t", "tanh", "v@0") + output("t@0"));
  const auto steps =
      trace_of(header({"softmax", "view", "bmm", "view2", "tanh"}) + op("s", "softmax", "x@0", "f32[1,4]") +
               op("v", "view", "s@0") + op("b", "bmm", "v@0", "f32[2,2,1]") + op("w", "view2", "b@0", "f32[4]") +
               op("t", "tanh", "w@0") + output("t@0"));
  const auto result = aligned(whole, steps);
  EXPECT_NE(result.subject_of[2], 2);
}

TEST(AlignBuffers, TheFirstAndTheLastVersionWhereOneSideWritesMoreOften) {
  const std::string read = "op b buffer out=f32[4] address=state\n";
  const auto write = [](const std::string& name, const std::string& parent) {
    return "op " + name + " buffer out=f32[4] parents=" + parent + "@0 flags=buffer_write address=state\n";
  };
  const auto twice = trace_of(header({"mul", "add"}) + read + op("m", "mul", "b@0,x@1") + write("v", "m") +
                              op("a", "add", "v@0,x@1") + write("w", "a") + output("a@0"));
  const auto once = trace_of(header({"mul", "add"}) + read + op("m", "mul", "b@0,x@1") + op("a", "add", "m@0,x@1") +
                             write("w", "a") + output("a@0"));
  EXPECT_THAT(aligned(twice, once).subject_of, testing::ElementsAre(0, 1, 2, -1, 3, 4, 5));
}

}  // namespace
}  // namespace tl
