#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/ids.h"
#include "tensor/tensor_ref.h"
#include "trace/run_info.h"
#include "trace/statistics_table.h"
#include "trace/string_pool.h"
#include "trace/tables.h"

namespace tl {

/// What the executor emits per executed op and output slot, and per input and buffer read or write: 48 bytes, appended,
/// never revisited. The number of an event is its OpId during capture. "None" is Id::kNone (0xffffffff).
struct CaptureEvent {
  std::uint32_t instruction = OpId::kNone;   ///< row of instructions; none for inputs and buffers
  std::uint32_t site_context = 0;            ///< row of site_contexts
  std::uint32_t module_call = 0;             ///< row of module_calls
  std::uint32_t shape = 0;                   ///< row of shapes
  std::uint32_t edge_begin = 0;              ///< first edge; the next event's edge_begin ends the range
  std::uint32_t args_begin = 0;              ///< first word in args; the next event's args_begin ends the range
  std::uint32_t payload = PayloadId::kNone;  ///< row of the payload source
  std::uint32_t duration_ns = 0;             ///< wall time of the call, saturating; on slot 0, 0 on the others
  std::uint32_t address = StringId::kNone;   ///< io role of inputs, address of buffers
  std::uint32_t flags = 0;                   ///< OpFlag bits that capture knows
  std::uint16_t slot = 0;
  std::uint16_t num_slots = 1;
  OpKind kind = OpKind::kOperation;
  DType dtype = DType::kNone;
  DeviceKind device = DeviceKind::kCpu;
  bool sampled = false;  ///< `payload` holds the elements at sample_positions only (tensor/sample.h)
};
static_assert(sizeof(CaptureEvent) == 48);

/// A tensor argument of an event. `arg` is -1 for a writer that the storage map added.
struct CaptureEdge {
  std::uint32_t parent;
  std::int16_t arg;
  std::int16_t sub;
};

/// A read of a parameter or constant.
struct CaptureParamUse {
  std::uint32_t op;
  std::uint32_t param;
  std::int16_t arg;
};

/// An executed conditional: events first_op .. end_op-1 ran in its arm.
struct CaptureBranch {
  std::uint32_t instruction;
  std::uint32_t site_context;
  std::uint32_t module_call;
  std::uint32_t test_op;  ///< event whose value decided, none if a host value did
  std::uint32_t first_op;
  std::uint32_t end_op;
  std::uint8_t arm;  ///< 0 then, 1 else
};

/// An executed loop.
struct CaptureLoop {
  std::uint32_t instruction;
  std::uint32_t module_call;
  std::uint32_t iterations;
  std::uint32_t first_op;
  std::uint32_t end_op;
};

/// A leaf that the model returned. `op` is its producer, none where it is no recorded tensor (a parameter, a host
/// value).
struct CaptureOutput {
  std::string role;  ///< structural path: output, output.0, output.logits
  std::uint32_t op = OpId::kNone;
  std::uint32_t param = ParamId::kNone;
  std::uint32_t shape = 0;
  std::uint32_t payload = PayloadId::kNone;
  DType dtype = DType::kNone;
  DeviceKind device = DeviceKind::kCpu;
  bool same_value = true;      ///< the value is that of `op`, not a later state or another view of its memory
  bool uninitialised = false;  ///< bytes that mean nothing: what empty made, and nothing was written to
  std::string scalar;          ///< text of a host value (3, "abc", None); empty for tensors
};

/// Facts of a kept payload, taken at production. `storage` identifies the memory: equal numbers share bytes.
struct PayloadFacts {
  TensorKind kind = TensorKind::kStrided;
  DType dtype = DType::kNone;
  std::uint64_t storage = 0;
  std::int64_t offset = 0;  ///< in elements
  std::span<const std::int64_t> sizes;
  std::span<const std::int64_t> strides;
  bool conjugate = false;  ///< a lazily conjugated view: same bytes, another value
  bool negative = false;   ///< a lazily negated view
};

/// Where payloads live while a trace is in memory: the engine's store, or a reader's mapped files.
class PayloadSource {
 public:
  virtual ~PayloadSource() = default;
  virtual std::size_t size() const = 0;
  /// Valid until the source dies.
  virtual PayloadFacts facts(PayloadId id) const = 0;
  /// The tensor itself; null if its bytes were not kept (uninitialised memory).
  virtual TensorRefPtr tensor(PayloadId id) const = 0;
};

/// Append-only rows in blocks, so that growing never moves what was written. Blocks are left uninitialised: a short run
/// touches a few pages, not whole blocks.
template <typename T, std::size_t kBlock = 1u << 8>
class BlockList {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);

 public:
  T& push_back(const T& value) {
    if (size_ % kBlock == 0) blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(kBlock * sizeof(T)));
    auto* slot = new (blocks_.back().get() + (size_ % kBlock) * sizeof(T)) T(value);
    ++size_;
    return *slot;
  }
  std::size_t size() const { return size_; }
  const T& operator[](std::size_t i) const { return *at(i); }
  T& operator[](std::size_t i) { return *at(i); }

 private:
  T* at(std::size_t i) const {
    return std::launder(reinterpret_cast<T*>(blocks_[i / kBlock].get() + (i % kBlock) * sizeof(T)));
  }

  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::size_t size_ = 0;
};

/// Everything one run records, before postprocess. The engine fills the static tables when it lowers the program and
/// appends events while it runs; nothing is resolved, looked up or allocated per op beyond the appends.
struct Capture {
  // static
  StringPool strings;
  ShapePool shapes;
  InstructionsTable instructions;
  CallSitesTable call_sites;
  SiteContextsTable site_contexts;
  ModulesTable modules;
  ParamsTable params;
  BuffersTable buffers;
  // dynamic
  ModuleCallsTable module_calls;            ///< first_op, end_op and output_op are event numbers
  std::vector<double> module_call_seconds;  ///< wall time of each call, inclusive
  BlockList<CaptureEvent> events;
  BlockList<CaptureEdge> edges;
  BlockList<CaptureParamUse> param_uses;
  BlockList<std::int64_t> args;       ///< packed run-time arguments, trace/args.h
  BlockList<CaptureBranch> branches;  ///< in order of entry
  BlockList<CaptureLoop> loops;
  std::vector<std::uint32_t> executions;  ///< times each instruction's operator ran, by row of instructions
  FlowTable flow;                         ///< before_op is an event number
  BlockList<std::int64_t> flow_args;      ///< packed operands and list values of flow rows
  std::vector<CaptureOutput> outputs;
  std::shared_ptr<const PayloadSource> payloads;
  StatisticsTable statistics;  ///< by number of event
  RunInfo run;
};

/// Events that are operations, not inputs or buffers.
inline std::int64_t num_operations(const Capture& capture) {
  std::int64_t count = 0;
  for (std::size_t event = 0; event < capture.events.size(); ++event) {
    count += capture.events[event].kind == OpKind::kOperation;
  }
  return count;
}

}  // namespace tl
