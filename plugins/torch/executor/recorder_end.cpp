#include "executor/recorder.h"

#include <ATen/ATen.h>
#include <ATen/core/function_schema.h>

#include <algorithm>
#include <chrono>

#include "bridge/tensor_bridge.h"
#include "trace/trace.h"

// The end of a run: what was returned, what the run changed, which Op decided each branch, ticks to seconds.
namespace tl::lt {
namespace {

constexpr std::uint32_t kNone = 0xffffffff;

void append_once(std::vector<std::string>& names, const std::string& name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

}  // namespace

std::string Recorder::module_address() const {
  const auto& calls = capture_.module_calls;
  if (context_.module_call >= calls.module.size()) return {};
  const auto module = static_cast<std::size_t>(calls.module[context_.module_call]);
  return module == 0 ? std::string() : std::string(capture_.strings[capture_.modules.address[module]]);
}

void Recorder::note_state_change(const std::string& address) {
  state_dirty_ = true;
  append_once(capture_.run.health.state_changed, address);
}

// The model's own state is as it was: nothing has to be loaded again.
void Recorder::note_input_write(const std::string& name) {
  append_once(capture_.run.health.state_changed, "input " + name);
}

void Recorder::note_attribute_write(const c10::ivalue::Object* object, const std::string& name) {
  const auto module = module_of(object);
  if (module < 0) return;  // an object of the run's own
  const auto address = capture_.strings[capture_.modules.address[static_cast<std::size_t>(module)]];
  note_state_change(module == 0 ? name : std::string(address) + "." + name);
}

void Recorder::mark_as_state(Prov prov) {
  if (!prov.is(Prov::Tag::kContainer)) return;
  auto& node = containers_.at(prov);
  node.of_state = true;
  for (const auto item : node.items) mark_as_state(item);
  if (!node.by_key) return;
  for (const auto& [key, item] : *node.by_key) mark_as_state(item);
}

void Recorder::note_container_writes(const Instruction& instruction, const std::vector<Prov>& provs) {
  for (const auto position : instruction.announced_writes) {
    const bool tracked = position < provs.size() && provs[position].is(Prov::Tag::kContainer);
    // Lists of numbers carry no provenance: one that is written may be an attribute's.
    if (!tracked || containers_.at(provs[position]).of_state) state_dirty_ = true;
  }
}

std::uint32_t Recorder::test_op_of(Prov test) const {
  constexpr int kMaxSteps = 32;  // host values between the tensor and the test: bool(), not, and, comparisons
  std::vector<std::uint32_t> open;
  if (test.is(Prov::Tag::kOp)) return test.index();
  if (test.is(Prov::Tag::kFlow)) open.push_back(test.index());
  std::vector<std::int64_t> words;
  for (int step = 0; step < kMaxSteps && !open.empty(); ++step) {
    const auto row = open.back();
    open.pop_back();
    const auto begin = static_cast<std::size_t>(capture_.flow.args_begin[row]);
    const auto end = row + 1 < capture_.flow.args_begin.size()
                         ? static_cast<std::size_t>(capture_.flow.args_begin[row + 1])
                         : capture_.flow_args.size();
    words.clear();
    for (auto at = begin; at < end && at < begin + 64; ++at) words.push_back(capture_.flow_args[at]);
    auto op = kNone;
    for_each_arg(words, [&](ArgHeader header, std::span<const std::int64_t> payload) {
      if (header.tag == ArgTag::kOp && op == kNone) op = static_cast<std::uint32_t>(payload[0]);
      if (header.flow != ArgHeader::kNoFlow && header.flow < row) open.push_back(header.flow);
    });
    if (op != kNone) return op;
  }
  return kNone;
}

void Recorder::keep_output(CaptureOutput& output, const at::Tensor& tensor) {
  if (watch_ != nullptr)
    watch_->keep_output(output, tensor, output.same_value);
  else if (store_)
    output.payload = store_->keep(tensor, static_cast<std::int32_t>(output.shape));
}

void Recorder::record_output_leaf(const std::string& role, const c10::IValue& leaf, Prov prov) {
  CaptureOutput output;
  output.role = role;
  if (leaf.isTensor() && leaf.toTensor().defined()) {
    const auto& tensor = leaf.toTensor();
    edges_.clear();
    words_.clear();
    param_uses_.clear();
    gather_tensor(tensor, prov, 0, -1);
    if (!edges_.empty()) output.op = edges_.back().parent;
    if (prov.is(Prov::Tag::kParam)) output.param = prov.index();
    output.shape = static_cast<std::uint32_t>(shape_of(tensor, nullptr));
    output.dtype = dtype_of(tensor);
    output.device = device_kind_of(tensor);
    output.same_value = edges_.size() == 1 && prov.is(Prov::Tag::kOp) && edges_.front().parent == prov.index();
    output.uninitialised = output.same_value && reads_uninitialised();
    if (!output.uninitialised) keep_output(output, tensor);
  } else {
    output.scalar = text_of(leaf);
  }
  capture_.outputs.push_back(std::move(output));
}

void Recorder::record_frontier(std::uint32_t event) {
  const auto& record = capture_.events[event];
  CaptureOutput output;
  output.role = "output";
  output.op = event;
  output.shape = record.shape;
  output.dtype = record.dtype;
  output.device = record.device;
  output.uninitialised = (record.flags & kOpUninitialised) != 0;
  capture_.outputs.push_back(std::move(output));
}

std::vector<std::string> Recorder::gathered_labels() const {
  std::vector<std::string> labels;
  for (const auto& edge : edges_) {
    auto label = raw_label(capture_, edge.parent);
    if (std::ranges::find(labels, label) == labels.end()) labels.push_back(std::move(label));
  }
  return labels;
}

void Recorder::record_output(const std::string& role, const c10::IValue& value, Prov prov) {
  if (value.isTuple() || (value.isList() && may_hold_tensor(*value.toList().elementType()))) {
    const auto type = value.isTuple() ? value.type()->cast<c10::TupleType>() : nullptr;
    const auto elements = value.isTuple() ? value.toTupleRef().elements().vec() : value.toListRef().vec();
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const auto step = type && type->schema() ? type->schema()->arguments()[i].name() : std::to_string(i);
      record_output(role + "." + step, elements[i], containers_.item(prov, static_cast<std::int64_t>(i)));
    }
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {
      const auto key = entry.key().isString() ? entry.key().toStringRef() : text_of(entry.key());
      record_output(role + "." + key, entry.value(), containers_.item_by_key(prov, entry.key()));
    }
  } else {
    record_output_leaf(role, value, prov);
  }
}

void Recorder::finish() {
  const auto elapsed_ticks = static_cast<double>(ticks() - start_ticks_);
  const auto elapsed = seconds_now() - start_seconds_;
  const double seconds_per_tick = elapsed_ticks > 0 ? elapsed / elapsed_ticks : 0;
  while (!open_calls_.empty()) {  // the model raised inside them
    const auto row = open_calls_.back();
    capture_.module_calls.end_op.mut(row) = static_cast<std::int32_t>(num_events());
    call_ticks_[row] = ticks() - call_ticks_[row];
    open_calls_.pop_back();
  }
  for (std::size_t i = 0; i < capture_.branches.size(); ++i)
    capture_.branches[i].end_op = std::min(capture_.branches[i].end_op, num_events());
  for (std::size_t i = 0; i < capture_.loops.size(); ++i)
    capture_.loops[i].end_op = std::min(capture_.loops[i].end_op, num_events());
  for (std::size_t i = 0; i < capture_.events.size(); ++i) {
    auto& event = capture_.events[i];
    const auto nanoseconds = static_cast<double>(event.duration_ns) * seconds_per_tick * 1e9;
    event.duration_ns = nanoseconds > 4e9 ? 4000000000u : static_cast<std::uint32_t>(nanoseconds);
  }
  for (const auto count : call_ticks_) {
    capture_.module_call_seconds.push_back(static_cast<double>(count) * seconds_per_tick);
  }
  for (std::size_t i = 0; i < branch_tests_.size(); ++i) capture_.branches[i].test_op = test_op_of(branch_tests_[i]);
  if (watch_ != nullptr) watch_->finish();
  if (store_) {
    store_->settle();
    capture_.payloads = store_;
  }
  capture_.run.health.operator_calls = static_cast<std::int64_t>(operator_calls_);
  capture_.run.health.recorded_calls = static_cast<std::int64_t>(recorded_calls_);
  for (std::size_t buffer = 0; buffer < buffer_rows_.size(); ++buffer) {
    if (buffer_rows_[buffer] == kNone) continue;
    if ((capture_.events[buffer_rows_[buffer]].flags & kOpBufferWrite) != 0) {
      note_state_change(std::string(capture_.strings[capture_.buffers.address[buffer]]));
    }
  }
  std::ranges::sort(capture_.run.health.state_changed);
}

}  // namespace tl::lt
