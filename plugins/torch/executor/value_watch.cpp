#include "executor/value_watch.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "bridge/tensor_bridge.h"
#include "core/error.h"
#include "core/text.h"
#include "executor/batched_view.h"
#include "tensor/nonfinite.h"
#include "tensor/sample.h"

namespace tl::lt {
namespace {

/// A value whose elements can be looked at where they lie.
bool is_strided_on_host(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && tensor.device().is_cpu() && !tensor.is_quantized() &&
         tensor.unsafeGetTensorImpl()->has_storage() && !is_batched(tensor);
}

HostTensor host_view(const at::Tensor& tensor) {
  if (!tensor.is_conj() && !tensor.is_neg()) return to_host_tensor(tensor);
  const at::DisableRecordFunctionGuard quiet;
  const at::NoGradGuard no_grad;
  return to_host_tensor(tensor.resolve_conj().resolve_neg());
}

at::Tensor packed(const at::Tensor& tensor) {
  const at::DisableRecordFunctionGuard quiet;  // our own copy is no call of the model
  const at::NoGradGuard no_grad;
  return tensor.resolve_conj().resolve_neg().clone(at::MemoryFormat::Contiguous);
}

std::string shown_index(std::int64_t flat, std::span<const std::int64_t> sizes) {
  std::vector<std::int64_t> index(sizes.size());
  for (auto axis = sizes.size(); axis > 0; --axis) {
    index[axis - 1] = flat % sizes[axis - 1];
    flat /= sizes[axis - 1];
  }
  std::string text = "[";
  for (std::size_t i = 0; i < index.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(index[i]);
  return text + "]";
}

}  // namespace

bool ValueWatch::needed(const RunRequest& request) {
  const auto& save = request.save;
  const bool keeps = request.keep_payloads && (!save.keep || save.policy != nullptr || save.budget_bytes != 0 ||
                                               save.sink != nullptr || save.samples != 0);
  return keeps || request.observer != nullptr || request.raise_on_nonfinite || request.narrate ||
         request.stop_after != nullptr;
}

ValueWatch::ValueWatch(Capture& capture, PayloadStore* store, const RunRequest& request, std::function<void()> wait)
    : capture_(capture), store_(store), request_(request), rules_(request.save), observer_(request.observer) {
  keeping_ = Keeping::kAll;
  if (rules_.policy != nullptr) keeping_ = Keeping::kByPolicy;
  if (!rules_.keep) keeping_ = rules_.samples > 0 ? Keeping::kSamples : Keeping::kNothing;
  if (store_ == nullptr) keeping_ = Keeping::kNothing;
  if (store_ != nullptr && rules_.sink != nullptr) {
    store_->unify_values();
    stream_ = std::make_unique<PayloadStream>(*store_, rules_, std::move(wait));
  }
}

void ValueWatch::on_event(std::uint32_t event, const at::Tensor& tensor, bool uninitialised) {
  if (!uninitialised) {
    keep_value(event, tensor);
    if (observer_ != nullptr || request_.raise_on_nonfinite) show(event, tensor);
  } else if (keeping_ == Keeping::kByPolicy) {
    static_cast<void>(rules_.policy->on_op(capture_, event));  // it is asked of every event
  }
  if (request_.narrate) request_.narrate(capture_, event);
  if (request_.stop_after != nullptr && request_.stop_after->on_op(capture_, event) == LiveAnswer::kYes) {
    halt({.event = event, .finding = {}});
  }
}

void ValueWatch::keep_value(std::uint32_t event, const at::Tensor& tensor) {
  switch (keeping_) {
    case Keeping::kNothing:
      return;
    case Keeping::kAll:
      keep_full(event, tensor);
      check_budget(event);
      return;
    case Keeping::kSamples:
      keep_sample(event, tensor);
      return;
    case Keeping::kByPolicy: {
      const auto answer = rules_.policy->on_op(capture_, event);
      if (answer == LiveAnswer::kNo) {
        if (rules_.samples > 0) keep_sample(event, tensor);
        return;
      }
      if (answer == LiveAnswer::kLater) {
        mark_undecided(event, true);
        capture_.events[event].payload = store_->keep(tensor, static_cast<std::int32_t>(capture_.events[event].shape));
      } else {
        keep_full(event, tensor);
      }
      check_budget(event);
      return;
    }
    case Keeping::kWeakened: {
      const bool input = capture_.events[event].kind == OpKind::kInput;
      if (input && fits(tensor)) {
        keep_full(event, tensor);
        ++kept_after_weakening_;
      } else {
        keep_sample(event, tensor);
        if (input) ++sampled_outputs_;
      }
      return;
    }
  }
}

void ValueWatch::keep_full(std::uint32_t event, const at::Tensor& tensor) {
  auto& record = capture_.events[event];
  record.payload = store_->keep(tensor, static_cast<std::int32_t>(record.shape));
  record.sampled = false;
  if (stream_) stream_->offer(record.payload);
}

void ValueWatch::keep_sample(std::uint32_t event, const at::Tensor& tensor) {
  if (!is_strided_on_host(tensor)) return;  // no elements to point at
  auto& record = capture_.events[event];
  if (tensor.numel() <= rules_.samples) {  // all of it
    record.payload = store_->keep_own(packed(tensor), static_cast<std::int32_t>(record.shape));
    record.sampled = false;
  } else {
    const auto sample = from_host_tensor(sample_elements(host_view(tensor), rules_.samples));
    const std::array<std::int64_t, 1> sizes = {rules_.samples};
    record.payload = store_->keep_own(sample, capture_.shapes.intern(sizes));
    record.sampled = true;
  }
  if (stream_) stream_->offer(record.payload);
}

bool ValueWatch::fits(const at::Tensor& tensor) const {
  const auto bytes = static_cast<std::size_t>(tensor.numel()) * tensor.itemsize();
  return store_->held_bytes() + bytes <= rules_.budget_bytes;
}

void ValueWatch::check_budget(std::uint32_t event) {
  if (rules_.budget_bytes == 0 || stream_ || store_->held_bytes() <= rules_.budget_bytes) return;
  if (rules_.weaken) {
    weaken(event);
    return;
  }
  throw Error(ErrorCode::kBudgetExceeded,
              "the values up to the one of " + place_of(event) + ", take " + format_bytes(store_->held_bytes()) +
                  ", more than the " + format_bytes(rules_.budget_bytes) + " of the save budget",
              "give --save-budget more, write them as they come by --stream, or keep less by --save auto or "
              "--save sample; --dry-run tells what each takes");
}

void ValueWatch::weaken(std::uint32_t event) {
  std::unordered_set<std::uint32_t> first;  // what is kept in full while it fits
  for (std::uint32_t i = 0; i <= event; ++i) {
    if (capture_.events[i].kind == OpKind::kInput) first.insert(i);
  }
  for (const auto output : capture_.module_calls.output_op) {
    if (output >= 0) first.insert(static_cast<std::uint32_t>(output));
  }
  keeping_ = Keeping::kWeakened;
  std::vector<std::uint32_t> dropped;
  std::size_t kept_bytes = 0;
  for (std::uint32_t i = 0; i <= event; ++i) {
    const auto payload = capture_.events[i].payload;
    if (payload == PayloadId::kNone) continue;
    const auto tensor = store_->materialise(payload);
    if (rules_.when_weakened != nullptr && observer_ == nullptr && i != event && is_strided_on_host(tensor)) {
      rules_.when_weakened->on_value(i, host_view(tensor));
    }
    const auto bytes = store_->value_bytes(payload);
    if (first.contains(i) && kept_bytes + bytes <= rules_.budget_bytes / 2) {
      kept_bytes += bytes;
      ++kept_after_weakening_;
      continue;
    }
    if (first.contains(i)) ++sampled_outputs_;
    dropped.push_back(payload);
    capture_.events[i].payload = PayloadId::kNone;
    keep_sample(i, tensor);
  }
  for (const auto payload : dropped) store_->release(payload);
  if (observer_ == nullptr) observer_ = rules_.when_weakened;
  capture_.run.save_note = "the values up to the one of " + place_of(event) + ", exceed the budget of " +
                           format_bytes(rules_.budget_bytes) + ": " + std::to_string(rules_.samples) +
                           " elements of every value are kept";
}

void ValueWatch::on_module_exit(std::uint32_t module_call, std::uint32_t output, const at::Tensor* tensor) {
  if (keeping_ == Keeping::kWeakened && output != OpId::kNone && capture_.events[output].sampled) {
    if (tensor != nullptr && fits(*tensor)) {
      keep_full(output, *tensor);
      ++kept_after_weakening_;
    } else {
      ++sampled_outputs_;
    }
  }
  if (keeping_ == Keeping::kByPolicy) {
    const auto answer = rules_.policy->on_module_exit(capture_, module_call, output);
    const bool wanted = answer != LiveAnswer::kNo && output != OpId::kNone;
    const bool missing =
        wanted && (capture_.events[output].payload == PayloadId::kNone || capture_.events[output].sampled);
    if (missing && tensor != nullptr) {
      keep_full(output, *tensor);
      if (answer == LiveAnswer::kLater) mark_undecided(output, true);
      check_budget(output);
    } else if (missing && (capture_.events[output].flags & kOpUninitialised) == 0) {
      capture_.run.health.skipped_payloads.push_back(place_of(output) +
                                                     ": overwritten before the module that returned it ended");
    } else if (wanted && answer == LiveAnswer::kYes) {
      mark_undecided(output, false);
    }
    settle_call(module_call, output);
  }
  if (request_.stop_after != nullptr &&
      request_.stop_after->on_module_exit(capture_, module_call, output) == LiveAnswer::kYes) {
    halt({.event = output, .module_call = module_call, .finding = {}});
  }
}

void ValueWatch::settle_call(std::uint32_t module_call, std::uint32_t output) {
  const auto first = static_cast<std::uint32_t>(capture_.module_calls.first_op[module_call]);
  for (auto event = first; event < undecided_.size(); ++event) {
    if (!undecided_[event]) continue;
    const auto answer = rules_.policy->after_module_exit(capture_, event, module_call, output);
    if (answer == LiveAnswer::kLater) continue;
    undecided_[event] = false;
    if (answer == LiveAnswer::kYes) continue;
    store_->release(capture_.events[event].payload);
    capture_.events[event].payload = PayloadId::kNone;
  }
}

void ValueWatch::keep_output(CaptureOutput& output, const at::Tensor& tensor, bool is_value_of_producer) {
  output.same_value = is_value_of_producer;
  const auto* producer = output.op == OpId::kNone ? nullptr : &capture_.events[output.op];
  const bool producer_kept = producer != nullptr && producer->payload != PayloadId::kNone && !producer->sampled;
  const bool inherits = is_value_of_producer && producer_kept;
  const bool wanted = keeping_ == Keeping::kAll ||
                      (keeping_ == Keeping::kByPolicy && !inherits && producer_kept && !is_undecided(output.op)) ||
                      (keeping_ == Keeping::kWeakened && !inherits && fits(tensor));
  if (!wanted) return;
  output.payload = store_->keep(tensor, static_cast<std::int32_t>(output.shape));
  if (stream_) stream_->offer(output.payload);
}

void ValueWatch::show(std::uint32_t event, const at::Tensor& tensor) {
  if (!is_strided_on_host(tensor)) return;
  const auto value = host_view(tensor);
  if (observer_ != nullptr) observer_->on_value(event, value);
  if (request_.raise_on_nonfinite) check_finite(event, value);
}

void ValueWatch::note_arguments(c10::ArrayRef<c10::IValue> args, const Prov* provs) {
  handed_constants_.clear();
  handed_negative_infinity_ = false;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const auto& arg = args[i];
    if (arg.isDouble()) {
      handed_negative_infinity_ = handed_negative_infinity_ || (std::isinf(arg.toDouble()) && arg.toDouble() < 0);
    } else if (arg.isTensor() && arg.toTensor().defined() && !provs[i].is(Prov::Tag::kOp) &&
               !provs[i].is(Prov::Tag::kBuffer) && is_strided_on_host(arg.toTensor())) {
      handed_constants_.push_back(arg.toTensor());
    }
  }
}

/// Masks of attention are made of -inf: an Op that holds no other non-finite element is let pass where -inf was handed
/// to it, or where it is a sum (a mask of the lowest finite number and a score below zero overflow to -inf).
bool ValueWatch::may_be_negative_infinite(std::uint32_t event) const {
  const auto& record = capture_.events[event];
  if (record.kind != OpKind::kOperation || handed_negative_infinity_) return true;
  const auto name = capture_.strings[capture_.instructions.func_name[record.instruction]];
  constexpr std::array kSums = {"add", "add_", "sub", "sub_", "__add__", "__iadd__", "__sub__", "__isub__"};
  if (std::ranges::find(kSums, name) != kSums.end()) return true;
  for (auto edge = static_cast<std::size_t>(record.edge_begin); edge < capture_.edges.size(); ++edge) {
    if (negative_infinite_.contains(capture_.edges[edge].parent)) return true;
  }
  return std::ranges::any_of(handed_constants_,
                             [](const auto& tensor) { return find_nonfinite(host_view(tensor)).neginf > 0; });
}

void ValueWatch::check_finite(std::uint32_t event, const HostTensor& value) {
  if (halted_ || !holds_nonfinite(value)) return;
  const auto found = find_nonfinite(value);
  if (found.only_neginf() && may_be_negative_infinite(event)) {
    negative_infinite_.insert(event);
    return;
  }
  std::string text;
  for (const auto& [count, what] :
       {std::pair{found.nan, " NaN"}, std::pair{found.posinf, " inf"}, std::pair{found.neginf, " -inf"}}) {
    if (count != 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + what;
  }
  text += " of " + std::to_string(value.numel()) + " elements" + ", first at " + shown_index(found.first, value.sizes);
  halt({.nonfinite = true, .event = event, .finding = std::move(text)});
}

void ValueWatch::halt(HaltSite site) {
  if (halted_) return;
  halted_ = true;
  halt_site_ = std::move(site);
}

std::string ValueWatch::place_of(std::uint32_t event) const {
  const auto& record = capture_.events[event];
  const auto code = record.kind == OpKind::kOperation ? capture_.instructions.func_name[record.instruction]
                                                      : static_cast<std::int32_t>(record.address);
  return std::string(code < 0 ? std::string_view("?") : capture_.strings[code]) + ", value " +
         std::to_string(event + 1);
}

void ValueWatch::mark_undecided(std::uint32_t event, bool undecided) {
  if (undecided_.size() <= event) undecided_.resize(event + 1, false);
  undecided_[event] = undecided;
}

std::vector<std::uint32_t> ValueWatch::undecided() const {
  std::vector<std::uint32_t> events;
  for (std::uint32_t event = 0; event < undecided_.size(); ++event) {
    if (undecided_[event]) events.push_back(event);
  }
  return events;
}

void ValueWatch::finish() {
  if (stream_) stream_->finish();
  if (keeping_ == Keeping::kWeakened && !capture_.run.save_note.empty()) {
    const auto all = kept_after_weakening_ + sampled_outputs_;
    capture_.run.save_note += ", " + std::to_string(kept_after_weakening_) + " of " + std::to_string(all) +
                              " inputs and outputs of modules in full";
  }
}

}  // namespace tl::lt
