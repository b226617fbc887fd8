#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "archive/exported_program_reader.h"
#include "archive/exported_scan.h"
#include "core/error.h"
#include "core/escape.h"
#include "core/text.h"
#include "engine/exported_interface.h"
#include "model_screen_parts.h"
#include "text_format.h"

namespace tl::cli {
namespace {

using Json = nlohmann::ordered_json;
using InputKind = ExportedInputSpec::Kind;
using OutputKind = ExportedOutputSpec::Kind;

constexpr std::size_t kMaxMutations = 12;

std::string without_call_number(const std::string& fqn) { return fqn.substr(0, fqn.rfind('@')); }

/// Totals by module and in all; a tensor that is seen under several names counts once.
class Tensors {
 public:
  explicit Tensors(const ExportedProgram& program) {
    paths_.insert("");
    for (const auto& call : program.module_calls) add_path(without_call_number(call.fqn), "");
    for (const auto& stack : program.module_stacks) {
      for (const auto& frame : stack) add_path(frame.path, frame.class_name);
    }
    std::set<std::pair<std::string, std::int64_t>> seen;
    for (const auto& spec : program.input_specs) {
      const auto* payload = program.find_payload(spec.target);
      if (payload == nullptr || payload->is_object) continue;
      if (!seen.insert({payload->entry, payload->tensor.offset}).second) continue;
      auto& sums = sums_of(spec.kind);
      const auto elements = static_cast<std::uint64_t>(elements_of(*payload));
      const TensorTotals one{1, elements, elements * item_bytes(payload->meta.dtype)};
      sums[owner_of(spec.target)] += one;
      totals_of(spec.kind) += one;
      if (spec.kind == InputKind::kParameter) by_dtype_[payload->meta.dtype] += one.bytes;
    }
  }

  Json modules() const {
    Json list = Json::array();
    std::map<std::string, std::size_t> rows;
    for (const auto& path : paths_) {
      const auto parent = path.empty() ? 0 : rows.at(parent_of(path));
      const auto depth = path.empty() ? 0 : list[parent]["depth"].get<std::size_t>() + 1;
      rows.emplace(path, list.size());
      Json json;
      json["path"] = path;
      json["class"] = classes_.contains(path) ? classes_.at(path) : std::string();
      json["depth"] = depth;
      json["parent"] = parent;
      json["parameters"] = totals_json(sum_at(parameters_, path));
      json["buffers"] = totals_json(sum_at(buffers_, path));
      json["constants"] = totals_json(sum_at(constants_, path));
      list.push_back(std::move(json));
    }
    return list;
  }

  void fill(Json& json) const {
    json["parameters"] = totals_json(parameter_totals_);
    json["buffers"] = totals_json(buffer_totals_);
    json["constants"] = totals_json(constant_totals_);
  }

  std::string root_class() const { return classes_.contains("") ? classes_.at("") : std::string(); }

  std::string dtype() const {
    if (by_dtype_.empty()) return {};
    return std::string(
        short_name(std::ranges::max_element(by_dtype_, {}, [](const auto& e) { return e.second; })->first));
  }

 private:
  using Sums = std::map<std::string, TensorTotals>;

  /// A tree in the order of the paths, numbers as numbers: `layers.2` stands before `layers.10`.
  struct InOrder {
    bool operator()(const std::string& a, const std::string& b) const {
      const auto key = [](const std::string& path) {
        std::vector<std::pair<std::uint64_t, std::string>> parts;
        for (std::size_t begin = 0; !path.empty() && begin <= path.size();) {
          const auto end = std::min(path.find('.', begin), path.size());
          auto part = path.substr(begin, end - begin);
          const bool number = !part.empty() && part.size() < 10 &&
                              std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
          parts.emplace_back(number ? std::stoull(part) + 1 : 0, std::move(part));
          begin = end + 1;
        }
        return parts;
      };
      return key(a) < key(b);
    }
  };

  void add_path(const std::string& path, const std::string& class_name) {
    for (auto at = path;; at = parent_of(at)) {
      if (!paths_.insert(at).second || at.empty()) break;
    }
    if (!class_name.empty()) classes_.try_emplace(path, class_name);
  }

  static std::string parent_of(const std::string& path) {
    const auto dot = path.rfind('.');
    return dot == std::string::npos ? std::string() : path.substr(0, dot);
  }

  std::string owner_of(const std::string& name) const {
    auto path = parent_of(name);
    while (!path.empty() && !paths_.contains(path)) path = parent_of(path);
    return path;
  }

  static std::int64_t elements_of(const ExportedPayload& payload) {
    std::int64_t count = 1;
    for (const auto& size : payload.meta.sizes) count *= size.value.value_or(0);
    return count;
  }

  static TensorTotals sum_at(const Sums& sums, const std::string& path) {
    const auto found = sums.find(path);
    return found == sums.end() ? TensorTotals{} : found->second;
  }

  Sums& sums_of(InputKind kind) {
    return kind == InputKind::kParameter ? parameters_ : (kind == InputKind::kBuffer ? buffers_ : constants_);
  }
  TensorTotals& totals_of(InputKind kind) {
    return kind == InputKind::kParameter ? parameter_totals_
                                         : (kind == InputKind::kBuffer ? buffer_totals_ : constant_totals_);
  }

  std::set<std::string, InOrder> paths_;
  std::map<std::string, std::string> classes_;
  Sums parameters_, buffers_, constants_;
  TensorTotals parameter_totals_, buffer_totals_, constant_totals_;
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
  bool sample = false;
  try {
    sample = read_sample_inputs(*look.zip, program.model_name, input_classes(program)).has_value();
  } catch (const Error&) {
    // Unreadable examples are as good as none; `trace` says so when they are wanted.
  }
  json["example_inputs"] = sample;
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
  print_items(out, "program",
              {program["dialect"].get<std::string>() + " dialect",
               counted(program["nodes"].get<std::int64_t>(), "node"), "schema " + program["schema"].get<std::string>(),
               "written by torch " + program["torch_version"].get<std::string>(),
               program["example_inputs"].get<bool>() ? "example inputs stored" : "no example inputs"});
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
