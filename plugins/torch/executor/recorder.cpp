#include "executor/recorder.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "bridge/tensor_bridge.h"
#include "core/error.h"
#include "executor/batched_view.h"
#include "executor/packed_args.h"

namespace tl::lt {
namespace {

constexpr std::uint32_t kNone = 0xffffffff;
constexpr std::string_view kInputRole = "input.";
constexpr std::uint32_t kSlowTicks = 1u << 22;  // about a millisecond; until the end of a run durations are ticks

/// The value of a 0-d CPU tensor without calling an operator.
c10::IValue read_scalar(const at::Tensor& tensor) {
  if (!tensor.device().is_cpu() || storage_of(tensor) == nullptr || tensor.const_data_ptr() == nullptr) return {};
  switch (tensor.scalar_type()) {
    case at::kLong:
      return *tensor.const_data_ptr<std::int64_t>();
    case at::kInt:
      return static_cast<std::int64_t>(*tensor.const_data_ptr<std::int32_t>());
    case at::kDouble:
      return *tensor.const_data_ptr<double>();
    case at::kFloat:
      return static_cast<double>(*tensor.const_data_ptr<float>());
    case at::kBool:
      return *tensor.const_data_ptr<bool>();
    default:
      return {};
  }
}

}  // namespace

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::uint64_t ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

Recorder::Recorder(Capture& capture, const ModuleMap& modules, const RunRequest& request, CrashSlate* slate)
    : capture_(capture), modules_(modules), request_(request), slate_(slate) {
  if (request.keep_payloads && (request.save.keep || request.save.samples > 0)) {
    store_ = std::make_shared<PayloadStore>(capture_.shapes);
  }
  if (ValueWatch::needed(request)) {
    watch_ = std::make_unique<ValueWatch>(capture_, store_.get(), request, [this] {
      if (request_.progress) request_.progress(capture_.events.size());
    });
  }
  calls_of_module_.assign(capture_.modules.address.size(), 0);
  base_context_.assign(capture_.modules.address.size(), kNone);
  buffer_rows_.assign(capture_.buffers.address.size(), kNone);
  buffers_ = modules_.buffers;
  buffers_of_storage_ = modules_.buffers_of_storage;
  start_ticks_ = ticks();
  start_seconds_ = seconds_now();
}

std::uint32_t Recorder::intern_context(std::uint32_t module, std::int32_t parent, std::int32_t call_site) {
  const auto key = (static_cast<std::uint64_t>(static_cast<std::uint32_t>(parent)) << 32) ^
                   (static_cast<std::uint64_t>(module) << 20) ^ static_cast<std::uint32_t>(call_site);
  auto& bucket = contexts_[key];
  auto& table = capture_.site_contexts;
  for (const auto row : bucket) {
    if (table.module[row] == static_cast<std::int32_t>(module) && table.parent[row] == parent &&
        table.call_site[row] == call_site) {
      return row;
    }
  }
  bucket.push_back(append_context(module, parent, call_site));
  return bucket.back();
}

std::uint32_t Recorder::append_context(std::uint32_t module, std::int32_t parent, std::int32_t call_site) {
  auto& table = capture_.site_contexts;
  table.module.push_back(static_cast<std::int32_t>(module));
  table.parent.push_back(parent);
  table.call_site.push_back(call_site);
  return static_cast<std::uint32_t>(table.module.size() - 1);
}

Recorder::Context Recorder::enter_module(std::uint32_t module, std::int32_t call_site) {
  const auto outer = context_;
  auto& base = base_context_[module];
  if (base == kNone) base = append_context(module, -1, -1);
  auto& calls = capture_.module_calls;
  const auto row = static_cast<std::uint32_t>(calls.module.size());
  calls.module.push_back(static_cast<std::int32_t>(module));
  calls.call_index.push_back(++calls_of_module_[module]);
  calls.parent_call.push_back(open_calls_.empty() ? -1 : static_cast<std::int32_t>(open_calls_.back()));
  calls.call_site.push_back(call_site);
  calls.first_op.push_back(static_cast<std::int32_t>(num_events()));
  calls.end_op.push_back(-1);
  calls.output_op.push_back(-1);
  call_ticks_.push_back(ticks());
  open_calls_.push_back(row);
  context_ = {base, row};
  return outer;
}

void Recorder::leave_module(Context outer, Prov result, const c10::IValue* value) {
  const auto row = context_.module_call;
  c10::IValue first = value != nullptr && watch_ != nullptr ? *value : c10::IValue();
  while (result.is(Prov::Tag::kContainer) && !containers_.at(result).items.empty()) {
    result = containers_.at(result).items.front();
    if (first.isTuple())
      first = first.toTupleRef().elements().empty() ? c10::IValue() : first.toTupleRef().elements()[0];
    else if (first.isList())
      first = first.toListRef().empty() ? c10::IValue() : c10::IValue(first.toListRef()[0]);
    else
      first = c10::IValue();
  }
  auto& calls = capture_.module_calls;
  if (result.is(Prov::Tag::kOp)) calls.output_op.mut(row) = static_cast<std::int32_t>(result.index());
  calls.end_op.mut(row) = static_cast<std::int32_t>(num_events());
  call_ticks_[row] = ticks() - call_ticks_[row];
  open_calls_.pop_back();
  context_ = outer;
  if (watch_ == nullptr) return;
  const auto output = result.is(Prov::Tag::kOp) ? result.index() : kNone;
  const bool as_produced = output != kNone && first.isTensor() && first.toTensor().defined() &&
                           !is_batched(first.toTensor()) &&
                           writers_.find(storage_of(first.toTensor()), output, capture_).writer == kNone;
  watch_->on_module_exit(row, output, as_produced ? &first.toTensor() : nullptr);
}

Recorder::Context Recorder::enter_function(Instruction& call) {
  const auto outer = context_;
  if (call.context_from != context_.site_context) {
    const auto from = chain_context(call);
    const auto module = static_cast<std::uint32_t>(capture_.site_contexts.module[from]);
    call.context_to = intern_context(module, static_cast<std::int32_t>(from), call.call_site);
    call.context_from = context_.site_context;
  }
  context_.site_context = call.context_to;
  return outer;
}

std::uint32_t Recorder::site_context_for(Instruction& instruction) {
  if (instruction.frames.empty()) return context_.site_context;
  if (instruction.context_from != context_.site_context) {
    instruction.context_to = chain_context(instruction);
    instruction.context_from = context_.site_context;
  }
  return instruction.context_to;
}

std::uint32_t Recorder::chain_context(const Instruction& instruction) {
  auto context = context_.site_context;
  const auto module = static_cast<std::uint32_t>(capture_.site_contexts.module[context]);
  for (const auto frame : instruction.frames) {
    context = intern_context(module, static_cast<std::int32_t>(context), frame);
  }
  return context;
}

std::int32_t Recorder::shape_of(const at::Tensor& tensor, ShapeCache* cache) {
  const auto sizes = tensor.sizes();
  if (cache && cache->rank == sizes.size() &&
      std::memcmp(cache->dims, sizes.data(), sizes.size() * sizeof(std::int64_t)) == 0) {
    return cache->shape;
  }
  const auto code = capture_.shapes.intern({sizes.data(), sizes.size()});
  if (cache && sizes.size() <= ShapeCache::kMaxRank) {
    cache->rank = static_cast<std::uint8_t>(sizes.size());
    cache->shape = code;
    std::copy(sizes.begin(), sizes.end(), cache->dims);
  }
  return code;
}

std::uint32_t Recorder::append(CaptureEvent event, const at::Tensor* tensor, bool keep) {
  if (keep && store_ && watch_ == nullptr) {
    event.payload = store_->keep(*tensor, static_cast<std::int32_t>(event.shape));
  }
  capture_.events.push_back(event);
  const auto count = capture_.events.size();
  TL_CHECK(count < Prov::kMaxIndex, "a run is limited to 2^29 events");
  if (slate_) slate_->events = count;
  if (watch_ != nullptr) watch_->on_event(static_cast<std::uint32_t>(count - 1), *tensor, !keep);
  // Often enough for a request to stop: after so many events, and after every call that took long.
  const bool slow = event.duration_ns > kSlowTicks;
  if (request_.progress && (slow || (count & 1023) == 0)) request_.progress(count);
  return static_cast<std::uint32_t>(count - 1);
}

Prov Recorder::record_input(const std::string& role, const c10::IValue& value) {
  if (value.isTensor()) {
    const auto& tensor = value.toTensor();
    if (!tensor.defined()) return Prov{};
    CaptureEvent event;
    event.kind = OpKind::kInput;
    event.site_context = context_.site_context;
    event.module_call = context_.module_call;
    event.shape = static_cast<std::uint32_t>(shape_of(tensor, nullptr));
    event.edge_begin = static_cast<std::uint32_t>(capture_.edges.size());
    event.args_begin = static_cast<std::uint32_t>(capture_.args.size());
    event.dtype = dtype_of(tensor);
    event.device = device_kind_of(tensor);
    event.address = static_cast<std::uint32_t>(capture_.strings.intern(role));
    if (const auto* storage = storage_of(tensor); storage != nullptr) {
      user_inputs_.try_emplace(storage,
                               UserInput{tensor.storage().getWeakStorageImpl(), role.substr(kInputRole.size())});
    }
    return Prov::op(append(event, &tensor, true));
  }
  ContainerTree::Known known;
  for_each_leaf(value, role, [&](const std::string& leaf_role, const c10::IValue& leaf) {
    if (leaf.isTensor()) known.insert_or_assign(leaf.toTensor().unsafeGetTensorImpl(), record_input(leaf_role, leaf));
  });
  return known.empty() ? Prov{} : containers_.make_by_identity(value, known, Prov{});
}

const AttributeInfo* Recorder::attribute(const c10::ivalue::Object* object, std::size_t slot) const {
  if (const auto changed = changed_attributes_.find({object, slot}); changed != changed_attributes_.end()) {
    return &changed->second;
  }
  const auto found = modules_.attributes.find({object, slot});
  return found == modules_.attributes.end() ? nullptr : &found->second;
}

AttributeInfo& Recorder::set_attribute(const c10::ivalue::Object* object, std::size_t slot, Prov prov) {
  const auto* known = attribute(object, slot);
  const AttributeInfo info{prov, known ? known->buffer : -1};
  return changed_attributes_.insert_or_assign(AttributeKey{object, slot}, info).first->second;
}

void Recorder::forget_object(const c10::ivalue::Object* object, std::size_t num_slots) {
  for (std::size_t slot = 0; slot < num_slots; ++slot)
    changed_attributes_.insert_or_assign(AttributeKey{object, slot}, AttributeInfo{});
}

Prov Recorder::attribute_prov(const c10::ivalue::Object* object, std::size_t slot, const c10::IValue& value,
                              const AttributeInfo* info) {
  if (info && info->buffer >= 0 && value.isTensor()) return Prov::buffer(static_cast<std::uint32_t>(info->buffer));
  if (info && !info->prov.none()) return info->prov;
  const auto prov = containers_.make_by_identity(value, modules_.known_tensors, Prov{});
  if (prov.is(Prov::Tag::kContainer)) {
    set_attribute(object, slot, prov);  // aliases of the container share the node
    mark_as_state(prov);
  }
  return prov;
}

bool Recorder::is_flow(const Instruction& instruction, const at::Tensor& tensor) const {
  return tensor.dim() == 0 && edges_.empty() && only_constants_ && !instruction.random &&
         tensor.layout() == at::kStrided;
}

void Recorder::flush_gathered(std::uint32_t op) {
  for (const auto& edge : edges_) capture_.edges.push_back(edge);
  for (auto use : param_uses_) {
    use.op = op;
    capture_.param_uses.push_back(use);
  }
  for (const auto word : words_) capture_.args.push_back(word);
}

Prov Recorder::record_tensor(Instruction& instruction, std::size_t cache, std::uint16_t slot, std::uint16_t num_slots,
                             const at::Tensor& tensor, std::uint32_t call_ticks) {
  if (!tensor.defined()) return Prov{};
  if (is_batched(tensor)) {
    const auto [value, dims] = batched_view(tensor);
    return record_op(instruction, cache, slot, num_slots, value, call_ticks,
                     static_cast<std::uint32_t>(capture_.strings.intern(dims)));
  }
  if (is_flow(instruction, tensor)) return append_flow(instruction, read_scalar(tensor));
  return record_op(instruction, cache, slot, num_slots, tensor, call_ticks, StringId::kNone);
}

Prov Recorder::record_op(Instruction& instruction, std::size_t cache, std::uint16_t slot, std::uint16_t num_slots,
                         const at::Tensor& tensor, std::uint32_t call_ticks, std::uint32_t address) {
  CaptureEvent event;
  event.address = address;
  event.instruction = instruction.row;
  event.site_context = site_context_for(instruction);
  event.module_call = context_.module_call;
  event.slot = slot;
  event.num_slots = num_slots;
  event.dtype = dtype_of(tensor);
  event.device = device_kind_of(tensor);
  event.duration_ns = slot == 0 ? call_ticks : 0;
  event.edge_begin = static_cast<std::uint32_t>(capture_.edges.size());
  event.args_begin = static_cast<std::uint32_t>(capture_.args.size());
  if (instruction.shape_cache.size() <= cache) instruction.shape_cache.resize(cache + 1);
  event.shape = static_cast<std::uint32_t>(shape_of(tensor, &instruction.shape_cache[cache]));
  if (instruction.random) event.flags |= kOpRandom;
  if (instruction.uninitialised) event.flags |= kOpUninitialised;
  const auto* storage = storage_of(tensor);
  for (const auto& written : written_) {
    if (written.hidden)
      event.flags |= kOpHiddenWrite;
    else if (storage != nullptr && storage_of(written.tensor) == storage)
      event.flags |= kOpInPlace;
  }
  if ((event.flags & kOpInPlace) == 0 && storage != nullptr &&
      std::ranges::find(input_storages_, storage) != input_storages_.end()) {
    event.flags |= kOpView;
    // What was written to the bytes meanwhile would be an edge, too.
    if (reads_uninitialised()) event.flags |= kOpUninitialised;
  }
  if (event.dtype == DType::kBool && tensor.numel() == 1) event.flags |= kOpScalarBool;
  flush_gathered(num_events());
  return Prov::op(append(event, &tensor, (event.flags & kOpUninitialised) == 0));
}

bool Recorder::reads_uninitialised() const {
  return !edges_.empty() && std::ranges::all_of(edges_, [&](const CaptureEdge& edge) {
    return (capture_.events[edge.parent].flags & kOpUninitialised) != 0;
  });
}

Prov Recorder::append_flow(const Instruction& instruction, const c10::IValue& value) {
  auto& flow = capture_.flow;
  flow.instruction.push_back(static_cast<std::int32_t>(instruction.row));
  flow.before_op.push_back(static_cast<std::int32_t>(num_events()));
  flow.args_begin.push_back(static_cast<std::int32_t>(capture_.flow_args.size()));
  for (const auto& edge : edges_) {
    capture_.flow_args.push_back(
        ArgHeader{ArgTag::kOp, static_cast<std::uint16_t>(edge.arg), ArgHeader::kNoFlow}.pack());
    capture_.flow_args.push_back(edge.parent);
  }
  for (const auto word : words_) capture_.flow_args.push_back(word);
  const auto tag = tag_of(value);
  std::int64_t stored = 0;
  if (is_list(tag)) {
    // The list itself follows the operands: its packed form begins at `value`.
    stored = static_cast<std::int64_t>(capture_.flow_args.size());
    std::vector<std::int64_t> packed;
    push_packed(tag, 0xffff, ArgHeader::kNoFlow, value, packed);
    for (const auto word : packed) capture_.flow_args.push_back(word);
  } else if (tag != ArgTag::kNone) {
    std::vector<std::int64_t>& packed = words_;
    const auto before = packed.size();
    push_packed(tag, 0xffff, ArgHeader::kNoFlow, value, packed);
    stored = packed.back();
    packed.resize(before);
  }
  flow.tag.push_back(static_cast<std::uint8_t>(tag));
  flow.value.push_back(stored);
  return Prov::flow(static_cast<std::uint32_t>(flow.tag.size() - 1));
}

Prov Recorder::record_host(const Instruction& instruction, const c10::IValue& value) {
  return append_flow(instruction, value);
}

std::int32_t Recorder::module_of(const c10::ivalue::Object* object) const {
  const auto found = modules_.module_of_object.find(object);
  return found == modules_.module_of_object.end() ? -1 : static_cast<std::int32_t>(found->second);
}

Prov Recorder::record_host_of(const Instruction& instruction, const c10::IValue& value, const Prov* provs) {
  return record_host_list(instruction, value, provs);
}

Prov Recorder::record_host_list(const Instruction& instruction, const c10::IValue& value, const Prov* provs) {
  edges_.clear();
  words_.clear();
  for (std::size_t i = 0; i < instruction.inputs.size(); ++i) {
    if (!provs[i].is(Prov::Tag::kFlow)) continue;
    words_.push_back(ArgHeader{ArgTag::kNone, static_cast<std::uint16_t>(i), provs[i].index()}.pack());
  }
  return append_flow(instruction, value);
}

std::size_t Recorder::begin_branch(const Instruction& instruction, bool arm, Prov test) {
  CaptureBranch branch;
  branch.instruction = instruction.row;
  branch.site_context = context_.site_context;
  branch.module_call = context_.module_call;
  branch.test_op = kNone;
  branch.first_op = num_events();
  branch.end_op = kNone;  // open: a stop or an exception may come first
  branch.arm = arm ? 0 : 1;
  capture_.branches.push_back(branch);
  branch_tests_.push_back(test);
  return branch_tests_.size() - 1;
}

void Recorder::end_branch(std::size_t branch) { capture_.branches[branch].end_op = num_events(); }

std::size_t Recorder::begin_loop(const Instruction& instruction) {
  capture_.loops.push_back({instruction.row, context_.module_call, 0, num_events(), kNone});
  return capture_.loops.size() - 1;
}

void Recorder::begin_iteration(std::size_t loop) { ++capture_.loops[loop].iterations; }

void Recorder::end_loop(std::size_t loop) { capture_.loops[loop].end_op = num_events(); }

}  // namespace tl::lt
