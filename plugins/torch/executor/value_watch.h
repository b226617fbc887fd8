#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "engine/engine.h"
#include "executor/payload_store.h"
#include "executor/payload_stream.h"
#include "program/program.h"
#include "trace/capture.h"

namespace tl::lt {

/// Thrown between two operations when the run shall end at what was recorded last.
struct Halted {};

/// Where and why a run halts.
struct HaltSite {
  bool nonfinite = false;  ///< else by RunRequest::stop_after
  std::uint32_t event = OpId::kNone;
  std::uint32_t module_call = ModuleCallId::kNone;  ///< the call that returned; none where an Op was the site
  std::string finding;                              ///< of a non-finite value: `2 NaN of 9 elements, first at [0,1]`
};

/// What a run is asked about its values beyond recording them: which to keep, in full or sampled, within which memory;
/// who else looks at them; whether to stop. One a run, made only where something is asked.
class ValueWatch {
 public:
  /// `store` may be null (nothing is kept). `wait` is called while a slow disk holds the run up.
  ValueWatch(Capture& capture, PayloadStore* store, const RunRequest& request, std::function<void()> wait);

  static bool needed(const RunRequest& request);

  /// The event was appended just now; `tensor` is its value, without bytes that mean anything if `uninitialised`.
  void on_event(std::uint32_t event, const at::Tensor& tensor, bool uninitialised);
  /// A module call returned. `output` is the event of its first value, none if it is not recorded; `tensor` that value
  /// as it is now, null if it is not at hand or was written since the event.
  void on_module_exit(std::uint32_t module_call, std::uint32_t output, const at::Tensor* tensor);
  /// The payload of a returned leaf whose producer is `producer` (none: a parameter, an unrecorded value).
  void keep_output(CaptureOutput& output, const at::Tensor& tensor, bool is_value_of_producer);
  /// Arguments of the call at hand, before it consumes them; only where wants_arguments() says so.
  bool wants_arguments() const { return request_.raise_on_nonfinite; }
  void note_arguments(c10::ArrayRef<c10::IValue> args, const Prov* provs);
  void before_write(c10::StorageImpl* storage) {
    if (stream_) stream_->before_write(storage);
  }

  bool halted() const { return halted_; }
  const HaltSite& halt_site() const { return halt_site_; }
  /// Waits for the sink. Called once, also after the model raised.
  void finish();
  /// Events that are kept although the policy could not tell yet, ascending.
  std::vector<std::uint32_t> undecided() const;

 private:
  enum class Keeping : std::uint8_t { kNothing, kAll, kByPolicy, kSamples, kWeakened };

  void keep_value(std::uint32_t event, const at::Tensor& tensor);
  void keep_full(std::uint32_t event, const at::Tensor& tensor);
  void keep_sample(std::uint32_t event, const at::Tensor& tensor);
  void settle_call(std::uint32_t module_call, std::uint32_t output);
  bool fits(const at::Tensor& tensor) const;
  void check_budget(std::uint32_t event);
  void weaken(std::uint32_t event);
  void show(std::uint32_t event, const at::Tensor& tensor);
  void check_finite(std::uint32_t event, const HostTensor& value);
  bool may_be_negative_infinite(std::uint32_t event) const;
  void halt(HaltSite site);
  std::string place_of(std::uint32_t event) const;
  void mark_undecided(std::uint32_t event, bool undecided);
  bool is_undecided(std::uint32_t event) const { return event < undecided_.size() && undecided_[event]; }

  Capture& capture_;
  PayloadStore* store_;
  const RunRequest& request_;
  const SaveRules& rules_;
  Keeping keeping_;
  ValueObserver* observer_;
  std::unique_ptr<PayloadStream> stream_;
  std::vector<bool> undecided_;                          ///< by event
  std::unordered_set<std::uint32_t> negative_infinite_;  ///< events that hold -inf and were let pass
  std::vector<at::Tensor> handed_constants_;             ///< tensors among the arguments at hand that are no events
  bool handed_negative_infinity_ = false;                ///< a number among the arguments at hand is -inf
  std::size_t kept_after_weakening_ = 0;                 ///< inputs and module outputs in full …
  std::size_t sampled_outputs_ = 0;                      ///< … and those that did not fit
  bool halted_ = false;
  HaltSite halt_site_;
};

}  // namespace tl::lt
