// The fields of ops.
#include <algorithm>

#include "select/branch_fields.h"
#include "select/field_lists.h"
#include "select/op_facts.h"
#include "trace/finiteness.h"
#include "trace/saved_value.h"

namespace tl {
namespace {

using C = const FieldContext&;
using V = FieldValue&;

std::size_t row_of(std::int32_t value) { return static_cast<std::size_t>(value); }
OpId op_id(std::size_t row) { return OpId{static_cast<std::uint32_t>(row)}; }

void set_labels(C c, V v, std::span<const std::int32_t> ops) {
  v.kind = FieldValue::Kind::kStrings;
  v.strings.clear();
  for (const auto op : ops) append_op_label(v.strings.emplace_back(), c.trace(), row_of(op));
}

std::vector<std::int32_t> parent_rows(C c, std::size_t row) {
  std::vector<std::int32_t> result;
  for (const auto parent : parents(c.trace(), op_id(row))) result.push_back(static_cast<std::int32_t>(parent.value));
  return result;
}

/// Distinct, in capture order.
std::vector<std::int32_t> child_rows(C c, std::size_t row) {
  const auto& index = c.children();
  std::vector<std::int32_t> result(index.child.begin() + index.begin[row], index.child.begin() + index.begin[row + 1]);
  result.erase(std::ranges::unique(result).begin(), result.end());
  return result;
}

/// The Ops that `outward` leads to from what `inward` leads to, without `row` itself.
template <typename Inward, typename Outward>
std::vector<std::int32_t> around(C c, std::size_t row, Inward inward, Outward outward) {
  std::vector<std::int32_t> result;
  for (const auto middle : inward(c, row)) {
    const auto next = outward(c, row_of(middle));
    result.insert(result.end(), next.begin(), next.end());
  }
  std::ranges::sort(result);
  result.erase(std::ranges::unique(result).begin(), result.end());
  std::erase(result, static_cast<std::int32_t>(row));
  return result;
}

/// Parameters the Op reads, each once.
std::vector<std::size_t> params_of(C c, std::size_t row) {
  const auto& first = c.first_param_use();
  std::vector<std::size_t> result;
  for (auto use = first[row]; use < first[row + 1]; ++use) {
    const auto param = row_of(c.trace().param_uses.param[use]);
    if (std::ranges::find(result, param) == result.end()) result.push_back(param);
  }
  return result;
}

/// Sum over the parameters (no constants) of the Op for which `holds`.
template <typename Size, typename Holds>
void set_param_sum(C c, std::size_t row, V v, Size size, Holds holds) {
  std::int64_t sum = 0;
  for (const auto param : params_of(c, row)) {
    if (static_cast<ParamKind>(c.trace().params.kind[param]) == ParamKind::kConstant || !holds(param)) continue;
    if (__builtin_add_overflow(sum, size(param), &sum)) sum = INT64_MAX;
  }
  v.set_integer(sum);
}

template <typename Holds>
void set_num_params(C c, std::size_t row, V v, Holds holds) {
  const auto size = [&](std::size_t param) { return element_count(c.trace().shapes[c.trace().params.shape[param]]); };
  set_param_sum(c, row, v, size, holds);
}

void set_modules(C c, std::size_t row, V v) {
  v.kind = FieldValue::Kind::kStrings;
  v.strings.clear();
  for (const auto call : module_stack(c.trace(), op_id(row))) v.strings.push_back(module_call_label(c.trace(), call));
}

std::int32_t passes_of(C c, std::size_t row) {
  const auto layer = c.trace().ops.layer[row];
  return layer < 0 ? 1 : c.trace().layers.num_passes[row_of(layer)];
}

void set_passes(C c, std::size_t row, V v) {
  const auto layer = c.trace().ops.layer[row];
  if (layer < 0) return set_labels(c, v, {});
  const auto begin = row_of(c.trace().layers.ops_begin[row_of(layer)]);
  set_labels(c, v, c.trace().layer_ops.op.view().subspan(begin, row_of(passes_of(c, row))));
}

void set_payload_key(C c, std::size_t row, V v) {
  const auto payload = c.trace().ops.payload[row];
  if (payload < 0 || row_of(payload) >= c.trace().payloads.first_op.size()) return v.set_none();
  v.owned.clear();
  append_op_label(v.owned, c.trace(), row_of(c.trace().payloads.first_op[row_of(payload)]));
  v.set_owned();
}

void set_evidence(C c, std::size_t row, V v) { v.set_text(evidence_name(c.trace(), op_id(row))); }

void set_has_nonfinite(C c, std::size_t row, V v) {
  const auto known = finiteness_of(c.trace().ops.flags[row]);
  if (known == Finiteness::kUnknown) return v.set_none();
  v.set_bool(known == Finiteness::kNonFinite);
}

constexpr auto kBool = FieldType::kBool;
constexpr auto kInteger = FieldType::kInteger;
constexpr auto kReal = FieldType::kReal;
constexpr auto kString = FieldType::kString;
constexpr auto kStrings = FieldType::kStrings;

/// A fact of op_facts.h.
template <void (*kGet)(const TraceRow&, FieldValue&)>
void fact(C c, std::size_t row, V v) {
  kGet(TraceRow{c.trace(), row}, v);
}

template <std::uint32_t kFlag>
constexpr auto flag = fact<facts::has_flag<kFlag>::get>;
template <OpKind kWanted>
constexpr auto kind = fact<facts::is_kind<kWanted>::get>;

constexpr Field kNames[] = {
    {"label", kString, "", "the Op: relu_1_2, with :pass where its Layer has several",
     [](C c, std::size_t r, V v) { v.owned.clear(), append_op_label(v.owned, c.trace(), r), v.set_owned(); }},
    {"layer_label", kString, "", "the Layer the Op is a pass of",
     [](C c, std::size_t r, V v) {
       const auto layer = c.trace().ops.layer[r];
       if (layer < 0) return v.set_none();
       v.owned = layer_label(c.trace(), LayerId{static_cast<std::uint32_t>(layer)});
       v.set_owned();
     }},
    {"raw_label", kString, "", "label during the run: relu_1_4_raw",
     [](C c, std::size_t r, V v) { v.owned = raw_label(c.trace(), op_id(r)), v.set_owned(); }},
    {"site_key", kString, "", "place in the model, independent of grouping: s1|cell/cell.i2h|linear||1",
     [](C c, std::size_t r, V v) {
       const auto& key = c.site_keys()[r];
       if (key.empty()) return v.set_none();
       v.set_text(key);
     }},
    {"ordinal_index", kInteger, "from 0", "position in the list of Ops",
     [](C, std::size_t r, V v) { v.set_integer(static_cast<std::int64_t>(r)); }},
    {"layer_type", kString, "", "relu, linear, input, output, buffer …", fact<facts::layer_type>},
    {"func_name", kString, "", "the function as people know it: relu_, __add__", fact<facts::func_name>},
    {"func_qualname", kString, "", "the operator: aten::add.Tensor", fact<facts::func_qualname>},
    {"num_passes", kInteger, "count", "Ops of the Layer",
     [](C c, std::size_t r, V v) { v.set_integer(passes_of(c, r)); }},
    {"recurrent_ops", kStrings, "label", "all passes of the Layer", set_passes},
    {"module", kString, "address:k", "innermost module call; none at the root", fact<facts::module>},
    {"modules", kStrings, "address:k", "module calls around the Op, outermost first", set_modules},
    {"module_address", kString, "", "address of the innermost module; none at the root", fact<facts::module_address>},
    {"module_type", kString, "", "class of the innermost module; none at the root", fact<facts::module_type>},
    {"dtype", FieldType::kDType, "", "element type of the output", fact<facts::dtype>},
    {"shape", FieldType::kIntegers, "", "sizes of the output", fact<facts::shape>},
    {"device", kString, "", "cpu, cuda, meta or other", fact<facts::device>},
    {"ndim", kInteger, "count", "dimensions of the output", fact<facts::ndim>},
    {"numel", kInteger, "elements", "of the output", fact<facts::numel>},
    {"activation_memory", kInteger, "bytes", "of the output's elements", fact<facts::activation_memory>},
    {"has_saved_activation", kBool, "", "its payload is in the recording",
     [](C c, std::size_t r, V v) { v.set_bool(c.trace().ops.payload[r] >= 0); }},
    {"evidence", kString, "", "what the recording has of its value: full, sampled, statistics, shape", set_evidence},
    {"payload_key", kString, "", "name of its payload in tensors-*.safetensors; none if not saved", set_payload_key},
    {"func_duration", kReal, "seconds", "wall time of the call; on slot 0",
     [](C c, std::size_t r, V v) {
       if (c.trace().ops.instruction[r] < 0 || r >= c.trace().op_seconds.size()) return v.set_none();
       v.set_real(static_cast<double>(c.trace().op_seconds[r]));
     }},
    {"code_context", kString, "", "file:line:column in function", fact<facts::code_context>},
    {"arguments", kString, "", "as called: tensors %k, run-time scalars $k, constants as literals",
     fact<facts::arguments>},
    {"var_names", kString, "", "names of the outputs in the source or the exported graph", fact<facts::var_names>},
    {"parents", kStrings, "label", "Ops whose outputs it reads",
     [](C c, std::size_t r, V v) { set_labels(c, v, parent_rows(c, r)); }},
    {"children", kStrings, "label", "Ops that read its output",
     [](C c, std::size_t r, V v) { set_labels(c, v, child_rows(c, r)); }},
    {"siblings", kStrings, "label", "other Ops that read an output it reads",
     [](C c, std::size_t r, V v) { set_labels(c, v, around(c, r, parent_rows, child_rows)); }},
    {"co_parents", kStrings, "label", "other Ops whose outputs are read together with its own",
     [](C c, std::size_t r, V v) { set_labels(c, v, around(c, r, child_rows, parent_rows)); }},
    {"param_names", kStrings, "address", "parameters and constants it reads",
     [](C c, std::size_t r, V v) {
       v.kind = FieldValue::Kind::kStrings;
       v.strings.clear();
       for (const auto param : params_of(c, r))
         v.strings.emplace_back(c.trace().strings[c.trace().params.address[param]]);
     }},
    {"uses_params", kBool, "", "reads a parameter",
     [](C c, std::size_t r, V v) {
       v.set_bool(std::ranges::any_of(params_of(c, r), [&](std::size_t param) {
         return static_cast<ParamKind>(c.trace().params.kind[param]) != ParamKind::kConstant;
       }));
     }},
    {"num_params", kInteger, "elements", "of the parameters it reads",
     [](C c, std::size_t r, V v) { set_num_params(c, r, v, [](std::size_t) { return true; }); }},
    {"num_params_trainable", kInteger, "elements", "of these, trainable",
     [](C c, std::size_t r, V v) {
       set_num_params(c, r, v, [&](std::size_t param) { return c.trace().params.trainable[param] == 1; });
     }},
    {"num_params_frozen", kInteger, "elements", "of these, not trainable",
     [](C c, std::size_t r, V v) {
       set_num_params(c, r, v, [&](std::size_t param) { return c.trace().params.trainable[param] != 1; });
     }},
    {"param_memory", kInteger, "bytes", "of the parameters it reads",
     [](C c, std::size_t r, V v) {
       const auto size = [&](std::size_t param) { return c.trace().params.bytes[param]; };
       set_param_sum(c, r, v, size, [](std::size_t) { return true; });
     }},
    {"flops_forward", kInteger, "FLOPs", "of the call, on slot 0; a multiply-add is two; none if unknown",
     [](C c, std::size_t r, V v) { v.set_count(c.op_costs()[r].flops); }},
    {"macs_forward", kInteger, "MACs", "multiply-adds of the call, on slot 0; none if unknown",
     [](C c, std::size_t r, V v) { v.set_count(c.op_costs()[r].macs); }},
    {"bytes_read", kInteger, "bytes", "of the distinct tensors it was given; none for views",
     [](C c, std::size_t r, V v) { v.set_integer(c.op_costs()[r].bytes_read); }},
    {"bytes_written", kInteger, "bytes", "of its output; none for views and uninitialised memory",
     [](C c, std::size_t r, V v) { v.set_integer(c.op_costs()[r].bytes_written); }},
    {"arithmetic_intensity", kReal, "FLOPs a byte",
     "flops_forward over bytes read and written; none if either is unknown",
     [](C c, std::size_t r, V v) {
       const auto& cost = c.op_costs()[r];
       const auto bytes = static_cast<double>(cost.bytes_read) + static_cast<double>(cost.bytes_written);
       if (!cost.flops || bytes == 0) return v.set_none();
       v.set_real(static_cast<double>(*cost.flops) / bytes);
     }},
    {"is_compute", kBool, "", "an operation: no input, output or buffer", kind<OpKind::kOperation>},
    {"is_input", kBool, "", "handed to the model", kind<OpKind::kInput>},
    {"is_output", kBool, "", "returned by the model", kind<OpKind::kOutput>},
    {"is_buffer", kBool, "", "a version of a buffer", kind<OpKind::kBuffer>},
    {"is_recurrent", kBool, "", "its Layer has several passes",
     [](C c, std::size_t r, V v) { v.set_bool(passes_of(c, r) > 1); }},
    {"io_role", kString, "", "structural path of inputs and outputs: input.x, output.0", fact<facts::io_role>},
    {"in_multi_output", kBool, "", "the call has several outputs", fact<facts::in_multi_output>},
    {"multi_output_index", kInteger, "from 0", "output slot of a call with several; none otherwise",
     fact<facts::multi_output_index>},
    {"is_inplace", kBool, "", "announced a write to the argument it returned", flag<kOpInPlace>},
    {"is_view", kBool, "", "shares an argument's storage", flag<kOpView>},
    {"is_random", kBool, "", "drew random numbers", flag<kOpRandom>},
    {"is_uninitialised", kBool, "", "yields uninitialised memory (empty)", flag<kOpUninitialised>},
    {"has_nonfinite", kBool, "", "its value holds NaN or Inf; none where that was not looked at", set_has_nonfinite},
    {"is_internal_source", kBool, "", "has no parents and is no input", flag<kOpInternalSource>},
    {"is_internal_sink", kBool, "", "has no children and is no output", flag<kOpInternalSink>},
    {"is_output_parent", kBool, "", "its value is returned by the model", flag<kOpOutputParent>},
    {"is_module_output", kBool, "", "its value is returned by the module call it ran in", flag<kOpModuleOutput>},
    {"is_output_ancestor", kBool, "", "some output hangs on it", flag<kOpOutputAncestor>},
    {"is_input_descendant", kBool, "", "hangs on some input", flag<kOpInputDescendant>},
    {"is_scalar_bool", kBool, "", "one bool", flag<kOpScalarBool>},
    {"bool_value", kBool, "", "the answer when the program first asked for its truth value", set_bool_value},
    {"conditional_context_kind", kString, "", "what asked first: if_test, elif_test, ifexp, while, assert, bool_cast",
     set_bool_context},
    {"conditional_branch_stack", kStrings, "", "the arms it stands in, outermost first: cond_gt_1_2:then",
     set_branch_stack},
    {"conditional_depth", kInteger, "count", "arms it stands in", set_conditional_depth},
};

}  // namespace

std::span<const Field> op_fields() { return kNames; }

}  // namespace tl
