#include "value_rules.h"

#include <algorithm>
#include <utility>

#include "analysis/finite_check.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/text.h"
#include "postprocess/retain_payloads.h"
#include "select/selection.h"
#include "tensor/nonfinite.h"
#include "text_format.h"

namespace tl::cli {

/// Looks for NaN in what passes to the files: afterwards it is no longer at hand.
class ValueRules::FiniteSink : public PayloadSink {
 public:
  explicit FiniteSink(ShardStream& files) : files_(files) {}
  void write(std::uint32_t payload, const PayloadFacts& facts, const TensorRef& tensor) override {
    const auto parts = tensor.to_host();
    const bool bad = std::ranges::any_of(parts, [](const auto& part) { return holds_nonfinite(part.tensor); });
    if (nonfinite_.size() <= payload) nonfinite_.resize(payload + 1, false);
    nonfinite_[payload] = bad;
    files_.write(payload, facts, tensor);
  }
  bool nonfinite(std::uint64_t payload) const { return payload < nonfinite_.size() && nonfinite_[payload]; }

 private:
  ShardStream& files_;
  std::vector<bool> nonfinite_;  ///< by payload
};

/// `--dry-run`: values are looked at by nobody and kept nowhere.
class ValueRules::DroppingSink : public PayloadSink {
 public:
  void write(std::uint32_t, const PayloadFacts&, const TensorRef&) override {}
};

ValueRules::ValueRules(const TracePlan& plan, Context& context) : plan_(plan), echo_(context.err) {
  const auto& save = plan.save;
  save_text_ = save.text;
  if (save.kind == SaveKind::kSelector) {
    save_selector_ = Selector::parse(save.text);
    save_text_ = save_selector_->text();
    save_policy_ = std::make_unique<LiveSelector>(*save_selector_);
    const auto term = save_policy_->first_unsettled_term();
    if (plan.options.sparse && term) {
      throw Error(ErrorCode::kSparseConflict,
                  "--save " + save_text_ + ": " + *term + " is known only of a finished recording, --sparse makes none",
                  "leave out --sparse, or name the operation by func(\"…\"), in_module(\"…\") or where(…)");
    }
  }
  if (!plan.options.dry_run && (save.statistics || save.kind == SaveKind::kAuto)) {
    statistics_.emplace(save.statistics.value_or(kUsualStatistics));
  }
  if (plan.options.stop_after.empty()) return;
  stop_selector_ = Selector::parse(plan.options.stop_after);
  stop_policy_ = std::make_unique<LiveSelector>(*stop_selector_);
}

ValueRules::~ValueRules() = default;

void ValueRules::apply(RunRequest& request) {
  const auto& save = plan_.save;
  request.keep_payloads = save.kind != SaveKind::kNone;
  request.save.policy = save_policy_.get();
  request.save.keep = save.kind != SaveKind::kSample;
  if (save.kind == SaveKind::kSample || save.kind == SaveKind::kAuto) request.save.samples = save.samples;
  budget_bytes_ = save.budget_bytes != 0 ? save.budget_bytes : available_memory() / 2;
  if (save.kind != SaveKind::kSample) request.save.budget_bytes = budget_bytes_;
  request.save.weaken = save.kind == SaveKind::kAuto;
  if (plan_.options.dry_run) {
    request.save = {};
    request.keep_payloads = true;
    dropping_ = std::make_unique<DroppingSink>();
    request.save.sink = dropping_.get();
    request.save.sink_inline = true;
  } else if (save.stream) {
    stream_ = std::make_unique<ShardStream>(plan_.output, plan_.options.force);
    sink_ = std::make_unique<FiniteSink>(*stream_);
    request.save.sink = sink_.get();
    request.save.queue_bytes = std::min(request.save.queue_bytes, budget_bytes_);
  }
  if (statistics_ && save.statistics) request.observer = &*statistics_;
  if (statistics_ && !save.statistics) request.save.when_weakened = &*statistics_;
  request.stop_after = stop_policy_.get();
  request.raise_on_nonfinite = plan_.options.raise_on_nan;
  if (plan_.options.echo) {
    request.narrate = [this](const Capture& capture, std::uint32_t event) { echo_(capture, event); };
  }
}

void ValueRules::check_stop(const RunInfo& run, std::size_t ops, const RunResult& result, const Trace* trace) const {
  if (!stop_selector_ || result.stop_fired || !run.outcome.complete()) return;
  Error error(ErrorCode::kStopNeverFired,
              run.model_file + ": --stop-after " + stop_selector_->text() + " matched none of " +
                  counted(static_cast<std::int64_t>(ops), "op") + "; nothing was written",
              "torchlens trace without it, then torchlens query on the recording, shows what there is");
  if (trace) {
    try {
      resolve(*stop_selector_, *trace, NoMatch::kRefuse);
    } catch (const Error& nothing) {  // which knows what comes closest
      error.hint = nothing.hint;
      error.note = nothing.note;
    }
  }
  throw error;
}

void ValueRules::settle_sparse(Capture& capture, const RunResult& result) const {
  if (!save_selector_) return;
  for (const auto event : result.undecided) capture.events[event].payload = PayloadId::kNone;
  bool any = !capture.run.outcome.complete();
  for (std::size_t event = 0; event < capture.events.size(); ++event) {
    any = any || capture.events[event].payload != PayloadId::kNone;
  }
  if (any) return;
  throw Error(ErrorCode::kSiteNotFound,
              capture.run.model_file + ": --save " + save_text_ + " matched none of " +
                  counted(static_cast<std::int64_t>(capture.events.size()), "op") + "; nothing was written",
              "torchlens trace without it, then torchlens query on the recording, shows what there is");
}

StatisticsTable ValueRules::take_statistics() { return statistics_ ? statistics_->take() : StatisticsTable{}; }

void ValueRules::settle(Trace& trace, const RunResult& result) {
  check_stop(trace.run, trace.num_ops(), result, &trace);
  if (save_selector_ && !plan_.options.dry_run) drop_unselected(trace, result.undecided);
  check_finite(trace, [&](std::size_t row) -> std::optional<bool> {
    if (!sink_ || !trace.payload_source) return std::nullopt;
    const auto payload = trace.payload_source->facts(PayloadId{static_cast<std::uint32_t>(row)}).storage;
    if (payload == 0 || stream_->find(payload - 1) == nullptr) return std::nullopt;
    return sink_->nonfinite(payload - 1);
  });
}

void ValueRules::drop_unselected(Trace& trace, const std::vector<std::uint32_t>& undecided) {
  // A selector that names nothing is refused, unless the run ended before it could have met what is named.
  const auto no_match = trace.run.outcome.complete() ? NoMatch::kRefuse : NoMatch::kAllow;
  std::vector<bool> keep(trace.num_ops(), true);
  std::vector<bool> selected(trace.num_ops(), false);
  for (const auto& site : resolve(*save_selector_, trace, no_match).sites) selected[site.op.index()] = true;
  for (std::size_t op = 0; op < keep.size(); ++op) {
    const auto event = static_cast<std::uint32_t>(trace.ops.raw_index[op] - 1);
    if (trace.ops.kind[op] == static_cast<std::uint8_t>(OpKind::kOutput)) {
      // What the model returned is the value of an Op: it stays with it.
      const auto [begin, end] = edge_range(trace, OpId{static_cast<std::uint32_t>(op)});
      keep[op] = selected[op] || begin == end || keep[static_cast<std::size_t>(trace.edges.parent[begin])];
    } else if (std::ranges::binary_search(undecided, event)) {
      keep[op] = selected[op];
    }
  }
  retain_payloads(trace, keep);
}

}  // namespace tl::cli
