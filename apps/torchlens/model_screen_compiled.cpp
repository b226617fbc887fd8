#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "archive/unpickler.h"
#include "core/error.h"
#include "core/text.h"
#include "model_screen_parts.h"
#include "text_format.h"

namespace tl::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxNames = 24;

/// The value of a bytecode table `('operators', (…))` in the parts of one function; nullptr if there is none.
const PickleSequence* table_of(const PickleSequence& parts, std::string_view name) {
  for (const auto& part : parts.items) {
    const auto* pair = part.sequence();
    if (pair != nullptr && pair->items.size() == 2 && pair->items[0].string() != nullptr &&
        *pair->items[0].string() == name) {
      return pair->items[1].sequence();
    }
  }
  return nullptr;
}

// bytecode.pkl: (version, (function name, (('instructions', …), ('operators', ((name, overload[, arguments]), …)), …)),
// …)
void read_bytecode(Json& screen, const PickleValue& bytecode) {
  const auto* root = bytecode.sequence();
  if (root == nullptr || root->items.empty()) return;
  if (const auto* version = root->items[0].integer()) screen["bytecode_version"] = *version;
  std::map<std::string, std::uint64_t> operators;
  Json functions = Json::array();
  for (const auto& item : root->items) {
    const auto* function = item.sequence();
    if (function == nullptr || function->items.size() < 2 || function->items[0].string() == nullptr) continue;
    functions.push_back(demangled_class(*function->items[0].string()));
    const auto* parts = function->items[1].sequence();
    const auto* names = parts != nullptr ? table_of(*parts, "operators") : nullptr;
    if (names == nullptr) continue;
    for (const auto& row : names->items) {
      const auto* fields = row.sequence();
      if (fields != nullptr && !fields->items.empty() && fields->items[0].string() != nullptr) {
        ++operators[*fields->items[0].string()];
      }
    }
  }
  screen["functions"] = std::move(functions);
  Json list = Json::array();
  for (const auto& [name, count] : operators) list.push_back({{"name", name}, {"count", count}});
  screen["operators"] = std::move(list);
}

}  // namespace

void fill_lite_interpreter(Json& screen, const ModelLook& look) {
  const auto& root = look.info.root;
  const UnpickleOptions options = {.script_classes = true, .tensors_without_data = true, .sizes_only = true};
  TensorTotals totals;
  try {
    read_bytecode(screen, read_torch_pickle(*look.zip, root + "bytecode.pkl", root + "bytecode/", options));
    if (look.zip->find(root + "data.pkl") != nullptr) {
      const auto value = read_torch_pickle(*look.zip, root + "data.pkl", root + "data/", options);
      for_each_tensor(value, "", [&](const std::string&, const PickledTensor& tensor) {
        totals += {1, tensor.elements, tensor.bytes};
      });
    }
  } catch (const Error& error) {
    if (error.code != ErrorCode::kUnsafePickle && error.code != ErrorCode::kUnsupportedKind) throw;
    screen["tree_error"] = error.message;
  }
  screen["tensors"] = totals_json(totals);
}

void print_lite_interpreter(Output& out, const Json& screen, bool everything) {
  if (screen.contains("tree_error")) out.line("bytecode    not read: " + screen["tree_error"].get<std::string>());
  if (screen.contains("functions")) {
    auto functions = screen["functions"].get<std::vector<std::string>>();
    if (functions.size() > kMaxNames && !everything) {
      functions.resize(kMaxNames);
      functions.emplace_back("and more (--all)");
    }
    print_items(out, "functions", functions);
  }
  if (screen.contains("operators")) {
    print_items(out, "operators", most_used(screen["operators"], everything ? screen["operators"].size() : kMaxNames));
  }
  out.line("tensors     " + totals_text(screen["tensors"]));
}

void fill_aot_inductor(Json& screen, const ModelLook& look) {
  const std::string folder = look.info.root + "data/aotinductor/";
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> packages;
  for (const auto& entry : look.zip->entries()) {
    if (!entry.name.starts_with(folder)) continue;
    const auto rest = std::string_view(entry.name).substr(folder.size());
    auto& [files, bytes] = packages[std::string(rest.substr(0, rest.find('/')))];
    ++files;
    bytes += entry.size;
  }
  Json list = Json::array();
  for (const auto& [name, sums] : packages) {
    list.push_back({{"name", name}, {"files", sums.first}, {"bytes", sums.second}});
  }
  screen["packages"] = std::move(list);
}

void print_aot_inductor(Output& out, const Json& screen, bool) {
  std::vector<std::string> items;
  for (const auto& package : screen["packages"]) {
    items.push_back(package["name"].get<std::string>() + " (" + counted(package["files"].get<std::int64_t>(), "file") +
                    "; " + format_bytes(package["bytes"].get<std::uint64_t>()) + ")");
  }
  print_items(out, "compiled", items);
}

}  // namespace tl::cli
