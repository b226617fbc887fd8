#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "archive/operator_library.h"
#include "archive/torchscript_refusal.h"
#include "core/escape.h"
#include "core/text.h"
#include "model_screen_parts.h"
#include "table.h"
#include "text_format.h"

// What the screens of TorchScript files and exported programs share: modules, tensors, operators.
namespace tl::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxRows = 24;
constexpr std::size_t kMaxNames = 24;
constexpr std::size_t kMaxFindings = 12;
constexpr std::size_t kMaxTied = 4;

Json use_json(const ScriptUse& use) {
  Json json = {{"name", use.name}, {"count", use.count}, {"file", use.file}, {"line", use.line}};
  if (!use.function.empty()) json["function"] = use.function;
  if (use.in_setstate) json["in_setstate"] = true;
  return json;
}

Json uses_json(const std::vector<ScriptUse>& uses) {
  Json list = Json::array();
  for (const auto& use : uses) list.push_back(use_json(use));
  return list;
}

Json missing_json(const TorchScriptScan& scan, const KnownOperators& known) {
  const auto missing = missing_names(
      scan, [&](const std::string& name) { return known.has_operator(name); },
      [&](const std::string& name) { return known.has_class(name); });
  Json list = Json::array();
  const auto add = [&](const ScriptUse& use, const char* what) {
    Json json = use_json(use);
    json["what"] = what;
    json["library"] = library_of(use.name).name;
    json["hint"] = load_library_hint(use.name);
    list.push_back(std::move(json));
  };
  for (const auto& use : missing.operators) add(use, "operator");
  for (const auto& use : missing.classes) add(use, "class");
  return list;
}

/// The module tree as rows of a table.
class ModuleTable {
 public:
  ModuleTable(const Json& modules, bool everything) : modules_(modules) {
    for (const auto& module : modules) {
      paths_.push_back(module["path"].get<std::string>());
      depths_.push_back(module["depth"].get<std::size_t>());
      parents_.push_back(module["parent"].get<std::size_t>());
      params_.push_back(elements(module, "parameters"));
      bytes_.push_back(bytes(module));
    }
    // A parent stands before its children: sums flow upwards from the end.
    for (std::size_t row = paths_.size(); row-- > 1;) {
      params_[parents_[row]] += params_[row];
      bytes_[parents_[row]] += bytes_[row];
    }
    most_depth_ = everything ? paths_.size() : depth_that_fits();
    most_rows_ = everything ? paths_.size() : kMaxRows;
  }

  void print(Output& out) const {
    Table table({{"module", 32, false}, {"class", 26, false}, {"params", 0, true}, {"bytes", 0, true}});
    std::size_t shown = 0;
    for (std::size_t row = 1; row < paths_.size(); ++row) {
      if (depths_[row] > most_depth_ || shown == most_rows_) continue;
      ++shown;
      table.add({name(row), class_text(row), count_text(params_[row]), bytes_text(bytes_[row])});
    }
    table.add({"total", counted(static_cast<std::int64_t>(paths_.size()) - 1, "module"), count_text(params_[0]),
               bytes_text(bytes_[0])});
    table.print(out, "  ");
    if (const auto hidden = paths_.size() - 1 - shown; hidden > 0) {
      out.line("  … " + std::to_string(hidden) + " more inside (--all shows them)");
    }
  }

 private:
  static std::uint64_t elements(const Json& module, const char* sort) {
    return module[sort]["elements"].get<std::uint64_t>();
  }
  static std::uint64_t bytes(const Json& module) {
    std::uint64_t sum = 0;
    for (const char* sort : {"parameters", "buffers", "constants"}) sum += module[sort]["bytes"].get<std::uint64_t>();
    return sum;
  }
  static std::string count_text(std::uint64_t count) { return count > 0 ? format_count(count) : "-"; }
  static std::string bytes_text(std::uint64_t count) { return count > 0 ? format_bytes(count) : "-"; }

  /// The deepest level at which the whole tree down to it still fits.
  std::size_t depth_that_fits() const {
    std::map<std::size_t, std::size_t> rows;
    for (std::size_t row = 1; row < depths_.size(); ++row) ++rows[depths_[row]];
    std::size_t fits = 1;
    std::size_t sum = 0;
    for (const auto& [depth, count] : rows) {
      sum += count;
      if (sum > kMaxRows) break;
      fits = depth;
    }
    return fits;
  }

  std::string name(std::size_t row) const {
    const auto& path = paths_[row];
    const auto& parent = paths_[parents_[row]];
    const auto begin = parent.empty() || path.size() <= parent.size() ? 0 : parent.size() + 1;
    return std::string(2 * (depths_[row] - 1), ' ') + path.substr(begin);
  }

  std::string short_class(std::size_t row) const {
    const auto qualified = modules_[row]["class"].get<std::string>();
    return qualified.substr(qualified.rfind('.') + 1);
  }

  /// The class; of a module whose children are not shown also what they are.
  std::string class_text(std::size_t row) const {
    std::string text = short_class(row);
    if (modules_[row].value("restored", false)) text += " (__setstate__)";
    if (depths_[row] < most_depth_) return text;
    std::set<std::string> classes;
    std::size_t count = 0;
    for (std::size_t child = row + 1; child < paths_.size() && depths_[child] > depths_[row]; ++child) {
      if (depths_[child] != depths_[row] + 1) continue;
      ++count;
      classes.insert(short_class(child));
    }
    if (count == 0) return text;
    return text + " of " + std::to_string(count) + (classes.size() == 1 ? " " + *classes.begin() : "");
  }

  const Json& modules_;
  std::vector<std::string> paths_;
  std::vector<std::size_t> depths_;
  std::vector<std::size_t> parents_;
  std::vector<std::uint64_t> params_;
  std::vector<std::uint64_t> bytes_;
  std::size_t most_depth_ = 0;
  std::size_t most_rows_ = 0;
};

/// A registered class without the prefix that all of them have.
std::string shown_name(const std::string& name) {
  constexpr std::string_view kPrefix = "__torch__.torch.classes.";
  return name.starts_with(kPrefix) ? "class " + name.substr(kPrefix.size()) : name;
}

std::string place_text(const Json& use) {
  auto text = use["file"].get<std::string>();
  if (use["line"].get<std::uint32_t>() > 0) text += ":" + std::to_string(use["line"].get<std::uint32_t>());
  if (use.contains("in_setstate")) text += "   " + use["function"].get<std::string>() + " runs while it is loaded";
  return escape_for_terminal(text);
}

/// One line a name with its place, cut to a few unless everything is wanted.
void print_findings(Output& out, const char* name, const Json& uses, bool everything) {
  const auto shown = everything ? uses.size() : std::min(uses.size(), kMaxFindings);
  std::size_t width = 0;
  const auto name_of = [&](std::size_t i) {
    return escape_for_terminal(shown_name(uses[i]["name"].get<std::string>()));
  };
  for (std::size_t i = 0; i < shown; ++i) width = std::max(width, display_width(name_of(i)));
  for (std::size_t i = 0; i < shown; ++i) {
    out.line(Style::kError, pad_right(i == 0 ? name : "", kParagraphIndent),
             pad_right(name_of(i), width) + "   " + place_text(uses[i]));
  }
  if (uses.size() > shown) {
    out.line(std::string(kParagraphIndent, ' ') + "and " + std::to_string(uses.size() - shown) + " more (--all)");
  }
}

void print_missing(Output& out, const Json& screen, bool everything) {
  if (screen["missing"].is_null()) {
    print_words(out, Style::kPlain, "missing", "unknown: there is no list of the engine's operators beside its plugin");
    return;
  }
  const auto& missing = screen["missing"];
  const auto engine = screen["engine"].get<std::string>();
  if (missing.empty()) {
    out.line("missing     none: " + engine + " knows all of them");
    return;
  }
  print_findings(out, "missing", missing, everything);
  std::vector<std::string> hints;
  for (const auto& use : missing) {
    auto hint = use["hint"].get<std::string>();
    if (std::ranges::find(hints, hint) == hints.end()) hints.push_back(std::move(hint));
  }
  for (const auto& hint : hints) print_words(out, Style::kHint, "hint", hint);
}

void print_unsafe(Output& out, const Json& screen, bool everything) {
  if (screen["unsafe"].empty()) return;
  print_findings(out, "unsafe", screen["unsafe"], everything);
  std::vector<std::string> pieces = {"trace refuses such a file; to run it all the same:"};
  for (const auto& use : screen["unsafe"]) {
    pieces.push_back("--allow-op " + shell_quoted(use["name"].get<std::string>()));
  }
  print_pieces(out, Style::kHint, "hint", pieces);
}

}  // namespace

void fill_operators(Json& screen, const TorchScriptScan& scan, const KnownOperators* known) {
  screen["operators"] = uses_json(scan.operators);
  screen["classes"] = uses_json(scan.classes);
  screen["engine"] = known != nullptr ? Json(known->engine) : Json();
  screen["missing"] = known != nullptr ? missing_json(scan, *known) : Json();
  screen["unsafe"] = uses_json(unsafe_uses(scan));
}

void print_module_table(Output& out, const Json& modules, bool everything) {
  ModuleTable(modules, everything).print(out);
}

void print_tensors(Output& out, const Json& screen) {
  const auto line = [&](const char* key, const char* name, const char* note) {
    if (screen[key]["tensors"].get<std::uint64_t>() == 0) return;
    out.line(pad_right(name, kParagraphIndent) + totals_text(screen[key]) + note);
  };
  line("parameters", "parameters", "");
  line("buffers", "buffers", "");
  line("constants", "constants", "   other tensors of attributes and code");
  std::size_t shown = 0;
  for (const auto& names : screen["tied"]) {
    if (++shown > kMaxTied) break;
    std::string text;
    for (const auto& name : names) text += (text.empty() ? "" : " = ") + escape_for_terminal(name.get<std::string>());
    out.line(pad_right(shown == 1 ? "tied" : "", kParagraphIndent) + text);
  }
  if (screen["tied"].size() > kMaxTied) {
    out.line(std::string(kParagraphIndent, ' ') + "and " + std::to_string(screen["tied"].size() - kMaxTied) + " more");
  }
}

void print_operators(Output& out, const Json& screen, bool everything) {
  const auto most = everything ? screen["operators"].size() : kMaxNames;
  auto operators = most_used(screen["operators"], most);
  if (!operators.empty()) operators[0] = std::to_string(screen["operators"].size()) + ": " + operators[0];
  print_items(out, "operators", operators.empty() ? std::vector<std::string>{"none"} : operators);
  if (!screen["classes"].empty()) {
    auto classes = most_used(screen["classes"], everything ? screen["classes"].size() : kMaxNames);
    for (auto& name : classes) name = shown_name(name).substr(name.starts_with("__torch__") ? 6 : 0);
    print_items(out, "classes", classes);
  }
  print_missing(out, screen, everything);
  print_unsafe(out, screen, everything);
}

}  // namespace tl::cli
