#include "record.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "analysis/summary.h"
#include "branch_record.h"
#include "core/text.h"
#include "json_output.h"
#include "payload_glance.h"
#include "select/row_links.h"
#include "text_format.h"
#include "tlspec/stats_jsonl.h"
#include "trace/saved_value.h"

namespace tl::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxPassesShown = 20;

struct FlagName {
  OpFlag flag;
  const char* name;
};
constexpr FlagName kFlagNames[] = {
    {kOpInPlace, "is_inplace"},
    {kOpView, "is_view"},
    {kOpUninitialised, "uninitialised"},
    {kOpInternalSource, "is_internal_source"},
    {kOpInternalSink, "is_internal_sink"},
    {kOpRandom, "is_random"},
    {kOpNonFinite, "has_nonfinite"},
    {kOpBufferWrite, "is_buffer_write"},
    {kOpHiddenWrite, "hidden_write"},
    {kOpOutputParent, "is_output_parent"},
    {kOpModuleOutput, "is_module_output"},
    {kOpScalarBool, "is_scalar_bool"},
};

class Recorder {
 public:
  explicit Recorder(const Trace& trace) : trace_(trace) {}

  Json op(OpId id) const {
    Json record;
    const auto& ops = trace_.ops;
    const auto at = id.index();
    record["record"] = "op";
    record["label"] = op_label(trace_, id);
    if (ops.layer[at] >= 0)
      record["layer_label"] = layer_label(trace_, LayerId{static_cast<std::uint32_t>(ops.layer[at])});
    record["raw_label"] = raw_label(trace_, id);
    record["pass_index"] = ops.pass_index[at];
    if (ops.layer[at] >= 0) record["num_passes"] = trace_.layers.num_passes[row(ops.layer[at])];
    add_call(record, id);
    add_value(record, id);
    add_graph(record, id);
    add_place(record, id);
    return record;
  }

  Json layer(LayerId id) const {
    const auto passes = trace_.layers.num_passes[id.index()];
    const auto begin = row(trace_.layers.ops_begin[id.index()]);
    const OpId first{static_cast<std::uint32_t>(trace_.layers.first_op[id.index()])};
    if (passes == 1) {
      auto record = op(first);
      record["record"] = "layer";
      return record;
    }
    Json record;
    record["record"] = "layer";
    record["layer_label"] = layer_label(trace_, id);
    record["layer_type"] = trace_.strings[trace_.layers.layer_type[id.index()]];
    record["num_passes"] = passes;
    record["grouping_basis"] = trace_.layers.grouping_basis[id.index()] == 0 ? "columns" : "line";
    add_call(record, first);
    add_place(record, first);
    Json list = Json::array();
    for (std::size_t pass = 0; pass < row(passes); ++pass) {
      if (pass == kMaxPassesShown) break;
      list.push_back(pass_json(OpId{static_cast<std::uint32_t>(trace_.layer_ops.op[begin + pass])}));
    }
    record["passes"] = std::move(list);
    if (row(passes) > kMaxPassesShown) record["passes_left_out"] = row(passes) - kMaxPassesShown;
    return record;
  }

  Json module(ModuleId id) const {
    const auto& modules = trace_.modules;
    Json record;
    record["record"] = "module";
    record["address"] = text(modules.address[id.index()]);
    add_aliases(record, modules.address[id.index()], modules.all_addresses[id.index()]);
    record["class_name"] = text(modules.class_name[id.index()]);
    record["qualified_class"] = text(modules.qualified_class[id.index()]);
    const auto training = modules.training[id.index()];
    record["training"] = training == 2 ? Json("not stated") : Json(training == 1);
    record["num_calls"] = modules.num_calls[id.index()];
    record["num_params"] = params_below(trace_, id);
    add_params(record, id);
    add_owned(record, "buffers", trace_.buffers.module, trace_.buffers.address, id);
    add_owned(record, "children", modules.parent, modules.address, id);
    Json calls = Json::array();
    for (std::size_t call = 0; call < trace_.module_calls.module.size() && calls.size() < kMaxPassesShown; ++call) {
      if (trace_.module_calls.module[call] != static_cast<std::int32_t>(id.value)) continue;
      calls.push_back(call_json(ModuleCallId{static_cast<std::uint32_t>(call)}));
    }
    record["calls"] = std::move(calls);
    return record;
  }

  Json module_call(ModuleCallId id) const {
    Json record = {{"record", "module call"}};
    record.update(call_json(id));
    const auto& calls = trace_.module_calls;
    const auto parent = calls.parent_call[id.index()];
    if (parent >= 0)
      record["parent_call"] = module_call_label(trace_, ModuleCallId{static_cast<std::uint32_t>(parent)});
    record["call_site"] = site_text(calls.call_site[id.index()]);
    Json inner = Json::array();
    for (std::size_t call = id.index() + 1; call < calls.module.size() && inner.size() < kMaxPassesShown; ++call) {
      if (calls.parent_call[call] == static_cast<std::int32_t>(id.value)) {
        inner.push_back(module_call_label(trace_, ModuleCallId{static_cast<std::uint32_t>(call)}));
      }
    }
    record["inner_calls"] = std::move(inner);
    return record;
  }

  Json param(ParamId id) const {
    const auto& params = trace_.params;
    constexpr const char* kKinds[] = {"parameter", "constant", "packed"};
    Json record;
    record["record"] = "param";
    record["address"] = text(params.address[id.index()]);
    add_aliases(record, params.address[id.index()], params.all_addresses[id.index()]);
    record["kind"] = kKinds[std::min<std::size_t>(params.kind[id.index()], 2)];
    record["type"] = format_type(static_cast<DType>(params.dtype[id.index()]), trace_.shapes[params.shape[id.index()]]);
    record["bytes"] = params.bytes[id.index()];
    record["is_trainable"] = params.trainable[id.index()] != 0;
    Json users = Json::array();
    for (std::size_t use = 0; use < trace_.param_uses.param.size(); ++use) {
      if (trace_.param_uses.param[use] != static_cast<std::int32_t>(id.value)) continue;
      users.push_back(op_label(trace_, OpId{static_cast<std::uint32_t>(trace_.param_uses.op[use])}));
    }
    record["used_by_ops"] = std::move(users);
    return record;
  }

  Json buffer(BufferId id) const {
    const auto& buffers = trace_.buffers;
    Json record;
    record["record"] = "buffer";
    record["address"] = text(buffers.address[id.index()]);
    record["type"] =
        format_type(static_cast<DType>(buffers.dtype[id.index()]), trace_.shapes[buffers.shape[id.index()]]);
    record["bytes"] = buffers.bytes[id.index()];
    record["num_versions"] = buffers.num_versions[id.index()];
    Json versions = Json::array();
    for (std::size_t op = 0; op < trace_.num_ops(); ++op) {
      const OpId version{static_cast<std::uint32_t>(op)};
      if (trace_.ops.kind[op] != static_cast<std::uint8_t>(OpKind::kBuffer)) continue;
      if (trace_.ops.address[op] != buffers.address[id.index()]) continue;
      versions.push_back({{"label", op_label(trace_, version)}, {"values", payload_glance(trace_, version)}});
    }
    record["versions"] = std::move(versions);
    return record;
  }

 private:
  static std::size_t row(std::int32_t value) { return static_cast<std::size_t>(value); }
  std::string_view text(std::int32_t code) const { return trace_.strings[code]; }

  void add_aliases(Json& record, std::int32_t address, std::int32_t all) const {
    if (all >= 0 && all != address) record["all_addresses"] = text(all);
  }

  std::string site_text(std::int32_t site) const {
    if (site < 0) return {};
    const auto& sites = trace_.call_sites;
    std::string result(text(sites.file[row(site)]));
    if (sites.line[row(site)] > 0) result += ":" + std::to_string(sites.line[row(site)]);
    if (sites.column[row(site)] >= 0) result += ":" + std::to_string(sites.column[row(site)]);
    if (const auto function = text(sites.function[row(site)]); !function.empty())
      result += " in " + std::string(function);
    return result;
  }

  Json labels(const std::vector<OpId>& ops) const {
    Json list = Json::array();
    for (const auto id : ops) list.push_back(op_label(trace_, id));
    return list;
  }

  /// What was called.
  void add_call(Json& record, OpId id) const {
    const auto instruction = trace_.ops.instruction[id.index()];
    if (instruction < 0) {
      record["io_role"] = text(trace_.ops.address[id.index()]);
      return;
    }
    const auto& instructions = trace_.instructions;
    record["func_name"] = func_name(trace_, id);
    std::string name(text(instructions.op_name[row(instruction)]));
    if (const auto overload = text(instructions.overload[row(instruction)]); !overload.empty()) {
      name += "." + std::string(overload);
    }
    record["operator"] = name;
    record["arguments"] = text(instructions.arg_template[row(instruction)]);
    if (const auto names = text(instructions.value_names[row(instruction)]); !names.empty())
      record["var_names"] = names;
    record["call_site"] = site_text(instructions.call_site[row(instruction)]);
  }

  void add_value(Json& record, OpId id) const {
    const auto at = id.index();
    const auto sizes = trace_.shapes[trace_.ops.shape[at]];
    record["shape"] = std::vector<std::int64_t>(sizes.begin(), sizes.end());
    record["dtype"] = short_name(static_cast<DType>(trace_.ops.dtype[at]));
    if (trace_.ops.num_slots[at] > 1) {
      record["output_slot"] = std::to_string(trace_.ops.slot[at]) + " of " + std::to_string(trace_.ops.num_slots[at]);
    }
    record["has_saved_activation"] = trace_.ops.payload[at] >= 0;
    record["evidence"] = evidence_name(trace_, id);
    record["values"] = payload_glance(trace_, id);
    if (const auto row = trace_.statistics.find(at)) {
      record["statistics"] = Json::parse(statistics_text(trace_, *row));
    }
    if (trace_.ops.instruction[at] >= 0 && at < trace_.op_seconds.size())
      record["func_duration"] = static_cast<double>(trace_.op_seconds[at]);
  }

  void add_graph(Json& record, OpId id) const {
    const auto at = id.index();
    record["parents"] = labels(parents(trace_, id));
    record["children"] = labels(children(id));
    Json used = Json::array();
    const auto& uses = trace_.param_uses;
    const auto first = std::lower_bound(uses.op.begin(), uses.op.end(), static_cast<std::int32_t>(id.value));
    for (auto use = static_cast<std::size_t>(first - uses.op.begin()); use < uses.op.size(); ++use) {
      if (uses.op[use] != static_cast<std::int32_t>(id.value)) break;
      used.push_back(text(trace_.params.address[row(uses.param[use])]));
    }
    if (!used.empty()) record["param_names"] = std::move(used);
    Json flags = Json::array();
    for (const auto& [flag, name] : kFlagNames) {
      if ((trace_.ops.flags[at] & flag) != 0) flags.push_back(name);
    }
    if (!flags.empty()) record["flags"] = std::move(flags);
    record["distance_from_input"] = {trace_.ops.min_distance_from_input[at], trace_.ops.max_distance_from_input[at]};
    record["distance_to_output"] = {trace_.ops.min_distance_to_output[at], trace_.ops.max_distance_to_output[at]};
  }

  std::vector<OpId> children(OpId id) const {
    std::vector<OpId> result;
    for (std::size_t op = id.index() + 1; op < trace_.num_ops(); ++op) {
      const auto [begin, end] = edge_range(trace_, OpId{static_cast<std::uint32_t>(op)});
      for (auto edge = begin; edge < end; ++edge) {
        if (trace_.edges.parent[edge] != static_cast<std::int32_t>(id.value)) continue;
        result.push_back(OpId{static_cast<std::uint32_t>(op)});
        break;
      }
    }
    return result;
  }

  /// Where in the model it ran.
  void add_place(Json& record, OpId id) const {
    Json stack = Json::array();
    for (const auto call : module_stack(trace_, id)) stack.push_back(module_call_label(trace_, call));
    record["modules"] = std::move(stack);
    add_branches(record, trace_, id);
  }

  Json pass_json(OpId id) const {
    Json item;
    item["label"] = op_label(trace_, id, true);
    item["parents"] = labels(parents(trace_, id));
    item["values"] = payload_glance(trace_, id);
    if (id.index() < trace_.op_seconds.size())
      item["func_duration"] = static_cast<double>(trace_.op_seconds[id.index()]);
    return item;
  }

  Json call_json(ModuleCallId id) const {
    const auto& calls = trace_.module_calls;
    Json item;
    item["label"] = module_call_label(trace_, id);
    item["num_ops"] = calls.end_op[id.index()] - calls.first_op[id.index()];
    if (const auto output = calls.output_op[id.index()]; output >= 0) {
      const OpId op{static_cast<std::uint32_t>(output)};
      item["output"] = op_label(trace_, op);
      item["values"] = payload_glance(trace_, op);
    }
    if (id.index() < trace_.module_call_seconds.size())
      item["forward_duration"] = trace_.module_call_seconds[id.index()];
    return item;
  }

  /// The parameters of a module under the addresses that they have in it: tied weights stand in several.
  void add_params(Json& record, ModuleId id) const {
    Json list = Json::array();
    for (std::size_t param = 0; param < trace_.params.module.size(); ++param) {
      for (const auto& place : places_of_param(trace_, param)) {
        if (place.module == id.index()) list.push_back(place.address);
      }
    }
    if (!list.empty()) record["params"] = std::move(list);
  }

  void add_owned(Json& record, const char* key, const Column<std::int32_t>& owner, const Column<std::int32_t>& names,
                 ModuleId id) const {
    Json list = Json::array();
    for (std::size_t i = 0; i < owner.size(); ++i) {
      if (owner[i] == static_cast<std::int32_t>(id.value)) list.push_back(text(names[i]));
    }
    if (!list.empty()) record[key] = std::move(list);
  }

  const Trace& trace_;
};

bool is_flat(const Json& list) {
  return std::ranges::all_of(list, [](const Json& item) { return !item.is_structured(); });
}

std::string scalar_text(const std::string& key, const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_null()) return "-";
  if (key.ends_with("duration") && value.is_number()) return format_duration(value.get<double>());
  if (key == "bytes" && value.is_number()) return format_bytes(value.get<std::uint64_t>());
  return value.is_number_float() ? format_number(value.get<double>(), 4)
                                 : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string list_text(const std::string& key, const Json& list) {
  constexpr std::size_t kMaxItems = 12;
  std::string text;
  std::size_t count = 0;
  for (const auto& item : list) {
    if (count++ == kMaxItems) return text + ", … (" + std::to_string(list.size()) + ")";
    text += (text.empty() ? "" : ", ") + scalar_text(key, item);
  }
  return text.empty() ? "-" : text;
}

std::string object_text(const Json& object) {
  std::string text;
  for (const auto& [key, value] : object.items()) {
    const bool named = key != "label" && key != "values";
    text += (text.empty() ? "" : "   ") + (named ? key + " " : "") +
            (value.is_array() ? list_text(key, value) : scalar_text(key, value));
  }
  return text;
}

}  // namespace

Json record_json(const Trace& trace, const Found& found) {
  const Recorder recorder(trace);
  switch (found.kind) {
    case Found::Kind::kLayer:
      return recorder.layer(LayerId{found.row});
    case Found::Kind::kOp:
      return recorder.op(OpId{found.row});
    case Found::Kind::kModule:
      return recorder.module(ModuleId{found.row});
    case Found::Kind::kModuleCall:
      return recorder.module_call(ModuleCallId{found.row});
    case Found::Kind::kParam:
      return recorder.param(ParamId{found.row});
    case Found::Kind::kBuffer:
      return recorder.buffer(BufferId{found.row});
    case Found::Kind::kConditional:
      return conditional_record(trace, found.row);
  }
  return {};
}

void print_record(Output& out, const Json& record) {
  std::size_t width = 0;
  for (const auto& [key, value] : record.items()) width = std::max(width, key.size());
  for (const auto& [key, value] : record.items()) {
    const auto head = pad_right(key, width) + "  ";
    if (value.is_array() && !is_flat(value)) {
      out.line(Style::kBold, key, "");
      for (const auto& item : value) out.line("  " + object_text(item));
    } else if (value.is_object()) {
      out.line(Style::kBold, key, "");
      for (const auto& [name, item] : value.items()) {
        out.line("  " + pad_right(name, width) + (item.is_object() ? object_text(item) : scalar_text(name, item)));
      }
    } else {
      out.line(Style::kBold, head, value.is_array() ? list_text(key, value) : scalar_text(key, value));
    }
  }
}

}  // namespace tl::cli
