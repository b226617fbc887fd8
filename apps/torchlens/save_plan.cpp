#include "save_plan.h"

#include <charconv>
#include <string_view>

#include "core/error.h"
#include "select/live_selector.h"
#include "select/selector.h"

namespace tl::cli {
namespace {

constexpr std::int64_t kMostSamples = 1'000'000;

std::int64_t parse_samples(std::string_view text) {
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 1 || count > kMostSamples) {
    throw Error(
        ErrorCode::kUsage,
        "--save sample=" + std::string(text) + ": not a number of elements from 1 to " + std::to_string(kMostSamples),
        "write --save sample=" + std::to_string(SavePlan::kSamples));
  }
  return count;
}

}  // namespace

void check_stop_after(const std::string& text) {
  if (text.empty()) return;
  const auto selector = Selector::parse(text);
  if (const auto term = LiveSelector(selector).first_unsettled_term()) {
    throw Error(ErrorCode::kStopNotLive,
                "--stop-after " + selector.text() + ": " + *term +
                    " is looked up in the finished recording, and the run has to stop before",
                "name the operation by func(\"…\"), in_module(\"…\") or where(…), or a module by module(\"…\")");
  }
}

SavePlan plan_save(const TraceOptions& options, Level level) {
  constexpr std::string_view kSample = "sample";
  SavePlan plan;
  plan.text = options.save.empty() ? (level == Level::kAudit ? "none" : "auto") : options.save;
  if (plan.text == "auto") {
    plan.kind = SaveKind::kAuto;
  } else if (plan.text == "all") {
    plan.kind = SaveKind::kAll;
  } else if (plan.text == "none") {
    plan.kind = SaveKind::kNone;
  } else if (plan.text == kSample || plan.text.starts_with("sample=")) {
    plan.kind = SaveKind::kSample;
    if (plan.text != kSample) plan.samples = parse_samples(std::string_view(plan.text).substr(kSample.size() + 1));
    plan.text = "sample=" + std::to_string(plan.samples);
  } else {
    plan.kind = SaveKind::kSelector;
    plan.text = Selector::parse(plan.text).text();
  }
  if (level == Level::kAudit && plan.kind != SaveKind::kNone) {
    throw Error(ErrorCode::kLevelConflict,
                "--level audit keeps no activations, --save " + options.save + " asks for them",
                "leave one of the two out");
  }
  if (!options.save_budget.empty()) plan.budget_bytes = parse_bytes("--save-budget", options.save_budget);
  if (!options.stats.empty()) plan.statistics = parse_statistics(options.stats);
  plan.stream = options.stream;
  if (plan.stream && plan.kind == SaveKind::kNone) {
    throw Error(ErrorCode::kUsage, "--stream writes values while the model runs, and none are kept",
                "leave out --stream, or give --save all");
  }
  return plan;
}

}  // namespace tl::cli
