#include <ATen/ATen.h>
#include <ATen/core/function_schema.h>
#include <ATen/record_function.h>

#include <algorithm>

#include "bridge/tensor_bridge.h"
#include "core/error.h"
#include "executor/batched_view.h"
#include "executor/recorder.h"

// What a call writes: payloads that must be preserved before it, versions of buffers after it.
namespace tl::lt {
namespace {

constexpr std::uint32_t kNone = 0xffffffff;

}  // namespace

bool Recorder::write_meets_payload(const Instruction&, c10::ArrayRef<c10::IValue>) const {
  if (!store_ || written_.empty()) return false;
  const auto* storage = storage_of(written_.front().tensor);
  return storage != nullptr && store_->holds(storage);
}

void Recorder::before_writes(const Instruction& instruction, c10::ArrayRef<c10::IValue> args) {
  if (store_) {
    for (const auto& written : written_) {
      auto* storage = storage_of(written.tensor);
      if (storage == nullptr) continue;
      if (watch_ != nullptr) watch_->before_write(storage);
      store_->preserve(storage);
    }
  }
  foreign_copies_.clear();
  if (!instruction.foreign) return;
  const at::DisableRecordFunctionGuard quiet;  // our own copies are no calls of the model
  for (const auto position : instruction.tensor_inputs) {
    if (!args[position].isTensor()) continue;
    const auto& tensor = args[position].toTensor();
    auto* storage = tensor.defined() ? storage_of(tensor) : nullptr;
    const bool announced =
        std::ranges::any_of(written_, [&](const auto& w) { return storage_of(w.tensor) == storage; });
    if (storage == nullptr || announced || tensor.layout() != at::kStrided || is_batched(tensor)) continue;
    foreign_copies_.push_back({tensor.clone(), tensor.storage().getWeakStorageImpl().lock(), tensor});
  }
}

void Recorder::check_foreign(const Instruction& instruction, std::uint32_t op) {
  const at::DisableRecordFunctionGuard quiet;
  for (auto& copy : foreign_copies_) {
    if (at::equal(copy.before, copy.live)) continue;
    auto& findings = capture_.run.health.unannounced_writes;
    if (std::ranges::find(findings, instruction.where) == findings.end()) findings.push_back(instruction.where);
    // Too late to preserve in place: payloads that cover exactly this tensor get the copy, which holds the old values.
    if (store_ && copy.before.nbytes() == copy.live.storage().nbytes()) {
      if (watch_ != nullptr) watch_->before_write(copy.storage.get());
      store_->move_payloads(copy.storage.get(), copy.before.storage().getWeakStorageImpl().lock());
    }
    if (op != kNone) writers_.wrote(copy.storage.get(), op, kNone, capture_);
  }
  foreign_copies_.clear();
}

void Recorder::after_writes(const Instruction& instruction, std::uint32_t first_op) {
  check_foreign(instruction, first_op);
  for (const auto& written : written_) {
    auto* storage = storage_of(written.tensor);
    if (storage == nullptr) continue;
    if (const auto state = modules_.state_of_storage.find(storage); state != modules_.state_of_storage.end()) {
      note_state_change(state->second);
    }
    if (const auto input = user_inputs_.find(storage); input != user_inputs_.end())
      note_input_write(input->second.name);
    if (first_op == kNone) continue;
    auto producer = kNone;
    if (written.prov.is(Prov::Tag::kOp)) producer = written.prov.index();
    if (written.prov.is(Prov::Tag::kBuffer)) producer = buffer_rows_[written.prov.index()];
    writers_.wrote(storage, first_op, producer, capture_);
    const auto found = buffers_of_storage_.find(storage);
    if (found == buffers_of_storage_.end()) continue;
    for (const auto buffer : found->second) {
      const auto flags = kOpBufferWrite | (written.hidden ? kOpFusedWrite : 0u);
      append_buffer(buffer, buffers_[buffer], first_op, flags);
    }
  }
  written_.clear();
}

std::uint32_t Recorder::append_buffer(std::uint32_t buffer, const at::Tensor& tensor, std::uint32_t parent,
                                      std::uint32_t flags) {
  CaptureEvent event;
  event.kind = OpKind::kBuffer;
  event.site_context = context_.site_context;
  event.module_call = context_.module_call;
  event.shape = static_cast<std::uint32_t>(shape_of(tensor, nullptr));
  event.edge_begin = static_cast<std::uint32_t>(capture_.edges.size());
  event.args_begin = static_cast<std::uint32_t>(capture_.args.size());
  event.dtype = dtype_of(tensor);
  event.device = device_kind_of(tensor);
  event.address = static_cast<std::uint32_t>(capture_.buffers.address[buffer]);
  event.flags = flags;
  if (parent != kNone) capture_.edges.push_back({parent, 0, -1});
  buffer_rows_[buffer] = append(event, &tensor, true);
  return buffer_rows_[buffer];
}

std::uint32_t Recorder::buffer_row(std::uint32_t buffer) {
  if (buffer_rows_[buffer] == kNone) append_buffer(buffer, buffers_[buffer], kNone, 0);
  return buffer_rows_[buffer];
}

void Recorder::buffer_rebound(std::uint32_t buffer, const at::Tensor& value, Prov prov) {
  if (const auto* old = storage_of(buffers_[buffer]); old != nullptr) {
    std::erase(buffers_of_storage_[old], buffer);
  }
  buffers_[buffer] = value;
  if (const auto* storage = storage_of(value); storage != nullptr) {
    buffers_of_storage_[storage].push_back(buffer);
  }
  const auto parent = prov.is(Prov::Tag::kOp) ? prov.index() : kNone;
  append_buffer(buffer, value, parent, kOpBufferWrite);
}

}  // namespace tl::lt
