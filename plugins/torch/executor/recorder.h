#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/flat_hash_map.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/engine.h"
#include "executor/payload_store.h"
#include "executor/provenance.h"
#include "executor/value_watch.h"
#include "executor/writers.h"
#include "program/program.h"
#include "trace/args.h"
#include "trace/capture.h"

namespace tl::lt {

/// What is known of an attribute that holds tensors.
struct AttributeInfo {
  Prov prov;
  std::int32_t buffer = -1;  ///< row of buffers, -1 for other attributes
};

/// One object's attribute.
struct AttributeKey {
  const void* object;
  std::size_t slot;
  friend bool operator==(const AttributeKey&, const AttributeKey&) = default;
};
struct AttributeKeyHash {
  std::size_t operator()(const AttributeKey& key) const { return std::hash<const void*>{}(key.object) * 31 + key.slot; }
};

using BuffersOfStorage = ska::flat_hash_map<const c10::StorageImpl*, std::vector<std::uint32_t>>;

/// The static side of a loaded file that the recorder needs, made by the loader.
struct ModuleMap {
  std::unordered_map<const void*, std::uint32_t> module_of_object;  ///< script object → row of modules
  std::unordered_map<AttributeKey, AttributeInfo, AttributeKeyHash> attributes;
  BuffersOfStorage buffers_of_storage;
  std::unordered_map<const c10::StorageImpl*, std::string>
      state_of_storage;                ///< parameters and constants: their address
  ContainerTree::Known known_tensors;  ///< parameters, buffers and constants by identity
  std::vector<at::Tensor> buffers;     ///< by row
};

/// Turns what the executor does into events of a Capture. One a run.
class Recorder {
 public:
  /// `request` outlives the recorder.
  Recorder(Capture& capture, const ModuleMap& modules, const RunRequest& request, CrashSlate* slate);

  ContainerTree& containers() { return containers_; }
  PayloadStore* payloads() { return store_.get(); }

  // --- context -------------------------------------------------------------------------------------------------------
  struct Context {
    std::uint32_t site_context;
    std::uint32_t module_call;
  };
  Context context() const { return context_; }
  /// Address of the module whose forward runs; empty in that of the root.
  std::string module_address() const;
  /// Enters a call of a module; returns the context to hand back to `leave_module`.
  Context enter_module(std::uint32_t module, std::int32_t call_site);
  /// `value` is what the call returned, where it is at hand.
  void leave_module(Context outer, Prov result, const c10::IValue* value = nullptr);
  /// Enters a function or method inside the same module's forward.
  Context enter_function(Instruction& call);
  void leave_function(Context outer) { context_ = outer; }

  // --- values --------------------------------------------------------------------------------------------------------
  /// Records every tensor leaf of an argument as an input row, `role` being `input.` and its name; returns the
  /// provenance of the whole.
  Prov record_input(const std::string& role, const c10::IValue& value);
  void record_outputs(const c10::IValue& value, Prov prov) { record_output("output", value, prov); }
  /// Records what was returned under `role`, leaf by leaf.
  void record_output(const std::string& role, const c10::IValue& value, Prov prov);
  const AttributeInfo* attribute(const c10::ivalue::Object* object, std::size_t slot) const;
  AttributeInfo& set_attribute(const c10::ivalue::Object* object, std::size_t slot, Prov prov);
  /// True once the run rebound an attribute: what an attribute meant may have changed since.
  bool writes_attributes() const { return !changed_attributes_.empty(); }
  /// Forgets what an address meant: a new object lives there.
  void forget_object(const c10::ivalue::Object* object, std::size_t num_slots);
  /// An attribute that is a registered buffer was bound to another tensor.
  void buffer_rebound(std::uint32_t buffer, const at::Tensor& value, Prov prov);
  /// Provenance of what an attribute holds; `info` is what `attribute` said.
  Prov attribute_prov(const c10::ivalue::Object* object, std::size_t slot, const c10::IValue& value,
                      const AttributeInfo* info);

  // --- operators -----------------------------------------------------------------------------------------------------
  /// Collects parents, parameter uses and run-time arguments before the call consumes them.
  void gather(const Instruction& instruction, c10::ArrayRef<c10::IValue> args, const Prov* provs);
  /// Preserves payloads of every storage the call is about to write.
  void before_writes(const Instruction& instruction, c10::ArrayRef<c10::IValue> args);
  /// Updates the writer table and buffers after the call. `first_op` is the first event of the call, none if it yielded
  /// none.
  void after_writes(const Instruction& instruction, std::uint32_t first_op);
  /// Records one tensor output. Returns its provenance: an Op, or flow for a 0-d value made of host values only.
  Prov record_tensor(Instruction& instruction, std::size_t cache, std::uint16_t slot, std::uint16_t num_slots,
                     const at::Tensor& tensor, std::uint32_t ticks);
  /// Records a host value that the gathered call yielded.
  Prov record_host(const Instruction& instruction, const c10::IValue& value);
  /// The same for a container operation (len, contains), whose operands were not gathered.
  Prov record_host_of(const Instruction& instruction, const c10::IValue& value, const Prov* provs);
  /// Row of modules of a script object; -1 if it is none.
  std::int32_t module_of(const c10::ivalue::Object* object) const;
  /// A host value made by ListConstruct of run-time values.
  Prov record_host_list(const Instruction& instruction, const c10::IValue& value, const Prov* provs);

  /// True if some payload shares the storage that the first announced write of the call goes to.
  bool write_meets_payload(const Instruction& instruction, c10::ArrayRef<c10::IValue> args) const;

  // --- control flow --------------------------------------------------------------------------------------------------
  std::size_t begin_branch(const Instruction& instruction, bool arm, Prov test);
  void end_branch(std::size_t branch);
  std::size_t begin_loop(const Instruction& instruction);
  /// Counts an iteration as it begins.
  void begin_iteration(std::size_t loop);
  void end_loop(std::size_t loop);

  std::uint32_t num_events() const { return static_cast<std::uint32_t>(capture_.events.size()); }
  /// Scales tick counts to nanoseconds, resolves branch tests, closes open calls, attaches payloads. Called once, also
  /// after the model raised.
  void finish();
  /// Throws Halted where somebody asked to end the run at what was recorded last.
  void halt_if_asked() const {
    if (watch_ != nullptr && watch_->halted()) throw Halted();
  }
  /// What was asked of values beyond recording them; null where nothing was.
  const ValueWatch* watch() const { return watch_.get(); }
  /// Makes the value that the run halted at its output.
  void record_frontier(std::uint32_t event);
  /// Lets the store's payloads be moved before the storage is written by other means than `before_writes`.
  void before_swap(c10::StorageImpl* storage) {
    if (watch_ != nullptr) watch_->before_write(storage);
  }
  /// Labels of the events that the call at hand was given, as raw labels.
  std::vector<std::string> gathered_labels() const;
  std::size_t num_flow_rows() const { return capture_.flow.tag.size(); }

  // --- what the run did ----------------------------------------------------------------------------------------------
  void count_execution(const Instruction& instruction) {
    ++operator_calls_;
    ++capture_.executions[instruction.row];
    if (instruction.container) ++recorded_calls_;  // its record is the provenance it moved
  }
  /// An operator left records since these counts, or had none to leave.
  void note_recorded(std::uint32_t events_before, std::size_t flow_before, bool has_outputs) {
    recorded_calls_ += !has_outputs || num_events() > events_before || num_flow_rows() > flow_before ? 1 : 0;
  }
  /// A module's attribute was bound anew: the state is not the file's any more.
  void note_attribute_write(const c10::ivalue::Object* object, const std::string& name);
  /// A container that an attribute holds is about to be written.
  void note_container_writes(const Instruction& instruction, const std::vector<Prov>& provs);
  /// True if the run changed what the file's modules hold.
  bool state_dirty() const { return state_dirty_; }

 private:
  struct WrittenArgument {
    at::Tensor tensor;
    Prov prov;
    bool hidden;
  };

  Prov record_op(Instruction& instruction, std::size_t cache, std::uint16_t slot, std::uint16_t num_slots,
                 const at::Tensor& tensor, std::uint32_t call_ticks, std::uint32_t address);
  void record_output_leaf(const std::string& role, const c10::IValue& leaf, Prov prov);
  void keep_output(CaptureOutput& output, const at::Tensor& tensor);
  /// The gathered operands are bytes that mean nothing (empty), and nothing was written to them.
  bool reads_uninitialised() const;
  std::uint32_t append(CaptureEvent event, const at::Tensor* tensor, bool keep);
  std::int32_t shape_of(const at::Tensor& tensor, ShapeCache* cache);
  std::uint32_t site_context_for(Instruction& instruction);
  std::uint32_t chain_context(const Instruction& instruction);
  std::uint32_t append_context(std::uint32_t module, std::int32_t parent, std::int32_t call_site);
  std::uint32_t intern_context(std::uint32_t module, std::int32_t parent, std::int32_t call_site);
  void gather_tensor(const at::Tensor& tensor, Prov prov, std::int16_t arg, std::int16_t sub);
  /// Records what an argument looks like where the writer that its edge names wrote to a view of it.
  void note_own_shape(const at::Tensor& tensor, std::uint32_t writer, std::int16_t arg, std::int16_t sub);
  void gather_value(const c10::IValue& value, Prov prov, std::int16_t arg, std::int16_t* sub);
  void gather_host(const c10::IValue& value, Prov prov, std::uint16_t arg);
  std::uint32_t buffer_row(std::uint32_t buffer);
  std::uint32_t append_buffer(std::uint32_t buffer, const at::Tensor& tensor, std::uint32_t parent,
                              std::uint32_t flags);
  void push_packed(ArgTag tag, std::uint16_t position, std::uint32_t flow, const c10::IValue& value,
                   std::vector<std::int64_t>& words);
  Prov append_flow(const Instruction& instruction, const c10::IValue& value);
  bool is_flow(const Instruction& instruction, const at::Tensor& tensor) const;
  void flush_gathered(std::uint32_t op);
  void check_foreign(const Instruction& instruction, std::uint32_t op);
  std::uint32_t test_op_of(Prov test) const;
  void note_state_change(const std::string& address);
  void note_input_write(const std::string& name);
  void mark_as_state(Prov prov);

  Capture& capture_;
  const ModuleMap& modules_;
  std::unordered_map<AttributeKey, AttributeInfo, AttributeKeyHash> changed_attributes_;  ///< goes before modules_
  std::vector<at::Tensor> buffers_;  ///< what each buffer is bound to now
  BuffersOfStorage buffers_of_storage_;
  const RunRequest& request_;
  CrashSlate* slate_;
  std::shared_ptr<PayloadStore> store_;
  std::unique_ptr<ValueWatch> watch_;
  ContainerTree containers_;
  WriterTable writers_;
  Context context_{0, 0};
  std::vector<std::uint32_t> base_context_;  ///< by module
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> contexts_;
  std::vector<std::int32_t> calls_of_module_;
  std::vector<std::uint32_t> buffer_rows_;  ///< current version by buffer, none before the first read
  std::vector<Prov> branch_tests_;
  std::vector<std::uint64_t> call_ticks_;  ///< entry ticks of module calls, then their durations
  std::vector<std::uint32_t> open_calls_;
  std::uint64_t operator_calls_ = 0;  ///< operator instructions executed
  std::uint64_t recorded_calls_ = 0;  ///< of these, with a record
  bool state_dirty_ = false;
  struct UserInput {
    c10::weak_intrusive_ptr<c10::StorageImpl> address;  ///< keeps it from being given away
    std::string name;
  };
  std::unordered_map<const c10::StorageImpl*, UserInput> user_inputs_;

  // gathered for the instruction at hand
  std::vector<CaptureEdge> edges_;
  std::vector<CaptureParamUse> param_uses_;
  std::vector<std::int64_t> words_;
  std::vector<const c10::StorageImpl*> input_storages_;
  std::vector<const c10::TensorImpl*> input_impls_;
  std::vector<WrittenArgument> written_;
  struct ForeignCopy {
    at::Tensor before;
    c10::intrusive_ptr<c10::StorageImpl> storage;
    at::Tensor live;
  };
  std::vector<ForeignCopy> foreign_copies_;
  bool only_constants_ = true;  ///< no parent is an Op, a buffer or a parameter

  std::uint64_t start_ticks_ = 0;
  double start_seconds_ = 0;
};

/// A cheap monotonic counter; scaled to nanoseconds at the end of a run.
std::uint64_t ticks();
/// Seconds of a steady clock.
double seconds_now();

}  // namespace tl::lt
