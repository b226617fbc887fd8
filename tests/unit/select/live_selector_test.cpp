#include "select/live_selector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "core/error.h"
#include "postprocess/pipeline.h"
#include "select/selection.h"
#include "support/trace_fixtures.h"

namespace tl {
namespace {

/// Plays a finished capture again, event by event, with calls that open and return as they did.
class Player {
 public:
  explicit Player(Capture capture) : capture_(std::move(capture)) {
    ends_.assign(capture_.module_calls.end_op.begin(), capture_.module_calls.end_op.end());
    outputs_.assign(capture_.module_calls.output_op.begin(), capture_.module_calls.output_op.end());
    for (std::size_t call = 0; call < ends_.size(); ++call) {
      capture_.module_calls.end_op.mut(call) = -1;
      capture_.module_calls.output_op.mut(call) = -1;
    }
  }

  /// The last answer for each event, with what module exits changed.
  std::map<std::uint32_t, LiveAnswer> play(LiveSelector& selector) {
    std::map<std::uint32_t, LiveAnswer> answers;
    for (std::uint32_t event = 0; event < capture_.events.size(); ++event) {
      close_until(event, selector, answers);
      answers[event] = selector.on_op(capture_, event);
    }
    close_until(static_cast<std::uint32_t>(capture_.events.size()), selector, answers);
    return answers;
  }
  const Capture& capture() const { return capture_; }

 private:
  void close_until(std::uint32_t event, LiveSelector& selector, std::map<std::uint32_t, LiveAnswer>& answers) {
    for (auto call = ends_.size(); call-- > 0;) {  // inner calls come later
      if (capture_.module_calls.end_op[call] >= 0 || ends_[call] > static_cast<std::int64_t>(event)) continue;
      if (capture_.module_calls.first_op[call] > static_cast<std::int64_t>(event)) continue;
      const auto output = outputs_[call] < 0 ? OpId::kNone : static_cast<std::uint32_t>(outputs_[call]);
      capture_.module_calls.end_op.mut(call) = ends_[call];
      capture_.module_calls.output_op.mut(call) = outputs_[call];
      const auto row = static_cast<std::uint32_t>(call);
      if (selector.on_module_exit(capture_, row, output) == LiveAnswer::kYes) answers[output] = LiveAnswer::kYes;
      for (auto& [earlier, answer] : answers) {
        if (answer == LiveAnswer::kLater) answer = selector.after_module_exit(capture_, earlier, row, output);
      }
    }
  }

  Capture capture_;
  std::vector<std::int32_t> ends_;
  std::vector<std::int32_t> outputs_;
};

/// Live answers agree with what resolving the finished trace says, except where they are open.
void expect_agreement(std::uint64_t seed, const std::string& source, bool settled) {
  const auto selector = Selector::parse(source);
  const auto trace = run_pipeline(test::random_capture(seed, 80));
  std::map<std::int32_t, bool> chosen;  // by raw index, which counts events from 1
  for (std::size_t op = 0; op < trace.num_ops(); ++op) {
    if (trace.ops.kind[op] != static_cast<std::uint8_t>(OpKind::kOutput)) chosen[trace.ops.raw_index[op]] = false;
  }
  for (const auto& site : resolve(selector, trace, NoMatch::kAllow).sites) {
    const auto found = chosen.find(trace.ops.raw_index[site.op.index()]);
    if (found != chosen.end()) found->second = true;
  }
  LiveSelector live(selector);
  Player player(test::random_capture(seed, 80));
  for (const auto& [event, answer] : player.play(live)) {
    const auto found = chosen.find(static_cast<std::int32_t>(event) + 1);
    if (found == chosen.end()) continue;  // an orphan
    if (answer == LiveAnswer::kLater) {
      EXPECT_FALSE(settled) << source << " left event " << event << " open, seed " << seed;
    } else {
      EXPECT_EQ(answer == LiveAnswer::kYes, found->second) << source << ", event " << event << ", seed " << seed;
    }
  }
}

TEST(LiveSelector, AgreesWithTheFinishedTrace) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    for (const char* source :
         {"func(\"*a*\")", "in_module(\"*1*\")", "module(\"*\")", "module(\"*1*\")", "input", "buffer",
          "where(numel > 4 and dtype == \"f32\")", "where(module_type != none)", "func(\"*r*\") & in_module(\"*\")",
          "module(\"*\") & where(numel > 4)", "in_module(\"*\") - func(\"*a*\")"}) {
      expect_agreement(seed, source, true);
    }
    for (const char* source : {"contains(\"1\")", "label(\"relu_1_1:1\") | func(\"*a*\")", "output", "regex(\"1$\")",
                               "followed_by(func(\"*a*\"))", "where(pass_index == 1)"}) {
      expect_agreement(seed, source, false);
    }
  }
}

std::optional<std::string> unsettled(const std::string& source, const Capture* capture = nullptr) {
  return LiveSelector(Selector::parse(source)).first_unsettled_term(capture);
}

TEST(LiveSelector, SaysWhatOnlyTheFinishedTraceDecides) {
  EXPECT_EQ(unsettled("func(\"relu\") & module(\"a\") - where(numel > 3)"), std::nullopt);
  EXPECT_EQ(unsettled("func(\"relu\") | label(\"relu_1_2\")"), "label(\"relu_1_2\")");
  EXPECT_EQ(unsettled("where(numel > 3 and pass_index == 1)"), "where(numel > 3 and pass_index == 1)");
  EXPECT_EQ(unsettled("label(\"relu_1_4_raw\")"), std::nullopt);
  EXPECT_EQ(unsettled("output"), "output");
  const auto capture = test::capture_from_text(
      "trace 1\nmodule self class_name=Net\nmodule fc class_name=Linear parent=self\ncontext c0 module=self\n"
      "call self:1 first_op=a end_op=end\nop a input out=f32[2] address=input.x\n"
      "op b output out=f32[2] parents=a@0 address=output\n");
  EXPECT_EQ(unsettled("fc | input.x", &capture), std::nullopt);
  EXPECT_EQ(unsettled("fc | gone", &capture), "gone");
}

TEST(LiveSelector, RefusesBeforeTheRun) {
  EXPECT_THROW(LiveSelector(Selector::parse("where(nothing > 1)")), Error);
  EXPECT_THROW(LiveSelector(Selector::parse("regex(\"(\")")), Error);
  EXPECT_THROW(LiveSelector(Selector::parse("followed_by(where(numel == \"x\"))")), Error);
}

}  // namespace
}  // namespace tl
