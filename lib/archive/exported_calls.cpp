#include <algorithm>
#include <string>
#include <utility>

#include "archive/entry_name.h"
#include "archive/exported_parts.h"
#include "archive/exported_program_reader.h"
#include "archive/pytree_spec.h"

namespace tl {
namespace {

using Fields = std::unordered_map<std::string, std::vector<std::string>>;

Fields fields_of(const ExportedPlace& place, JsonRef json) {
  Fields fields;
  if (!json) return fields;
  for (const JsonMember member : expect_object(place, json, "treespec_namedtuple_fields").members()) {
    std::vector<std::string>& names = fields[std::string(member.key)];
    const JsonRef list = required(place, member.value, "field_names");
    for (const JsonRef name : expect_array(place, list, "field_names").items()) {
      names.emplace_back(expect_string(place, name, "field name"));
    }
  }
  return fields;
}

PytreeSpec spec_of(const ExportedPlace& place, JsonRef signature, std::string_view key, const Fields& fields) {
  const std::string_view json = expect_string(place, required(place, signature, key), key);
  PytreeSpec spec = parse_pytree_spec(json, place.where + ": " + std::string(key));
  name_tuple_fields(spec, fields);
  return spec;
}

/// The name in an argument that is one value; empty for constants.
std::string_view name_in(JsonRef argument) {
  if (!argument.is_object() || argument.size() != 1) return {};
  const JsonRef value = (*argument.members().begin()).value;
  if (!value.is_object()) return {};
  for (const std::string_view key : {"name", "as_name"}) {
    if (const JsonRef name = value.find(key); name && name.is_string()) return name.string();
  }
  return {};
}

/// Signatures of inner modules are notes of the exporter: a pass may since have removed the values they name, which
/// then stand as None.
std::vector<ExportedArgument> arguments_of(ExportedReading& reading, JsonRef signature, std::string_view key,
                                           const ExportedScope& scope) {
  std::vector<ExportedArgument> arguments;
  const JsonRef list = expect_array(reading.place, required(reading.place, signature, key), key);
  arguments.reserve(list.size());
  for (const JsonRef item : list.items()) {
    const std::string_view name = name_in(item);
    if (!name.empty() && !scope.values.contains(name)) {
      arguments.emplace_back();
    } else {
      arguments.push_back(read_exported_argument(reading, item, scope));
    }
  }
  return arguments;
}

/// The root's signature is how the program is called: it must count what the graph's signature counts.
void require_leaves(const ExportedReading& reading, const ExportedModuleCall& call) {
  const ExportedProgram& program = reading.program;
  const auto inputs = static_cast<std::size_t>(std::ranges::count_if(program.input_specs, [](const auto& spec) {
    return spec.kind == ExportedInputSpec::Kind::kUserInput || spec.kind == ExportedInputSpec::Kind::kConstantInput;
  }));
  const auto outputs = static_cast<std::size_t>(std::ranges::count_if(program.output_specs, [](const auto& spec) {
    return spec.kind == ExportedOutputSpec::Kind::kUserOutput || spec.kind == ExportedOutputSpec::Kind::kLoss;
  }));
  const auto require = [&](std::string_view what, std::size_t leaves, std::size_t count) {
    if (leaves == count) return;
    reading.place.damaged("the model's " + std::string(what) + "s have " + std::to_string(leaves) +
                          " leaves, the graph has " + std::to_string(count) + " of the user's " + std::string(what) +
                          "s");
  };
  require("input", call.in_spec.num_leaves, inputs);
  require("output", call.out_spec.num_leaves, outputs);
}

}  // namespace

void read_exported_module_calls(ExportedReading& reading, JsonRef json, JsonRef fields, const ExportedScope& scope) {
  ExportedPlace& place = reading.place;
  const Fields known = fields_of(place, fields);
  const JsonRef entries = expect_array(place, json, "module_call_graph");
  reading.program.module_calls.reserve(entries.size());
  for (const JsonRef entry : entries.items()) {
    ExportedModuleCall call;
    call.fqn = expect_string(place, required(place, entry, "fqn"), "fqn");
    place.part = "module call";
    place.part_name = entry.find("fqn").string();
    expect_module_path(place, call.fqn);
    if (const JsonRef signature = optional_member(place, entry, "signature")) {
      call.has_signature = true;
      call.inputs = arguments_of(reading, signature, "inputs", scope);
      call.outputs = arguments_of(reading, signature, "outputs", scope);
      call.in_spec = spec_of(place, signature, "in_spec", known);
      call.out_spec = spec_of(place, signature, "out_spec", known);
      if (const JsonRef names = optional_member(place, signature, "forward_arg_names")) {
        for (const JsonRef name : expect_array(place, names, "forward_arg_names").items()) {
          call.argument_names.emplace_back(expect_string(place, name, "argument name"));
        }
      }
      if (call.fqn.empty()) require_leaves(reading, call);
    }
    place.part = {};
    place.part_name = {};
    reading.program.module_calls.push_back(std::move(call));
  }
}

}  // namespace tl
