#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "executor/provenance.h"

namespace tl::lt {

/// What an instruction does. Everything that is no operator is run by the executor itself.
enum class InstructionKind : std::uint8_t {
  kOperator,  ///< calls `operation`
  kGetAttr,
  kSetAttr,
  kCallMethod,     ///< `callee` on the object in input 0
  kCallInterface,  ///< method `name` of whatever class the object in input 0 has
  kCallFunction,   ///< `callee`; inputs are the arguments
  kIf,             ///< blocks[0] then, blocks[1] else
  kLoop,           ///< blocks[0] body
  kListConstruct,
  kListUnpack,
  kTupleConstruct,
  kTupleUnpack,
  kTupleIndex,
  kTupleSlice,  ///< ints = {begin, end}
  kDictConstruct,
  kCreateObject,
  kIsInstance,
  kUncheckedCast,  ///< passes its input on
  kUninitialized,
  kRaise,
  kFork,  ///< `callee` run inline, yields a completed future
  kWait,
  kEnter,
  kExit,
  kWarn,
  kModuleIndex,  ///< a module container indexed at run time
  kEnterModule,  ///< a call of module `module_row` begins (flat programs, where calls are marks)
  kLeaveModule,  ///< … and ends; input 0, if any, is what it returned
  kEnterGrad,    ///< gradients on or off (ints[0]) until kLeaveGrad
  kLeaveGrad,
  kEnterAutocast,  ///< autocast of device `name`: ints = {dtype, enabled} until kLeaveAutocast
  kLeaveAutocast,
};

/// What becomes of one output of an operator.
enum class Emit : std::uint8_t {
  kTensor,      ///< one Op if it is a tensor
  kTensorList,  ///< one Op an element
  kHost,        ///< a flow row
  kContainer,   ///< moves values in or out of containers: provenance is passed on, nothing is recorded
};

struct Function;
struct Instruction;

/// A straight list of instructions over the slots of its function.
struct Block {
  std::vector<Instruction> instructions;
  std::vector<std::uint32_t> params;
  std::vector<std::uint32_t> outputs;
  std::vector<bool> output_dies;  ///< the slot was made in this block and is not returned twice: move it out
};

/// How a container operation moves provenance, so that an element keeps its producer.
enum class ContainerRule : std::uint8_t {
  kByIdentity,  ///< unknown: elements are matched by tensor identity with those of the arguments
  kAppend,
  kGetItem,
  kSetItem,
  kPop,
  kInsert,
  kExtend,
  kClear,
  kReverse,
  kDelete,  ///< lists, negative indices allowed
  kCopy,
  kSlice,
  kConcat,
  kRepeat,
  kDictGet,
  kDictSet,
  kDictValues,
  kDictItems,
  kDictPop,
  kDictSetDefault,
  kDictUpdate,
  kDictCopy,
  kPass,  ///< returns its first argument
};

/// Sizes last seen on an output, so that the same shape needs no lookup.
struct ShapeCache {
  static constexpr std::size_t kMaxRank = 6;
  std::int32_t shape = -1;
  std::uint8_t rank = 255;
  std::int64_t dims[kMaxRank] = {};
};

/// One executable instruction. Static but for its caches; one Program is run by one thread.
struct Instruction {
  InstructionKind kind = InstructionKind::kOperator;
  ContainerRule container_rule = ContainerRule::kByIdentity;
  bool writes = false;          ///< some argument is written, announced or hidden
  bool foreign = false;         ///< outside aten, prim, quantized: unannounced writes are looked for
  bool vararg = false;          ///< the operation expects the number of its arguments on top
  bool random = false;          ///< tagged nondeterministic_seeded
  bool uninitialised = false;   ///< yields uninitialised memory
  bool container = false;       ///< every output has Emit::kContainer
  bool any_tensor_out = false;  ///< some output is kTensor or kTensorList
  bool any_host_out = false;
  bool dispatched = false;           ///< goes through the dispatcher
  std::uint32_t row = 0;             ///< row of Capture::instructions
  std::int32_t call_site = -1;       ///< row of Capture::call_sites
  std::vector<std::int32_t> frames;  ///< call sites around it inside the module's forward, outermost first (traces)

  std::function<void(torch::jit::Stack&)> operation;
  std::vector<std::uint32_t> inputs;
  std::vector<std::uint32_t> outputs;
  std::vector<bool> input_dies;        ///< the slot is not read after this instruction: move it
  std::vector<std::uint32_t> release;  ///< slots that nested blocks read last
  std::vector<bool> output_unused;

  std::vector<Emit> emits;                   ///< per output, operators only
  std::vector<std::uint16_t> tensor_inputs;  ///< positions that may hold tensors
  std::vector<std::uint16_t> host_inputs;    ///< positions that hold host values not constant in the program
  std::vector<std::uint16_t> announced_writes;
  std::uint32_t hidden_writes = 0;                ///< bit k: argument k; from the op table
  int hidden_writes_if = -1;                      ///< only when this bool argument is true
  std::optional<c10::OperatorHandle> functional;  ///< out-of-place form of a pointwise in-place operator

  Function* callee = nullptr;
  std::string name;  ///< attribute or method
  std::size_t attribute_slot = 0;
  c10::TypePtr type;
  std::vector<c10::TypePtr> types;  ///< kIsInstance
  std::vector<std::int64_t> ints;
  std::vector<Block> blocks;
  bool module_call = false;    ///< kCallMethod, kCallInterface: the method is a forward
  bool host_list = false;      ///< kListConstruct of host values that are not all constant
  bool holds_tensors = false;  ///< the output may hold tensors

  std::string where;  ///< operator, file and line, for messages and crash reports

  // caches of the one thread that runs it
  std::vector<ShapeCache> shape_cache;
  std::uint32_t context_from = 0xffffffff;  ///< site context last seen …
  std::uint32_t context_to = 0xffffffff;    ///< … and what it became
  std::int32_t module_row = -1;             ///< calls: row of modules of attribute_object; kEnterModule: the module
  const void* attribute_object = nullptr;
  const void* attribute_info = nullptr;
};

/// Values of one call of a function, by slot.
struct Frame {
  std::vector<c10::IValue> values;
  std::vector<Prov> prov;
};

/// A function, method or forked body.
struct Function {
  std::string name;
  std::string qualified_name;
  Block body;
  std::size_t num_slots = 0;
  std::vector<std::pair<std::uint32_t, c10::IValue>> constants;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> constant_params;  ///< slot, row of Capture::params
  std::vector<std::string> argument_names;
  std::vector<std::uint32_t> variable_slots;        ///< all but the constants: emptied when a call ends
  std::vector<std::unique_ptr<Frame>> free_frames;  ///< cache of the one thread that runs it
};

/// Everything that one file can run.
struct Program {
  std::vector<std::unique_ptr<Function>> functions;
  Function* entry = nullptr;
  std::vector<Function*> pre_hooks;  ///< of the root module
  std::vector<Function*> hooks;
  /// Finds (and lowers on first use) a method of a class; null if it has none. Set by the loader.
  std::function<Function*(const c10::ClassTypePtr&, const std::string&)> find_method;
};

}  // namespace tl::lt
