#include <ATen/ATen.h>
#include <ATen/core/ivalue_inl.h>

#include <algorithm>

#include "bridge/tensor_bridge.h"
#include "executor/batched_view.h"
#include "executor/executor.h"

// Calls of operators: operands gathered, writes announced, outputs recorded.
namespace tl::lt {
namespace {

/// False for the outputs that an operator leaves out: undefined tensors and None are no Ops and take no slot.
bool is_defined(const c10::IValue& value) { return value.isTensor() && value.toTensor().defined(); }

/// A plain tensor that is all of its storage, so that the bytes of the two can change places.
bool owns_all_bytes(const at::Tensor& self) {
  if (is_batched(self)) return false;
  return self.layout() == at::kStrided && self.device().is_cpu() && !self.requires_grad() && !self.is_quantized() &&
         !self.is_conj() && !self.is_neg() && self.is_non_overlapping_and_dense() && self.storage_offset() == 0 &&
         static_cast<std::size_t>(self.numel()) * self.itemsize() == self.storage().nbytes();
}

/// With this further argument the out-of-place form computes what the in-place form writes to `self`.
bool gives_the_same_out_of_place(const at::Tensor& self, const c10::IValue& argument) {
  if (argument.isList()) return false;
  if (!argument.isTensor() || !argument.toTensor().defined()) return true;
  const auto& other = argument.toTensor();
  // Another view of the same memory: the in-place operator has rules for it (and may refuse), the other form has none.
  if (other.has_storage() && other.storage().unsafeGetStorageImpl() == self.storage().unsafeGetStorageImpl() &&
      !(other.storage_offset() == self.storage_offset() && other.sizes() == self.sizes() &&
        other.strides() == self.strides())) {
    return false;
  }
  if (other.scalar_type() != self.scalar_type() || other.dim() > self.dim()) return false;
  for (std::int64_t d = 1; d <= other.dim(); ++d) {  // it must broadcast to self, never the other way round
    if (other.size(-d) != 1 && other.size(-d) != self.size(-d)) return false;
  }
  return other.layout() == at::kStrided;
}

}  // namespace

void Executor::run_operator(Instruction& instruction, Frame& frame) {
  const auto base = stack_.size();
  const auto count = instruction.inputs.size();
  arg_provs_.clear();
  for (std::size_t i = 0; i < count; ++i) {
    const auto slot = instruction.inputs[i];
    if (instruction.input_dies[i])
      stack_.push_back(std::move(frame.values[slot]));
    else
      stack_.push_back(frame.values[slot]);
    arg_provs_.push_back(frame.prov[slot]);
  }
  const c10::ArrayRef<c10::IValue> args(stack_.data() + base, count);
  recorder_.gather(instruction, args, arg_provs_.data());
  recorder_.count_execution(instruction);
  std::uint64_t start = 0;
  bool done = false;
  if (instruction.writes || instruction.foreign) {
    if (swap_storages_ && instruction.functional && recorder_.write_meets_payload(instruction, args)) {
      start = ticks();
      done = run_out_of_place(instruction, base);
    }
    if (!done) recorder_.before_writes(instruction, args);
  }
  if (!done) {
    start = ticks();
    if (instruction.vararg) stack_.emplace_back(static_cast<std::int64_t>(count));
    try {
      instruction.operation(stack_);
    } catch (...) {
      if (stack_.size() >= base + count) {  // not consumed yet
        const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(base);
        failed_operands_.assign(first, first + static_cast<std::ptrdiff_t>(count));
      }
      throw;
    }
  }
  const auto elapsed = ticks() - start;
  store_outputs(instruction, frame, elapsed > 0xffffffffULL ? 0xffffffffu : static_cast<std::uint32_t>(elapsed));
  stack_.resize(base);
  recorder_.halt_if_asked();
}

bool Executor::run_out_of_place(Instruction& instruction, std::size_t base) {
  // The in-place operator would overwrite bytes that payloads still show. Its out-of-place form writes to fresh memory
  // instead; swapping the two storages' bytes leaves every alias of the tensor with the new values and hands the old
  // bytes to the payloads: no copy.
  const auto& self = stack_[base].toTensor();
  auto* impl = self.unsafeGetTensorImpl();
  const c10::ArrayRef<c10::IValue> others(stack_.data() + base + 1, stack_.size() - base - 1);
  const auto fits = [&](const c10::IValue& other) { return gives_the_same_out_of_place(self, other); };
  if (!owns_all_bytes(self) || !std::ranges::all_of(others, fits)) return false;
  torch::jit::Stack call(stack_.begin() + static_cast<std::ptrdiff_t>(base), stack_.end());
  instruction.functional->callBoxed(call);
  const auto result = call.back().toTensor();
  auto* fresh = result.unsafeGetTensorImpl();
  if (result.scalar_type() != self.scalar_type() || result.sizes() != self.sizes() ||
      result.strides() != self.strides() || result.storage_offset() != 0 ||
      result.storage().nbytes() != self.storage().nbytes() || result.storage().use_count() != 1 || fresh == impl) {
    return false;  // the in-place operator itself decides; nothing was written
  }
  auto* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  auto spare = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(result.storage().unsafeGetStorageImpl());
  recorder_.before_swap(storage);
  storage->swap_data_ptr(*spare);
  recorder_.payloads()->move_payloads(storage, std::move(spare));
  impl->bump_version();
  auto self_value = stack_[base];
  stack_.resize(base);
  stack_.push_back(std::move(self_value));
  return true;
}

void Executor::store_outputs(Instruction& instruction, Frame& frame, std::uint32_t call_ticks) {
  const auto count = instruction.outputs.size();
  const auto base = stack_.size() - count;
  const auto events_before = recorder_.num_events();
  const auto flow_before = recorder_.num_flow_rows();
  std::uint16_t num_slots = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (instruction.emits[i] == Emit::kTensor && is_defined(stack_[base + i])) ++num_slots;
  }
  std::uint16_t slot = 0;
  for (std::size_t i = 0; i < count; ++i) {
    auto& value = stack_[base + i];
    Prov prov;
    switch (instruction.emits[i]) {
      case Emit::kTensor:
        if (value.isTensor()) {
          prov = recorder_.record_tensor(instruction, i, slot, num_slots, value.toTensor(), call_ticks);
        } else if (value.isTensorList() || value.isTuple()) {
          prov = record_list(instruction, value, call_ticks);
        }
        if (is_defined(value)) ++slot;
        break;
      case Emit::kTensorList:
        prov = record_list(instruction, value, call_ticks);
        break;
      case Emit::kHost:
        prov = recorder_.record_host(instruction, value);
        break;
      case Emit::kContainer:
        break;
    }
    set(frame, instruction, i, std::move(value), prov);
  }
  recorder_.note_recorded(events_before, flow_before, count != 0);
  if (instruction.writes || instruction.foreign) {
    const bool yielded = recorder_.num_events() > events_before;
    recorder_.after_writes(instruction, yielded ? events_before : 0xffffffffu);
  }
}

Prov Executor::record_list(Instruction& instruction, const c10::IValue& value, std::uint32_t call_ticks) {
  if (!value.isList() && !value.isTuple()) return Prov{};
  const auto elements = value.isList() ? value.toListRef().vec() : value.toTupleRef().elements().vec();
  std::vector<Prov> items;
  const auto num_slots =
      static_cast<std::uint16_t>(std::min<std::ptrdiff_t>(std::ranges::count_if(elements, is_defined), 0xffff));
  std::uint16_t slot = 0;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (!is_defined(elements[i])) {
      items.emplace_back();
      continue;
    }
    items.push_back(recorder_.record_tensor(instruction, std::min<std::size_t>(i, 63), slot++, num_slots,
                                            elements[i].toTensor(), call_ticks));
  }
  return recorder_.containers().make(std::move(items));
}

}  // namespace tl::lt
