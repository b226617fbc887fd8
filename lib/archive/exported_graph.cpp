#include <string>
#include <utility>

#include "archive/entry_name.h"
#include "archive/exported_arguments.h"
#include "archive/exported_metadata.h"
#include "archive/exported_parts.h"
#include "archive/limits.h"

namespace tl {
namespace {

/// Points a place at a graph and puts it back.
class GraphPlace {
 public:
  GraphPlace(ExportedPlace& place, std::string_view name) : place_(place), outer_(place) {
    place_.graph = name;
    place_.node = -1;
    place_.node_name = {};
    place_.part = {};
    place_.part_name = {};
  }
  GraphPlace(const GraphPlace&) = delete;
  GraphPlace& operator=(const GraphPlace&) = delete;
  ~GraphPlace() {
    place_.graph = outer_.graph;
    place_.node = outer_.node;
    place_.node_name = outer_.node_name;
    place_.part = outer_.part;
    place_.part_name = outer_.part_name;
  }

 private:
  ExportedPlace& place_;
  const ExportedPlace outer_;
};

/// Index of what `parse` makes of a stack's text, kept once a text; -1 if that is empty.
template <typename Stack, typename Parse>
std::int32_t interned(std::unordered_map<std::string_view, std::int32_t>& known, std::vector<Stack>& stacks,
                      std::string_view text, Parse parse) {
  const auto [slot, fresh] = known.try_emplace(text, -1);
  if (!fresh) return slot->second;
  Stack stack = parse(text);
  if (stack.empty()) return -1;
  slot->second = static_cast<std::int32_t>(stacks.size());
  stacks.push_back(std::move(stack));
  return slot->second;
}

class GraphReader {
 public:
  GraphReader(ExportedReading& reading, ExportedScope& scope, std::size_t depth)
      : reading_(reading), place_(reading.place), scope_(scope), depth_(depth) {}

  ExportedGraph read(JsonRef json, std::string_view name) {
    graph_.name = name;
    read_values(json);
    read_inputs(json);
    const JsonRef nodes = expect_array(place_, required(place_, json, "nodes"), "nodes");
    graph_.nodes.reserve(nodes.size());
    for (const JsonRef node : nodes.items()) read_node(node);
    place_.node = -1;
    place_.node_name = {};
    place_.part = "graph outputs";
    for (const JsonRef output : expect_array(place_, required(place_, json, "outputs"), "outputs").items()) {
      graph_.outputs.push_back(arguments().use(output));
    }
    place_.part = {};
    if (const JsonRef single = optional_member(place_, json, "is_single_tensor_return")) {
      graph_.single_tensor_return = expect_bool(place_, single, "is_single_tensor_return");
    }
    return std::move(graph_);
  }

 private:
  ExportedArguments arguments() { return {reading_, graph_, scope_, depth_}; }

  /// tensor_values, sym_int_values … Equal descriptions, as long chains have, are kept once.
  void read_values(JsonRef json) {
    std::unordered_map<std::string_view, std::int32_t> known;
    const JsonRef tensors = expect_object(place_, required(place_, json, "tensor_values"), "tensor_values");
    scope_.metas.reserve(tensors.size());
    scope_.values.reserve(tensors.size());
    for (const JsonMember member : tensors.members()) {
      place_.part = "value";
      place_.part_name = member.key;
      expect_object(place_, member.value, "tensor_values");
      const auto [slot, fresh] = known.try_emplace(member.value.text(), static_cast<std::int32_t>(graph_.metas.size()));
      if (fresh) graph_.metas.push_back(exported_tensor_meta(place_, member.value));
      scope_.metas.emplace(member.key, slot->second);
    }
    place_.part = {};
    place_.part_name = {};
    for (const std::string_view kind : {"sym_int_values", "sym_float_values", "sym_bool_values"}) {
      const JsonRef symbols = optional_member(place_, json, kind);
      if (!symbols) continue;
      for (const JsonMember member : expect_object(place_, symbols, kind).members()) {
        scope_.symbols.emplace(member.key, member.value);
      }
    }
  }

  void read_inputs(JsonRef json) {
    place_.part = "graph inputs";
    const JsonRef inputs = expect_array(place_, required(place_, json, "inputs"), "inputs");
    for (const JsonRef input : inputs.items()) graph_.inputs.push_back(arguments().define(input, -1));
    place_.part = {};
  }

  void read_node(JsonRef json) {
    ExportedNode node;
    place_.node = static_cast<std::int64_t>(graph_.nodes.size());
    place_.node_name = {};
    node.target = expect_string(place_, required(place_, json, "target"), "target");
    if (const JsonRef name = optional_member(place_, json, "name")) node.name = expect_string(place_, name, "name");
    place_.node_name = json.find(node.name.empty() ? "target" : "name").string();
    read_node_inputs(node, json);
    if (const JsonRef single = optional_member(place_, json, "is_hop_single_tensor_return")) {
      node.single_tensor_return = expect_bool(place_, single, "is_hop_single_tensor_return");
    }
    place_.part = "node outputs";
    const auto index = static_cast<std::int32_t>(graph_.nodes.size());
    const JsonRef outputs = expect_array(place_, required(place_, json, "outputs"), "outputs");
    for (const JsonRef output : outputs.items()) node.outputs.push_back(arguments().define(output, index));
    place_.part = {};
    mark_token(node);
    read_metadata(node, optional_member(place_, json, "metadata"));
    graph_.nodes.push_back(std::move(node));
  }

  void read_node_inputs(ExportedNode& node, JsonRef json) {
    const JsonRef inputs = expect_array(place_, required(place_, json, "inputs"), "inputs");
    node.inputs.reserve(inputs.size());
    for (const JsonRef input : inputs.items()) {
      ExportedNamedArgument argument;
      argument.name = expect_string(place_, required(place_, input, "name"), "name");
      const std::string number = std::to_string(node.inputs.size());  // higher-order operators name no arguments
      place_.part = "argument";
      place_.part_name = argument.name.empty() ? std::string_view(number) : input.find("name").string();
      argument.argument = arguments().use(required(place_, input, "arg"));
      constexpr std::int64_t kKeyword = 2;
      const JsonRef kind = optional_member(place_, input, "kind");
      argument.keyword = kind && expect_integer(place_, kind, "kind") == kKeyword;
      place_.part = {};
      place_.part_name = {};
      node.inputs.push_back(std::move(argument));
    }
  }

  // The token that orders effects has the form of a tensor; its producer alone tells it from one.
  void mark_token(const ExportedNode& node) {
    if (node.target != "torch.ops.higher_order.with_effects" || node.outputs.empty()) return;
    if (const ExportedRef* token = node.outputs[0].ref()) {
      graph_.values[token->value].kind = ExportedGraphValue::Kind::kToken;
      graph_.values[token->value].meta = -1;
    }
  }

  ExportedModuleStack module_stack(std::string_view text) const {
    auto stack = parse_module_stack(text);
    for (const auto& frame : stack) expect_module_path(place_, frame.path);
    return stack;
  }

  void read_metadata(ExportedNode& node, JsonRef json) {
    if (!json) return;
    for (const JsonMember member : expect_object(place_, json, "metadata").members()) {
      const std::string_view text = expect_string(place_, member.value, member.key);
      if (member.key == "nn_module_stack") {
        const auto parse = [this](std::string_view stack) { return module_stack(stack); };
        node.modules = interned(reading_.module_stacks, reading_.program.module_stacks, text, parse);
      } else if (member.key == "stack_trace") {
        node.source = interned(reading_.source_stacks, reading_.program.source_stacks, text, &parse_stack_trace);
      } else if (member.key == "torch_fn") {
        node.torch_fn = text;
      } else if (member.key != "from_node") {  // a history of passes with memory addresses, the bulk of a file
        node.metadata.emplace_back(member.key, text);
      }
    }
  }

  ExportedReading& reading_;
  ExportedPlace& place_;
  ExportedScope& scope_;
  std::size_t depth_;
  ExportedGraph graph_;
};

}  // namespace

ExportedGraph read_exported_subgraph(ExportedReading& reading, JsonRef json, std::string_view name, std::size_t depth) {
  if (depth > limits::kProgramGraphDepth) {
    reading.place.fail(ErrorCode::kFileLimits,
                       "graphs are nested deeper than " + std::to_string(limits::kProgramGraphDepth));
  }
  const GraphPlace place(reading.place, name);
  ExportedScope scope;
  return GraphReader(reading, scope, depth).read(json, name);
}

ExportedGraph read_exported_graph(ExportedReading& reading, JsonRef json, std::string_view name, ExportedScope& scope) {
  const GraphPlace place(reading.place, name);
  return GraphReader(reading, scope, 1).read(json, name);
}

}  // namespace tl
