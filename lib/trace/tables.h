#pragma once

#include <cstdint>
#include <string_view>

#include "trace/column.h"

namespace tl {

// The structs OpsTable, EdgesTable …: one Column a TL_COLUMN of columns.def. `for_each_column(visitor)` calls
// visitor(name, column, unit, meaning) in the order of the list.
#define TL_TABLE_BEGIN(table) struct table##_table_fields {
#define TL_COLUMN(table, field, type, unit, meaning) Column<type> field;
#define TL_TABLE_END(table) \
  }                         \
  ;
#include "trace/columns.def"
#undef TL_TABLE_BEGIN
#undef TL_COLUMN
#undef TL_TABLE_END

#define TL_TABLE_BEGIN(table)                 \
  template <typename Table, typename Visitor> \
  void visit_##table(Table& rows, Visitor&& visitor) {
#define TL_COLUMN(table, field, type, unit, meaning) \
  visitor(std::string_view(#field), rows.field, std::string_view(unit), std::string_view(meaning));
#define TL_TABLE_END(table) }
#include "trace/columns.def"
#undef TL_TABLE_BEGIN
#undef TL_COLUMN
#undef TL_TABLE_END

using OpsTable = ops_table_fields;
using EdgesTable = edges_table_fields;
using ParamUsesTable = param_uses_table_fields;
using InstructionsTable = instructions_table_fields;
using CallSitesTable = call_sites_table_fields;
using SiteContextsTable = site_contexts_table_fields;
using LayersTable = layers_table_fields;
using LayerOpsTable = layer_ops_table_fields;
using ModulesTable = modules_table_fields;
using ModuleCallsTable = module_calls_table_fields;
using ParamsTable = params_table_fields;
using BuffersTable = buffers_table_fields;
using BranchesTable = branches_table_fields;
using ConditionalsTable = conditionals_table_fields;
using ConditionalArmsTable = conditional_arms_table_fields;
using BoolsTable = bools_table_fields;
using LoopsTable = loops_table_fields;
using FlowTable = flow_table_fields;
using PayloadsTable = payloads_table_fields;

enum class OpKind : std::uint8_t { kOperation = 0, kInput = 1, kBuffer = 2, kOutput = 3 };
enum class ParamKind : std::uint8_t { kParameter = 0, kConstant = 1, kPacked = 2 };
enum class GroupingBasis : std::uint8_t { kColumns = 0, kLine = 1 };
enum class DeviceKind : std::uint8_t { kCpu = 0, kCuda = 1, kMeta = 2, kOther = 255 };

/// What a conditional is by the source text in the file; kUnknown where the file holds none.
enum class ConditionalKind : std::uint8_t {
  kUnknown = 0,
  kIfChain = 1,   ///< if / elif / else
  kIfExp = 2,     ///< x if test else y
  kCond = 3,      ///< torch.cond
  kBoolOp = 4,    ///< and, or, a chained comparison: part of a test, has no arms
  kAssert = 5,    ///< has no arms
  kCompiler = 6,  ///< made by TorchScript to rewrite return, break and continue; has no arms
};

/// kTrueSide and kFalseSide: the blocks of a conditional of which no source text tells what they are.
enum class ArmKind : std::uint8_t {
  kThen = 0,
  kElif = 1,
  kElse = 2,
  kFallthrough = 3,  ///< what follows a chain without else all of whose arms provably end
  kTrueSide = 4,
  kFalseSide = 5,
};

/// What asked a tensor for its truth value.
enum class BoolContext : std::uint8_t {
  kUnknown = 0,
  kIfTest = 1,
  kElifTest = 2,
  kIfExp = 3,
  kWhile = 4,
  kAssert = 5,
  kBoolCast = 6,  ///< bool(x) by itself, or an operand of and, or, not outside a test
  kComprehensionFilter = 7,
  kMatchGuard = 8,
  kCond = 9,  ///< the predicate of torch.cond
};

/// How a stored payload gives the value back.
enum class PayloadEncoding : std::uint8_t {
  kDense = 0,      ///< row-major elements, same shape
  kWindow = 1,     ///< a 1-D block of storage; shape, strides and offset of the payloads row view it (expanded tensors)
  kQuantised = 2,  ///< integers under the key; `key.scale`, `key.zero_point` beside it
  kSparse = 3,     ///< `key.indices`, `key.values`, or the compressed form
  kPairs = 4,      ///< complex128 as F64 with a trailing axis of 2
  kEmpty = 5,      ///< uninitialised memory (empty*): recorded without bytes
  kOpaque = 6,     ///< no bytes can be written; the reason is in trace.health
};

/// Bits of ops.flags.
enum OpFlag : std::uint32_t {
  kOpInPlace = 1u << 0,          ///< the call announced a write to the argument it returned
  kOpView = 1u << 1,             ///< the output shares an argument's storage
  kOpUninitialised = 1u << 2,    ///< empty*: the bytes mean nothing
  kOpInternalSource = 1u << 3,   ///< an operation or buffer without parents (zeros, rand …)
  kOpInternalSink = 1u << 4,     ///< an operation or buffer without children
  kOpOrphan = 1u << 5,           ///< neither reached by an input nor reaching an output; only before remove-orphans
  kOpOutputAncestor = 1u << 6,   ///< some output hangs on it
  kOpInputDescendant = 1u << 7,  ///< hangs on some input
  kOpRandom = 1u << 8,           ///< drew random numbers
  kOpNonFinite = 1u << 9,        ///< a kept payload holds NaN or Inf
  kOpBufferWrite = 1u << 10,     ///< a buffer row made by a write (not by the first read)
  kOpFusedWrite = 1u << 11,      ///< that write was a side effect of the op (batch_norm), not an in-place op
  kOpHiddenWrite = 1u << 12,     ///< the op writes what its schema does not announce
  kOpScalarBool = 1u << 13,      ///< a 0-d or one-element bool
  kOpOutputParent = 1u << 14,    ///< its value is returned by the model
  kOpModuleOutput = 1u << 15,    ///< its value is returned by the module call it ran in
};

/// Bits of instructions.flags.
enum InstructionFlag : std::uint32_t {
  kInstrMutates = 1u << 0,        ///< schema announces a write
  kInstrView = 1u << 1,           ///< schema announces an alias
  kInstrRandom = 1u << 2,         ///< tagged nondeterministic_seeded
  kInstrDispatched = 1u << 3,     ///< goes through the dispatcher (else the JIT registry alone)
  kInstrContainer = 1u << 4,      ///< moves elements in and out of containers: never an Op
  kInstrControl = 1u << 5,        ///< ours: If, Loop, CallMethod …
  kInstrUninitialised = 1u << 6,  ///< yields uninitialised memory
  kInstrHiddenWrites = 1u << 7,   ///< op table says it writes without announcing
  kInstrElseBlock = 1u << 8,      ///< a prim::If whose else block holds instructions
};

}  // namespace tl
