#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "echo.h"
#include "engine/engine.h"
#include "select/live_selector.h"
#include "select/selector.h"
#include "tlspec/shard_stream.h"
#include "trace/statistics_recorder.h"
#include "trace/trace.h"
#include "trace_plan.h"

namespace tl::cli {

/// What the options of `trace` ask of the values of one run: the objects that the engine asks while it runs, and what
/// is settled when the labels are known.
class ValueRules {
 public:
  ValueRules(const TracePlan& plan, Context& context);
  ~ValueRules();
  ValueRules(const ValueRules&) = delete;
  ValueRules& operator=(const ValueRules&) = delete;

  /// Puts the rules into the request. To be called after the model was loaded: what memory is free counts from there.
  void apply(RunRequest& request);
  /// After the steps: drops values that were kept only because a selector could not tell yet, and looks for NaN.
  /// Throws Error(kSiteNotFound) where --save matches nothing, kStopNeverFired where --stop-after never did.
  void settle(Trace& trace, const RunResult& result);
  /// Throws Error(kStopNeverFired) where --stop-after never did; of a finished `trace` it names what comes closest.
  void check_stop(const RunInfo& run, std::size_t ops, const RunResult& result, const Trace* trace = nullptr) const;
  /// Before the steps of a sparse recording: drops values that were kept only because the selector could not tell.
  /// Throws Error(kSiteNotFound) where it took none.
  void settle_sparse(Capture& capture, const RunResult& result) const;
  /// The statistics that were taken.
  StatisticsTable take_statistics();
  /// What --save was, as the recording states it.
  const std::string& save_text() const { return save_text_; }
  /// Where values went while the model ran; null without --stream.
  ShardStream* stream() { return stream_.get(); }
  std::size_t budget_bytes() const { return budget_bytes_; }

 private:
  class FiniteSink;
  class DroppingSink;

  void drop_unselected(Trace& trace, const std::vector<std::uint32_t>& undecided);

  const TracePlan& plan_;
  Echo echo_;
  std::string save_text_;
  std::optional<Selector> save_selector_;
  std::unique_ptr<LiveSelector> save_policy_;
  std::optional<Selector> stop_selector_;
  std::unique_ptr<LiveSelector> stop_policy_;
  std::optional<StatisticsRecorder> statistics_;
  std::unique_ptr<ShardStream> stream_;
  std::unique_ptr<FiniteSink> sink_;
  std::unique_ptr<DroppingSink> dropping_;
  std::size_t budget_bytes_ = 0;
};

}  // namespace tl::cli
