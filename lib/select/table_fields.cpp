// The fields of all tables but ops that columns.def does not have under Python TorchLens's names.
#include <algorithm>

#include "core/error.h"
#include "select/branch_fields.h"
#include "select/field_lists.h"
#include "select/op_facts.h"

namespace tl {
namespace {

using C = const FieldContext&;
using V = FieldValue&;

constexpr auto kBool = FieldType::kBool;
constexpr auto kInteger = FieldType::kInteger;
constexpr auto kReal = FieldType::kReal;
constexpr auto kDType = FieldType::kDType;
constexpr auto kString = FieldType::kString;
constexpr auto kIntegers = FieldType::kIntegers;
constexpr auto kStrings = FieldType::kStrings;

std::size_t at(std::int32_t value) { return static_cast<std::size_t>(value); }

/// The field of ops called `name`, of a given Op.
void op_field(std::string_view name, C c, std::size_t op, V v) {
  const auto* field = find_field(TableId::k_ops, name);
  TL_CHECK(field != nullptr, "a field of ops that others refer to is gone");
  field->get(c, op, v);
}

std::size_t first_op(C c, std::size_t layer) { return at(c.trace().layers.first_op[layer]); }

std::span<const std::int32_t> passes(C c, std::size_t layer) {
  const auto& layers = c.trace().layers;
  return c.trace().layer_ops.op.view().subspan(at(layers.ops_begin[layer]), at(layers.num_passes[layer]));
}

void clear_texts(V v) {
  v.kind = FieldValue::Kind::kStrings;
  v.strings.clear();
}

/// A field of ops as that of the Layer's first pass.
#define TL_OF_FIRST(name, type, unit, meaning)                                                       \
  {                                                                                                  \
    name, type, unit, meaning, [](C c, std::size_t r, V v) { op_field(name, c, first_op(c, r), v); } \
  }

constexpr Field kLayers[] = {
    {"layer_label", kString, "", "relu_1_2, input_1",
     [](C c, std::size_t r, V v) {
       v.owned = layer_label(c.trace(), LayerId{static_cast<std::uint32_t>(r)});
       v.set_owned();
     }},
    TL_OF_FIRST("func_name", kString, "", "the function as people know it: relu_, __add__"),
    TL_OF_FIRST("func_qualname", kString, "", "the operator: aten::add.Tensor"),
    TL_OF_FIRST("shape", kIntegers, "", "sizes of the output of the first pass"),
    TL_OF_FIRST("dtype", kDType, "", "element type of the output of the first pass"),
    TL_OF_FIRST("numel", kInteger, "elements", "of the output of the first pass"),
    TL_OF_FIRST("module_address", kString, "", "address of the innermost module; none at the root"),
    TL_OF_FIRST("module_type", kString, "", "class of the innermost module; none at the root"),
    TL_OF_FIRST("code_context", kString, "", "file:line:column in function"),
    TL_OF_FIRST("arguments", kString, "", "as called in the first pass"),
    TL_OF_FIRST("param_names", kStrings, "address", "parameters and constants the first pass reads"),
    TL_OF_FIRST("uses_params", kBool, "", "reads a parameter"),
    TL_OF_FIRST("num_params", kInteger, "elements", "of the parameters the first pass reads"),
    TL_OF_FIRST("is_compute", kBool, "", "operations: no input, output or buffer"),
    TL_OF_FIRST("is_input", kBool, "", "handed to the model"),
    TL_OF_FIRST("is_output", kBool, "", "returned by the model"),
    TL_OF_FIRST("is_buffer", kBool, "", "versions of a buffer"),
    TL_OF_FIRST("io_role", kString, "", "structural path of inputs and outputs: input.x, output.0"),
    {"is_recurrent", kBool, "", "has several passes",
     [](C c, std::size_t r, V v) { v.set_bool(c.trace().layers.num_passes[r] > 1); }},
    {"has_saved_activation", kBool, "", "the payload of every pass is in the recording",
     [](C c, std::size_t r, V v) {
       v.set_bool(std::ranges::all_of(passes(c, r), [&](auto op) { return c.trace().ops.payload[at(op)] >= 0; }));
     }},
    {"ops", kStrings, "label", "its passes",
     [](C c, std::size_t r, V v) {
       clear_texts(v);
       for (const auto op : passes(c, r)) append_op_label(v.strings.emplace_back(), c.trace(), at(op));
     }},
    {"activation_memory", kInteger, "bytes", "of the outputs of all passes",
     [](C c, std::size_t r, V v) {
       std::int64_t sum = 0;
       for (const auto op : passes(c, r)) {
         facts::activation_memory(TraceRow{c.trace(), at(op)}, v);
         if (__builtin_add_overflow(sum, v.integer, &sum)) sum = INT64_MAX;
       }
       v.set_integer(sum);
     }},
    {"func_duration", kReal, "seconds", "wall time of all passes",
     [](C c, std::size_t r, V v) {
       if (c.trace().op_seconds.size() < c.trace().num_ops()) return v.set_none();
       double sum = 0;
       for (const auto op : passes(c, r)) sum += static_cast<double>(c.trace().op_seconds[at(op)]);
       v.set_real(sum);
     }},
    {"flops_forward", kInteger, "FLOPs", "of all passes; none if unknown",
     [](C c, std::size_t r, V v) {
       Count sum = 0;
       for (const auto op : passes(c, r)) sum = plus(sum, c.op_costs()[at(op)].flops);
       v.set_count(sum);
     }},
};

void set_call_labels(C c, std::span<const std::int32_t> calls, V v) {
  clear_texts(v);
  for (const auto call : calls) {
    v.strings.push_back(module_call_label(c.trace(), ModuleCallId{static_cast<std::uint32_t>(call)}));
  }
}

std::span<const std::int32_t> calls_of(C c, std::size_t module) {
  const auto& index = c.calls_of_module();
  return std::span(index.child).subspan(at(index.begin[module]), at(index.begin[module + 1] - index.begin[module]));
}

constexpr Field kModules[] = {
    {"address", kString, "", "encoder.layer.0; the root is self",
     [](C c, std::size_t r, V v) { v.set_text(c.trace().strings[c.trace().modules.address[r]]); }},
    {"class_name", kString, "", "class without package: Linear",
     [](C c, std::size_t r, V v) { v.set_text(c.trace().strings[c.trace().modules.class_name[r]]); }},
    {"calls", kStrings, "address:k", "its calls",
     [](C c, std::size_t r, V v) { set_call_labels(c, calls_of(c, r), v); }},
    {"is_called", kBool, "", "was called during the run",
     [](C c, std::size_t r, V v) { v.set_bool(c.trace().modules.num_calls[r] > 0); }},
    {"is_training", kBool, "", "in training mode; none where the file does not say",
     [](C c, std::size_t r, V v) {
       const auto training = c.trace().modules.training[r];
       if (training > 1) return v.set_none();
       v.set_bool(training == 1);
     }},
    {"num_ops", kInteger, "count", "operations of all calls, those of inner modules included",
     [](C c, std::size_t r, V v) { v.set_integer(c.module_costs().modules[r].inclusive.num_ops); }},
    {"num_params", kInteger, "elements", "of the parameters below it, each tensor once",
     [](C c, std::size_t r, V v) { v.set_integer(c.module_costs().modules[r].params.inclusive.elements); }},
    {"num_params_trainable", kInteger, "elements", "of these, trainable",
     [](C c, std::size_t r, V v) { v.set_integer(c.module_costs().modules[r].params.inclusive.trainable); }},
    {"num_params_own", kInteger, "elements", "of its own parameters, without those of modules below it",
     [](C c, std::size_t r, V v) { v.set_integer(c.module_costs().modules[r].params.own.elements); }},
    {"param_memory", kInteger, "bytes", "of the parameters below it, each tensor once",
     [](C c, std::size_t r, V v) { v.set_integer(c.module_costs().modules[r].params.inclusive.bytes); }},
    {"flops_forward", kInteger, "FLOPs", "of all calls; a lower bound where uncounted_calls > 0",
     [](C c, std::size_t r, V v) { v.set_integer(c.module_costs().modules[r].inclusive.flops); }},
    {"macs_forward", kInteger, "MACs", "of all calls; a lower bound where uncounted_calls > 0",
     [](C c, std::size_t r, V v) { v.set_integer(c.module_costs().modules[r].inclusive.macs); }},
    {"uncounted_calls", kInteger, "count", "operator calls without a count of FLOPs",
     [](C c, std::size_t r, V v) { v.set_integer(c.module_costs().modules[r].inclusive.uncounted_calls); }},
    {"activation_memory", kInteger, "bytes", "of the outputs of its operations, those of inner modules included",
     [](C c, std::size_t r, V v) { v.set_integer(c.module_costs().modules[r].inclusive.activation_bytes); }},
    {"forward_duration", kReal, "seconds", "wall time of all calls, inclusive",
     [](C c, std::size_t r, V v) { v.set_real(c.module_costs().modules[r].inclusive.seconds); }},
    {"exclusive_duration", kReal, "seconds", "wall time of its own operations, without inner modules",
     [](C c, std::size_t r, V v) { v.set_real(c.module_costs().modules[r].exclusive.seconds); }},
};

constexpr Field kModuleCalls[] = {
    {"call_label", kString, "", "block:2",
     [](C c, std::size_t r, V v) {
       v.owned = module_call_label(c.trace(), ModuleCallId{static_cast<std::uint32_t>(r)});
       v.set_owned();
     }},
    {"class_name", kString, "", "class of the module",
     [](C c, std::size_t r, V v) {
       v.set_text(c.trace().strings[c.trace().modules.class_name[at(c.trace().module_calls.module[r])]]);
     }},
    {"num_ops", kInteger, "count", "operations, those of inner calls included",
     [](C c, std::size_t r, V v) { v.set_integer(c.module_costs().calls[r].num_ops); }},
    {"flops_forward", kInteger, "FLOPs", "inclusive; a lower bound where some call has no count",
     [](C c, std::size_t r, V v) { v.set_integer(c.module_costs().calls[r].flops); }},
    {"macs_forward", kInteger, "MACs", "inclusive; a lower bound where some call has no count",
     [](C c, std::size_t r, V v) { v.set_integer(c.module_costs().calls[r].macs); }},
    {"forward_duration", kReal, "seconds", "wall time, inclusive",
     [](C c, std::size_t r, V v) {
       if (r >= c.trace().module_call_seconds.size()) return v.set_none();
       v.set_real(c.trace().module_call_seconds[r]);
     }},
};

std::span<const std::int32_t> uses_of(C c, std::size_t param) {
  const auto& index = c.uses_of_param();
  return std::span(index.child).subspan(at(index.begin[param]), at(index.begin[param + 1] - index.begin[param]));
}

constexpr Field kParams[] = {
    {"address", kString, "", "fc.weight; constants: CONSTANTS.c0",
     [](C c, std::size_t r, V v) { v.set_text(c.trace().strings[c.trace().params.address[r]]); }},
    {"num_params", kInteger, "elements", "of the tensor",
     [](C c, std::size_t r, V v) { v.set_integer(element_count(c.trace().shapes[c.trace().params.shape[r]])); }},
    {"is_trainable", kBool, "", "requires_grad in the file",
     [](C c, std::size_t r, V v) { v.set_bool(c.trace().params.trainable[r] == 1); }},
    {"is_frozen", kBool, "", "a parameter that is not trainable",
     [](C c, std::size_t r, V v) {
       v.set_bool(c.trace().params.trainable[r] != 1 &&
                  static_cast<ParamKind>(c.trace().params.kind[r]) != ParamKind::kConstant);
     }},
    {"is_constant", kBool, "", "a constant tensor of the program, no parameter",
     [](C c, std::size_t r, V v) {
       v.set_bool(static_cast<ParamKind>(c.trace().params.kind[r]) == ParamKind::kConstant);
     }},
    {"is_quantized", kBool, "", "its elements are quantised, or packed inside a module",
     [](C c, std::size_t r, V v) {
       v.set_bool(is_quantised(static_cast<DType>(c.trace().params.dtype[r])) ||
                  static_cast<ParamKind>(c.trace().params.kind[r]) == ParamKind::kPacked);
     }},
    {"is_used", kBool, "", "some Op reads it", [](C c, std::size_t r, V v) { v.set_bool(!uses_of(c, r).empty()); }},
    {"used_by_ops", kStrings, "label", "Ops that read it",
     [](C c, std::size_t r, V v) {
       clear_texts(v);
       for (const auto use : uses_of(c, r)) {
         append_op_label(v.strings.emplace_back(), c.trace(), at(c.trace().param_uses.op[at(use)]));
       }
     }},
    {"used_by_layers", kStrings, "label", "Layers that read it",
     [](C c, std::size_t r, V v) {
       clear_texts(v);
       for (const auto use : uses_of(c, r)) {
         const auto layer = c.trace().ops.layer[at(c.trace().param_uses.op[at(use)])];
         if (layer < 0) continue;
         auto label = layer_label(c.trace(), LayerId{static_cast<std::uint32_t>(layer)});
         if (std::ranges::find(v.strings, label) == v.strings.end()) v.strings.push_back(std::move(label));
       }
     }},
    {"param_memory", kInteger, "bytes", "of its elements",
     [](C c, std::size_t r, V v) { v.set_integer(c.trace().params.bytes[r]); }},
};

constexpr Field kBuffers[] = {
    {"address", kString, "", "bn.running_mean",
     [](C c, std::size_t r, V v) { v.set_text(c.trace().strings[c.trace().buffers.address[r]]); }},
    {"is_used", kBool, "", "was read or written",
     [](C c, std::size_t r, V v) { v.set_bool(c.trace().buffers.num_versions[r] > 0); }},
    {"is_written", kBool, "", "was written during the run",
     [](C c, std::size_t r, V v) {
       const auto last = c.trace().buffers.last_op[r];
       v.set_bool(last >= 0 && at(last) < c.trace().num_ops() && (c.trace().ops.flags[at(last)] & kOpBufferWrite) != 0);
     }},
};

/// The Op an edge belongs to.
std::size_t op_of_edge(C c, std::size_t edge) {
  const auto begins = c.trace().ops.edge_begin.view();
  return static_cast<std::size_t>(std::ranges::upper_bound(begins, static_cast<std::int32_t>(edge)) - begins.begin()) -
         1;
}

constexpr Field kEdges[] = {
    {"child", kString, "label", "the Op that read it",
     [](C c, std::size_t r, V v) {
       v.owned.clear();
       append_op_label(v.owned, c.trace(), op_of_edge(c, r));
       v.set_owned();
     }},
};

constexpr Field kPayloads[] = {
    {"payload_key", kString, "", "its name in tensors-*.safetensors",
     [](C c, std::size_t r, V v) {
       v.owned.clear();
       const auto op = at(c.trace().payloads.first_op[r]);
       append_op_label(v.owned, c.trace(), op);
       v.set_owned();
     }},
};

std::string_view func_of(C c, std::int32_t instruction) {
  return instruction < 0 ? std::string_view() : c.trace().strings[c.trace().instructions.op_name[at(instruction)]];
}

constexpr Field kFlow[] = {
    {"op_name", kString, "", "the operator that computed it",
     [](C c, std::size_t r, V v) { v.set_text(func_of(c, c.trace().flow.instruction[r])); }},
};

constexpr Field kLoops[] = {
    {"op_name", kString, "", "the loop's operator",
     [](C c, std::size_t r, V v) { v.set_text(func_of(c, c.trace().loops.instruction[r])); }},
};

}  // namespace

std::span<const Field> named_fields(TableId table) {
  switch (table) {
    case TableId::k_ops:
      return op_fields();
    case TableId::k_layers:
      return kLayers;
    case TableId::k_modules:
      return kModules;
    case TableId::k_module_calls:
      return kModuleCalls;
    case TableId::k_params:
      return kParams;
    case TableId::k_buffers:
      return kBuffers;
    case TableId::k_edges:
      return kEdges;
    case TableId::k_payloads:
      return kPayloads;
    case TableId::k_flow:
      return kFlow;
    case TableId::k_loops:
      return kLoops;
    case TableId::k_conditionals:
      return conditional_fields();
    case TableId::k_conditional_arms:
      return conditional_arm_fields();
    case TableId::k_branches:
      return branch_fields();
    default:
      return {};
  }
}

std::span<const std::string_view> default_columns(TableId table) {
  static constexpr std::string_view kOfOps[] = {"label", "func_name", "module", "shape", "dtype", "parents"};
  static constexpr std::string_view kOfLayers[] = {"layer_label",    "func_name", "num_passes",
                                                   "module_address", "shape",     "dtype"};
  static constexpr std::string_view kOfModules[] = {"address", "class_name", "num_calls", "num_ops", "num_params"};
  static constexpr std::string_view kOfCalls[] = {"call_label", "class_name", "parent_call", "num_ops", "output_op"};
  static constexpr std::string_view kOfParams[] = {"address",    "shape",        "dtype",
                                                   "num_params", "is_trainable", "used_by_layers"};
  static constexpr std::string_view kOfBuffers[] = {"address", "shape", "dtype", "num_versions", "last_op"};
  static constexpr std::string_view kOfEdges[] = {"parent", "child", "arg", "sub"};
  static constexpr std::string_view kOfPayloads[] = {"payload_key", "encoding", "shape", "dtype", "bytes"};
  static constexpr std::string_view kOfConditionals[] = {"label", "kind", "outcome", "arms", "module", "source_line"};
  static constexpr std::string_view kOfArms[] = {"conditional", "arm", "test", "evaluated", "fired", "test_op"};
  static constexpr std::string_view kOfBranches[] = {"conditional", "conditional_arm", "test_op", "first_op", "end_op"};
  static constexpr std::string_view kOfBools[] = {"op", "context", "value"};
  static constexpr std::string_view kOfFlow[] = {"op_name", "before_op", "tag", "value"};
  switch (table) {
    case TableId::k_ops:
      return kOfOps;
    case TableId::k_layers:
      return kOfLayers;
    case TableId::k_modules:
      return kOfModules;
    case TableId::k_module_calls:
      return kOfCalls;
    case TableId::k_params:
      return kOfParams;
    case TableId::k_buffers:
      return kOfBuffers;
    case TableId::k_edges:
      return kOfEdges;
    case TableId::k_payloads:
      return kOfPayloads;
    case TableId::k_conditionals:
      return kOfConditionals;
    case TableId::k_conditional_arms:
      return kOfArms;
    case TableId::k_branches:
      return kOfBranches;
    case TableId::k_bools:
      return kOfBools;
    case TableId::k_flow:
      return kOfFlow;
    default:
      return {};
  }
}

}  // namespace tl
