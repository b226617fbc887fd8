#include "archive/exported_scan.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace tl {
namespace {

class Scan {
 public:
  void graph(const ExportedGraph& graph) {
    for (const auto& value : graph.values) {
      if (value.kind == ExportedGraphValue::Kind::kCustomObject && !value.class_name.empty()) {
        note(classes_, value.class_name, value.name);
      }
    }
    for (const auto& node : graph.nodes) {
      const auto& place = node.name.empty() ? node.target : node.name;
      note(operators_, qualified_operator(node.target), place);
      for (const auto& input : node.inputs) argument(input.argument, place);
    }
  }

  TorchScriptScan result() const {
    TorchScriptScan scan;
    for (const auto& [name, use] : operators_) scan.operators.push_back(use);
    for (const auto& [name, use] : classes_) scan.classes.push_back(use);
    return scan;
  }

 private:
  using Uses = std::map<std::string, ScriptUse>;

  static void note(Uses& uses, const std::string& name, const std::string& place) {
    if (name.empty()) return;
    auto& use = uses[name];
    if (use.count == 0) {
      use.name = name;
      use.file = "node " + place;
    }
    ++use.count;
  }

  void argument(const ExportedArgument& argument_, const std::string& place) {
    if (const auto* name = std::get_if<ExportedOperatorName>(&argument_.data)) {
      note(operators_, qualified_operator(name->name), place);
    }
    if (const auto* nested = argument_.graph()) graph(*nested);
    if (const auto* list = argument_.list()) {
      for (const auto& item : list->items) argument(item, place);
    }
    if (const auto* dict = argument_.dict()) {
      for (const auto& item : dict->items) argument(item.second, place);
    }
  }

  Uses operators_;
  Uses classes_;
};

}  // namespace

std::string qualified_operator(const std::string& target) {
  constexpr std::string_view kOps = "torch.ops.";
  std::string_view rest(target);
  const bool listed = rest.starts_with(kOps);
  if (listed) rest.remove_prefix(kOps.size());
  if (rest.starts_with("higher_order.") || rest.starts_with("torch.") || rest.starts_with("_operator.") ||
      rest.starts_with("math.") || rest.starts_with("builtins.")) {
    return {};
  }
  const auto first = rest.find('.');
  const auto last = rest.rfind('.');
  if (first == std::string_view::npos || first == last) return {};
  return std::string(rest.substr(0, first)) + "::" + std::string(rest.substr(first + 1, last - first - 1));
}

TorchScriptScan scan_exported(const ExportedProgram& program) {
  Scan scan;
  scan.graph(program.graph);
  return scan.result();
}

}  // namespace tl
