#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/escape.h"
#include "core/text.h"
#include "model_screen_parts.h"
#include "text_format.h"

namespace tl::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxMethods = 4;

Json modules_json(const TorchScriptSummary& summary) {
  Json list = Json::array();
  for (const auto& module : summary.modules) {
    Json json;
    json["path"] = module.path;
    json["class"] = module.class_name;
    json["depth"] = module.depth;
    json["parent"] = module.parent;
    json["parameters"] = totals_json(module.parameters);
    json["buffers"] = totals_json(module.buffers);
    json["constants"] = totals_json(module.constants);
    if (module.restored) json["restored"] = true;
    list.push_back(std::move(json));
  }
  return list;
}

Json inputs_json(const TorchScriptSummary& summary) {
  Json list = Json::array();
  for (const auto& input : summary.inputs) {
    Json json = {{"method", input.method}, {"name", input.name}};
    if (input.dtype == DType::kNone) {
      json["value"] = input.value;
    } else {
      json["dtype"] = short_name(input.dtype);
      json["shape"] = input.sizes;
    }
    list.push_back(std::move(json));
  }
  return list;
}

Json methods_json(const TorchScriptSummary& summary) {
  Json list = Json::array();
  for (const auto& method : summary.methods) {
    list.push_back({{"name", method.name}, {"signature", method.signature()}, {"line", method.line}});
  }
  return list;
}

/// What forward was traced with, a line an input.
void print_inputs(Output& out, const Json& inputs) {
  std::vector<std::pair<std::string, std::string>> rows;
  std::size_t width = 0;
  for (const auto& input : inputs) {
    if (input["method"] != "forward") continue;
    std::string value = input.value("value", std::string());
    if (input.contains("dtype")) {
      value =
          input["dtype"].get<std::string>() + "[" + format_sizes(input["shape"].get<std::vector<std::int64_t>>()) + "]";
    }
    rows.emplace_back(escape_for_terminal(input["name"].get<std::string>()), std::move(value));
    width = std::max(width, display_width(rows.back().first));
  }
  for (const auto& [name, value] : rows)
    out.line("  " + pad_right(name, width) + "  " + value + "   what it was traced with");
}

void print_methods(Output& out, const Json& screen, bool everything) {
  if (screen["signature"].is_string()) print_signature(out, screen["signature"].get<std::string>());
  std::size_t others = 0;
  for (const auto& method : screen["methods"]) {
    const auto name = method["name"].get<std::string>();
    if (name == "forward" || name.starts_with("__")) continue;
    if (++others <= kMaxMethods || everything) print_signature(out, method["signature"].get<std::string>());
  }
  if (others > kMaxMethods && !everything) {
    out.line("  … " + std::to_string(others - kMaxMethods) + " more methods (--all)");
  }
  print_inputs(out, screen["inputs"]);
}

/// Modules whose state is made by code of the file.
void print_restored(Output& out, const Json& modules) {
  std::vector<std::string> paths;
  for (const auto& module : modules) {
    if (module.value("restored", false)) paths.push_back(module["depth"] == 0 ? "the model" : module["path"]);
  }
  if (paths.empty()) return;
  if (paths.size() > kMaxMethods) {
    const auto more = paths.size() - kMaxMethods;
    paths.resize(kMaxMethods);
    paths.push_back("and " + std::to_string(more) + " more");
  }
  paths.back() += "   by __setstate__, which runs while the file is loaded";
  print_items(out, "restored", paths);
}

}  // namespace

void fill_torchscript(Json& screen, const ModelLook& look) {
  const auto summary = summarise_torchscript(*look.zip);
  screen["traced"] = summary.traced;
  if (!summary.mode.empty()) screen["mode"] = summary.mode;
  if (!summary.dtype.empty()) screen["dtype"] = summary.dtype;
  if (!summary.modules.empty()) screen["root_class"] = summary.modules[0].class_name;
  if (!summary.tree_error.empty()) screen["tree_error"] = summary.tree_error;
  const auto forward = std::ranges::find(summary.methods, "forward", &ScriptMethod::name);
  screen["signature"] = forward == summary.methods.end() ? Json() : Json(forward->signature());
  screen["methods"] = methods_json(summary);
  screen["inputs"] = inputs_json(summary);
  screen["modules"] = modules_json(summary);
  screen["parameters"] = totals_json(summary.parameters);
  screen["buffers"] = totals_json(summary.buffers);
  screen["constants"] = totals_json(summary.constants);
  screen["tied"] = summary.tied;
  screen["source_files"] = summary.scan.source_files;
  screen["source_bytes"] = summary.scan.source_bytes;
  fill_operators(screen, summary.scan, look.known);
}

void print_torchscript(Output& out, const Json& screen, bool everything) {
  print_methods(out, screen, everything);
  out.line();
  if (screen["modules"].size() > 1) {
    print_module_table(out, screen["modules"], everything);
    out.line();
  }
  if (screen.contains("tree_error")) out.line("modules     not read: " + screen["tree_error"].get<std::string>());
  print_tensors(out, screen);
  print_restored(out, screen["modules"]);
  print_operators(out, screen, everything);
  print_items(out, "sources",
              {counted(screen["source_files"].get<std::int64_t>(), "file") + " of code",
               format_bytes(screen["source_bytes"].get<std::uint64_t>())});
}

}  // namespace tl::cli
