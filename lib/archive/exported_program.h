#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/host_tensor.h"

// A program that torch.export.save wrote, as plain data: names resolved to indices, every reference checked. The terms
// are those of torch/_export/serde/schema.py (schema major 8); nothing here needs LibTorch.

namespace tl {

struct ExportedGraph;

/// Index into ExportedGraph::values.
struct ExportedRef {
  std::uint32_t value = 0;
};
/// A dtype as serde numbers it (BYTE = 1 … UINT64 = 35), already translated.
struct ExportedDType {
  DType dtype = DType::kNone;
};
/// As serde numbers them: 1 contiguous, 2 channels_last, 3 channels_last_3d, 4 preserve.
enum class ExportedMemoryFormat : std::uint8_t {
  kContiguous = 1,
  kChannelsLast = 2,
  kChannelsLast3d = 3,
  kPreserve = 4
};
/// As serde numbers them.
enum class ExportedLayout : std::uint8_t {
  kSparseCoo = 1,
  kSparseCsr = 2,
  kSparseCsc = 3,
  kSparseBsr = 4,
  kSparseBsc = 5,
  kMkldnn = 6,
  kStrided = 7,
};
struct ExportedDevice {
  std::string type;  ///< cpu, cuda …
  std::optional<std::int64_t> index;
};
/// The name of an operator handed over as a value (as_operator), `torch.ops.aten.add.Tensor` or `_operator.add`.
struct ExportedOperatorName {
  std::string name;
};

struct ExportedList;
struct ExportedDict;

/// One argument of a node, or one output of a node or graph. Lists of every wire type are kList; what an element is
/// follows from it: a value of the graph (tensors, SymInts, SymFloats, SymBools, custom objects: ExportedRef), a
/// number, None, a string. "Infinity", "-Infinity" and "NaN" strings in float positions are doubles already.
struct ExportedArgument {
  std::variant<std::monostate,  // None
               ExportedRef, bool, std::int64_t, double, std::complex<double>, std::string, ExportedDType,
               ExportedMemoryFormat, ExportedLayout, ExportedDevice, ExportedOperatorName,
               std::shared_ptr<const ExportedGraph>, std::shared_ptr<const ExportedList>,
               std::shared_ptr<const ExportedDict>>
      data;

  bool is_none() const { return std::holds_alternative<std::monostate>(data); }
  /// nullptr if the argument is of another kind.
  const ExportedRef* ref() const { return std::get_if<ExportedRef>(&data); }
  const ExportedList* list() const;
  const ExportedDict* dict() const;
  const ExportedGraph* graph() const;
};
struct ExportedList {
  std::vector<ExportedArgument> items;
};
/// as_string_to_argument, in the file's order.
struct ExportedDict {
  std::vector<std::pair<std::string, ExportedArgument>> items;
};

/// A size, stride or offset: a number, or an expression over symbols (`2*s27 + 1`) with the value it had for the
/// example where the file tells it.
struct ExportedSymInt {
  std::string expression;             ///< empty for a plain number
  std::optional<std::int64_t> value;  ///< the number, or the hint
  bool is_number() const { return expression.empty(); }
};

/// What the file states of a tensor.
struct ExportedTensorMeta {
  DType dtype = DType::kNone;
  std::vector<ExportedSymInt> sizes;
  std::vector<ExportedSymInt> strides;  ///< in elements, as many as sizes (none for sparse layouts)
  ExportedSymInt offset;                ///< in elements
  bool requires_grad = false;
  ExportedDevice device;
  ExportedLayout layout = ExportedLayout::kStrided;
};

/// A value of a graph: defined once, by an input of the graph or an output of a node, before it is used.
struct ExportedGraphValue {
  enum class Kind : std::uint8_t { kTensor, kSymInt, kSymFloat, kSymBool, kCustomObject, kToken };
  std::string name;
  Kind kind = Kind::kTensor;
  std::int32_t meta = -1;      ///< tensors: index into ExportedGraph::metas; -1 where the file has none
  std::string expression;      ///< symbolic scalars: the expression
  std::string class_name;      ///< custom objects: class_fqn
  std::int32_t producer = -1;  ///< index into nodes; -1 for inputs of the graph
};

struct ExportedNamedArgument {
  std::string name;  ///< of the operator's schema; empty for higher-order operators and Python functions
  ExportedArgument argument;
  bool keyword = false;
};

struct ExportedNode {
  std::string target;  ///< as written: torch.ops.aten.relu.default, _operator.add, torch.ops.higher_order.cond
  std::string name;    ///< of the fx node; empty in files of torch before 2.9
  std::vector<ExportedNamedArgument> inputs;
  /// Each ExportedRef in them defines a value. None where an output is unused or not a value.
  std::vector<ExportedArgument> outputs;
  std::int32_t modules = -1;                 ///< index into ExportedProgram::module_stacks; -1 where metadata has none
  std::int32_t source = -1;                  ///< index into ExportedProgram::source_stacks; -1 where metadata has none
  std::string torch_fn;                      ///< `linear_1;builtin_function_or_method.linear`, or empty
  std::optional<bool> single_tensor_return;  ///< is_hop_single_tensor_return
  std::vector<std::pair<std::string, std::string>> metadata;  ///< what else metadata holds, verbatim (custom …)
};

struct ExportedGraph {
  std::string name;  ///< of a subgraph: true_graph_0; empty for the program's
  std::vector<ExportedGraphValue> values;
  std::vector<ExportedTensorMeta> metas;
  std::vector<ExportedArgument> inputs;  ///< refs (each defines a value) or constants
  std::vector<ExportedArgument> outputs;
  std::vector<ExportedNode> nodes;  ///< in order of execution
  bool single_tensor_return = false;
};

/// One module of a node's nn_module_stack, outermost first.
struct ExportedModuleFrame {
  std::string key;         ///< as written: `L__self___blocks_0`, `blocks.0@1`, an object id in strict exports
  std::string path;        ///< address of the module: `blocks.0`; empty for the root; without `L['self'].` and `@k`
  std::string class_name;  ///< torch.nn.modules.linear.Linear
  int call = 0;            ///< k of `@k` in the key: the k-th further call of the module; 0 where there is none
};
using ExportedModuleStack = std::vector<ExportedModuleFrame>;

/// One line of a stack trace, outermost first.
struct ExportedSourceFrame {
  std::string file;
  std::uint32_t line = 0;  ///< from 1
  std::string function;
  std::string code;              ///< the source line, stripped
  std::uint32_t column = 0;      ///< from 1; 0 where the file has none
  std::uint32_t column_end = 0;  ///< past the last, from 1; 0 where the file has none
};
using ExportedSourceStack = std::vector<ExportedSourceFrame>;

struct ExportedInputSpec {
  enum class Kind : std::uint8_t {
    kUserInput,
    kParameter,
    kBuffer,
    kTensorConstant,
    kCustomObject,
    kToken,
    kConstantInput
  };
  Kind kind = Kind::kUserInput;
  ExportedArgument argument;  ///< as in graph.inputs at the same position; kConstantInput: the value that must be given
  std::string target;         ///< parameter, buffer, constant or object name; kConstantInput: the input's name
  bool persistent = true;     ///< buffers
};
struct ExportedOutputSpec {
  enum class Kind : std::uint8_t {
    kUserOutput,
    kLoss,
    kBufferMutation,
    kParameterMutation,
    kUserInputMutation,
    kGradientToParameter,
    kGradientToUserInput,
    kToken,
  };
  Kind kind = Kind::kUserOutput;
  ExportedArgument argument;  ///< as in graph.outputs at the same position
  std::string target;         ///< what is mutated: buffer or parameter name, or name of the user input's value
};

/// How nested inputs or outputs are flattened (a pytree's TreeSpec).
struct PytreeSpec {
  enum class Kind : std::uint8_t {
    kLeaf,
    kNone,  ///< some versions write None as a node without children
    kTuple,
    kList,
    kDict,        ///< `keys` name the children, in insertion order
    kNamedTuple,  ///< `keys` are the field names where known
    kObject,      ///< a dataclass, ModelOutput or other registered class: `keys` name the children where known
  };
  Kind kind = Kind::kLeaf;
  std::string type;               ///< builtins.tuple, collections.OrderedDict, zoo_models.DCOut …
  std::vector<std::string> keys;  ///< as text: `x`, `3`
  std::vector<PytreeSpec> children;
  std::size_t num_leaves = 0;
};

/// One entry of module_call_graph.
struct ExportedModuleCall {
  std::string fqn;  ///< with `@k` for further calls
  bool has_signature = false;
  std::vector<ExportedArgument> inputs;  ///< refs into the program's graph
  std::vector<ExportedArgument> outputs;
  PytreeSpec in_spec;  ///< of (args, kwargs)
  PytreeSpec out_spec;
  std::vector<std::string> argument_names;  ///< forward_arg_names, empty where the file has none
};

/// Allowed values of a symbol.
struct ExportedRange {
  std::string symbol;
  std::optional<std::int64_t> min;  ///< nullopt: unbounded
  std::optional<std::int64_t> max;
};

/// A parameter, buffer, tensor constant or custom object of the archive.
struct ExportedPayload {
  std::string name;                ///< fully qualified: blocks.0.weight; for constants the constant's name
  std::string entry;               ///< archive entry; payloads with the same entry share their storage
  std::uint64_t entry_offset = 0;  ///< bytes from the start of the file to the storage; 0 where it is not mapped
  bool is_parameter = false;
  bool is_object = false;   ///< a custom object or another thing that only a pickle can hold
  HostTensor tensor;        ///< unless is_object; its storage lies in the mapped file where it can
  ExportedTensorMeta meta;  ///< unless is_object
  std::string refusal;      ///< non-empty: why this payload cannot be used (a pickled tensor subclass …)
};

/// One program of a file.
struct ExportedProgram {
  std::string model_name;  ///< in the archive: `model`
  int schema_major = 0;
  int schema_minor = 0;
  std::string torch_version;  ///< that wrote it: 2.13.0+cpu, `<=2.4` where the file has none
  std::string dialect;        ///< first of `verifiers`: TRAINING, ATEN, EDGE …
  std::vector<std::pair<std::string, std::int64_t>> opset_versions;
  ExportedGraph graph;
  std::vector<ExportedInputSpec> input_specs;    ///< as many as graph.inputs
  std::vector<ExportedOutputSpec> output_specs;  ///< as many as graph.outputs
  std::vector<ExportedModuleCall> module_calls;
  std::vector<ExportedRange> ranges;
  std::vector<std::string> guards;  ///< guards_code, Python expressions
  std::vector<ExportedModuleStack> module_stacks;
  std::vector<ExportedSourceStack> source_stacks;
  std::vector<ExportedPayload> payloads;

  /// nullptr if there is none of that name.
  const ExportedPayload* find_payload(const std::string& name) const;
  /// The entry of module_calls for the root (fqn ""); nullptr if there is none or it has no signature.
  const ExportedModuleCall* root_call() const;
};

}  // namespace tl
