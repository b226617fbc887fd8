#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "archive/exported_program_reader.h"
#include "archive/exported_scan.h"
#include "core/error.h"
#include "core/escape.h"
#include "core/text.h"
#include "engine/exported_interface.h"
#include "engine/pickle_input.h"
#include "model_screen_parts.h"
#include "text_format.h"

namespace tl::cli {
namespace {

using Json = nlohmann::ordered_json;
using InputKind = ExportedInputSpec::Kind;
using OutputKind = ExportedOutputSpec::Kind;

constexpr std::size_t kMaxMutations = 12;

std::string without_call_number(const std::string& fqn) { return fqn.substr(0, fqn.rfind('@')); }

/// The modules that a program names, each with its own tensors.
class ModuleTree {
 public:
  struct Module {
    std::string path;
    std::string class_name;
    TensorTotals parameters, buffers, constants;
  };

  /// Adds a module and those around it. The first class that is stated for it stays.
  void add(std::string_view path, const std::string& class_name) {
    std::size_t at = 0;
    for_each_part(path, [&](std::string_view part, std::size_t end) {
      const auto [child, fresh] = nodes_[at].children.try_emplace(std::string(part), nodes_.size());
      at = child->second;
      if (fresh) nodes_.emplace_back().module.path = path.substr(0, end);
      return true;
    });
    if (nodes_[at].module.class_name.empty()) nodes_[at].module.class_name = class_name;
  }

  /// The innermost module around a tensor of that name.
  Module& owner_of(std::string_view name) {
    std::size_t at = 0;
    const auto dot = name.rfind('.');
    const auto path = dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
    for_each_part(path, [&](std::string_view part, std::size_t) {
      const auto child = nodes_[at].children.find(part);
      if (child == nodes_[at].children.end()) return false;
      at = child->second;
      return true;
    });
    return nodes_[at].module;
  }

  const Module& root() const { return nodes_[0].module; }

  /// Depth first, numbers as numbers: `layers.2` stands before `layers.10`.
  Json to_json() const {
    Json list = Json::array();
    append(list, 0, 0, 0);
    return list;
  }

 private:
  struct InOrder {
    using is_transparent = void;
    bool operator()(std::string_view a, std::string_view b) const {
      return std::pair(number_of(a), a) < std::pair(number_of(b), b);
    }
    /// 1 more than the number that a name is, so that other names stand first.
    static std::uint64_t number_of(std::string_view name) {
      std::uint64_t number = 0;
      if (name.empty() || name.size() >= 10) return 0;
      const auto end = std::from_chars(name.data(), name.data() + name.size(), number);
      return end.ptr == name.data() + name.size() ? number + 1 : 0;
    }
  };
  struct Node {
    Module module;
    std::map<std::string, std::size_t, InOrder> children;
  };

  /// Calls `take(part, end of the part)` until it returns false.
  template <typename Take>
  static void for_each_part(std::string_view path, Take take) {
    for (std::size_t begin = 0; !path.empty() && begin <= path.size();) {
      const auto end = std::min(path.find('.', begin), path.size());
      if (!take(path.substr(begin, end - begin), end)) return;
      begin = end + 1;
    }
  }

  /// Recurses once a level, of which a program has limits::kModulePathParts at most.
  void append(Json& list, std::size_t at, std::size_t depth, std::size_t parent) const {
    const auto& module = nodes_[at].module;
    const auto row = list.size();
    Json json;
    json["path"] = module.path;
    json["class"] = module.class_name;
    json["depth"] = depth;
    json["parent"] = parent;
    json["parameters"] = totals_json(module.parameters);
    json["buffers"] = totals_json(module.buffers);
    json["constants"] = totals_json(module.constants);
    list.push_back(std::move(json));
    for (const auto& [name, child] : nodes_[at].children) append(list, child, depth + 1, row);
  }

  std::vector<Node> nodes_ = std::vector<Node>(1);  // the root first
};

/// Totals by module and in all; a tensor that is seen under several names counts once.
class Tensors {
 public:
  explicit Tensors(const ExportedProgram& program) {
    for (const auto& call : program.module_calls) modules_.add(without_call_number(call.fqn), "");
    for (const auto& stack : program.module_stacks) {
      for (const auto& frame : stack) modules_.add(frame.path, frame.class_name);
    }
    std::set<std::pair<std::string, std::int64_t>> seen;
    for (const auto& spec : program.input_specs) {
      const auto* payload = program.find_payload(spec.target);
      if (payload == nullptr || payload->is_object) continue;
      if (!seen.insert({payload->entry, payload->tensor.offset}).second) continue;
      const auto elements = static_cast<std::uint64_t>(elements_of(*payload));
      const TensorTotals one{1, elements, elements * item_bytes(payload->meta.dtype)};
      of_kind(modules_.owner_of(spec.target), spec.kind) += one;
      of_kind(all_, spec.kind) += one;
      if (spec.kind == InputKind::kParameter) by_dtype_[payload->meta.dtype] += one.bytes;
    }
  }

  Json modules() const { return modules_.to_json(); }

  void fill(Json& json) const {
    json["parameters"] = totals_json(all_.parameters);
    json["buffers"] = totals_json(all_.buffers);
    json["constants"] = totals_json(all_.constants);
  }

  std::string root_class() const { return modules_.root().class_name; }

  std::string dtype() const {
    if (by_dtype_.empty()) return {};
    return std::string(
        short_name(std::ranges::max_element(by_dtype_, {}, [](const auto& e) { return e.second; })->first));
  }

 private:
  static std::int64_t elements_of(const ExportedPayload& payload) {
    std::int64_t count = 1;
    for (const auto& size : payload.meta.sizes) count *= size.value.value_or(0);
    return count;
  }

  static TensorTotals& of_kind(ModuleTree::Module& module, InputKind kind) {
    return kind == InputKind::kParameter ? module.parameters
                                         : (kind == InputKind::kBuffer ? module.buffers : module.constants);
  }

  ModuleTree modules_;
  ModuleTree::Module all_;
  std::map<DType, std::uint64_t> by_dtype_;
};

std::string size_text(const ExportedSymInt& size) {
  return size.is_number() ? (size.value ? std::to_string(*size.value) : "?") : size.expression;
}

Json inputs_json(const ExportedProgram& program, const ExportedInterface& interface) {
  Json list = Json::array();
  for (const auto& leaf : interface.leaves) {
    const auto& argument = program.input_specs[leaf.input].argument;
    Json json = {{"name", leaf.path}};
    const auto* ref = argument.ref();
    const auto meta = ref ? program.graph.values[ref->value].meta : -1;
    if (meta >= 0) {
      const auto& stated = program.graph.metas[static_cast<std::size_t>(meta)];
      json["dtype"] = short_name(stated.dtype);
      json["sizes"] = Json::array();
      for (const auto& size : stated.sizes) json["sizes"].push_back(size_text(size));
    } else {
      json["value"] = ref ? "a number" : "fixed";
    }
    list.push_back(std::move(json));
  }
  return list;
}

Json ranges_json(const ExportedProgram& program) {
  Json list = Json::array();
  for (const auto& range : program.ranges) {
    list.push_back({{"symbol", range.symbol},
                    {"min", range.min ? Json(*range.min) : Json()},
                    {"max", range.max ? Json(*range.max) : Json()}});
  }
  return list;
}

/// What the program writes of its state and inputs: listed as outputs in the ATEN dialect, in place otherwise, where
/// only a run tells.
Json mutations_json(const ExportedProgram& program) {
  Json list = Json::array();
  for (const auto& spec : program.output_specs) {
    if (spec.kind == OutputKind::kBufferMutation) list.push_back("buffer " + spec.target);
    if (spec.kind == OutputKind::kParameterMutation) list.push_back("parameter " + spec.target);
    if (spec.kind == OutputKind::kUserInputMutation) list.push_back("input " + spec.target);
  }
  return list;
}

std::size_t count_nodes(const ExportedGraph& graph) {
  std::size_t count = graph.nodes.size();
  for (const auto& node : graph.nodes) {
    for (const auto& input : node.inputs) {
      if (const auto* nested = input.argument.graph()) count += count_nodes(*nested);
    }
  }
  return count;
}

/// Whether `trace` can run the file's examples, and why not where it has some.
void fill_example_inputs(Json& json, const ExportedProgram& program, const ModelLook& look) {
  json["example_inputs"] = false;
  try {
    const auto sample = read_sample_inputs(*look.zip, program.model_name, input_classes(program));
    if (sample) given_from_pickle(*sample, "example inputs");
    json["example_inputs"] = sample.has_value();
  } catch (const Error& error) {
    json["example_inputs_refusal"] = error.message;
  }
}

Json program_json(const ExportedProgram& program, const ModelLook& look) {
  const auto interface = interface_of(program, look.info.path.filename().string());
  Json json;
  json["name"] = program.model_name;
  json["schema"] = std::to_string(program.schema_major) + "." + std::to_string(program.schema_minor);
  json["torch_version"] = program.torch_version;
  json["dialect"] = program.dialect;
  json["signature"] = interface.signature.text;
  json["inputs"] = inputs_json(program, interface);
  json["ranges"] = ranges_json(program);
  json["outputs"] = interface.output_roles;
  json["mutations"] = mutations_json(program);
  json["nodes"] = count_nodes(program.graph);
  json["guards"] = program.guards.size();
  fill_example_inputs(json, program, look);
  return json;
}

std::string range_text(const Json& range) {
  const auto bound = [](const Json& value, const char* open) {
    return value.is_null() ? std::string(open) : value.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  return range["symbol"].get<std::string>() + " in " + bound(range["min"], "-inf") + ".." + bound(range["max"], "inf");
}

void print_program(Output& out, const Json& program, bool named) {
  print_signature(out, (named ? program["name"].get<std::string>() + ": " : std::string()) +
                           program["signature"].get<std::string>());
  for (const auto& input : program["inputs"]) {
    std::string text;
    if (input.contains("dtype")) {
      for (const auto& size : input["sizes"]) text += (text.empty() ? "" : ",") + size.get<std::string>();
      text = input["dtype"].get<std::string>() + "[" + text + "]";
    } else {
      text = input["value"].get<std::string>();
    }
    out.line("  " + escape_for_terminal(input["name"].get<std::string>()) + "  " + escape_for_terminal(text));
  }
  std::vector<std::string> ranges;
  for (const auto& range : program["ranges"]) ranges.push_back(range_text(range));
  if (!ranges.empty()) print_items(out, "ranges", ranges);
  auto mutations = program["mutations"].get<std::vector<std::string>>();
  if (mutations.size() > kMaxMutations) {
    const auto more = mutations.size() - kMaxMutations;
    mutations.resize(kMaxMutations);
    mutations.push_back("and " + std::to_string(more) + " more");
  }
  if (!mutations.empty()) print_items(out, "writes", mutations);
  const bool refused = program.contains("example_inputs_refusal");
  print_items(out, "program",
              {program["dialect"].get<std::string>() + " dialect",
               counted(program["nodes"].get<std::int64_t>(), "node"), "schema " + program["schema"].get<std::string>(),
               "written by torch " + program["torch_version"].get<std::string>(),
               program["example_inputs"].get<bool>()
                   ? "example inputs stored"
                   : (refused ? "example inputs stored that cannot be read" : "no example inputs")});
  if (refused) print_words(out, Style::kPlain, "examples", program["example_inputs_refusal"].get<std::string>());
}

void fill_programs(Json& screen, const ModelLook& look) {
  TorchScriptScan all;
  std::map<std::string, ScriptUse> operators, classes;
  const auto merge = [](std::map<std::string, ScriptUse>& into, const std::vector<ScriptUse>& uses) {
    for (const auto& use : uses) {
      auto& known = into.try_emplace(use.name, use).first->second;
      if (&known.name != &use.name && known.file != use.file) known.count += use.count;
    }
  };
  screen["programs"] = Json::array();
  const auto names = exported_program_names(*look.zip);
  for (const auto& name : names) {
    const auto program = read_exported_program(*look.zip, {.model = name});
    screen["programs"].push_back(program_json(program, look));
    const auto scan = scan_exported(program);
    merge(operators, scan.operators);
    merge(classes, scan.classes);
    if (names.size() > 1) continue;
    const Tensors tensors(program);
    screen["root_class"] = tensors.root_class();
    if (!tensors.dtype().empty()) screen["dtype"] = tensors.dtype();
    screen["modules"] = tensors.modules();
    tensors.fill(screen);
    screen["tied"] = Json::array();
  }
  for (auto& [name, use] : operators) all.operators.push_back(std::move(use));
  for (auto& [name, use] : classes) all.classes.push_back(std::move(use));
  fill_operators(screen, all, look.known);
}

}  // namespace

void fill_exported(Json& screen, const ModelLook& look) {
  if (screen.contains("refused")) return;
  try {
    fill_programs(screen, look);
  } catch (const Error& error) {
    // Well-formed, but not for this build: that is what there is to say of it.
    if (error.code != ErrorCode::kUnsupportedVersion && error.code != ErrorCode::kUnsupportedProgram) throw;
    screen.erase("programs");
    screen["refused"] = {{"code", to_string(error.code)}, {"message", error.message}, {"hint", error.hint}};
  }
}

void print_exported(Output& out, const Json& screen, bool everything) {
  if (!screen.contains("programs")) return;
  for (const auto& program : screen["programs"]) print_program(out, program, screen["programs"].size() > 1);
  out.line();
  if (screen.contains("modules")) {
    if (screen["modules"].size() > 1) {
      print_module_table(out, screen["modules"], everything);
      out.line();
    }
    print_tensors(out, screen);
  }
  print_operators(out, screen, everything);
}

}  // namespace tl::cli
