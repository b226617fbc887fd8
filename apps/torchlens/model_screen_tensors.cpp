#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "archive/unpickler.h"
#include "core/error.h"
#include "core/text.h"
#include "model_screen_parts.h"
#include "table.h"
#include "tensor/safetensors.h"
#include "text_format.h"

namespace tl::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxRows = 12;

/// Collects the tensors of a file that holds nothing else.
class TensorList {
 public:
  void add(const std::string& name, const PickledTensor& tensor) {
    names_.push_back({{"name", name}, {"dtype", short_name(tensor.dtype)}, {"shape", tensor.sizes}});
    if (!seen_.insert(tensor.identity).second) return;
    const TensorTotals one{1, tensor.elements, tensor.bytes};
    totals_ += one;
    dtypes_[std::string(short_name(tensor.dtype))] += one;
  }

  void fill(Json& screen) {
    screen["tensors"] = totals_json(totals_);
    Json dtypes = Json::array();
    for (const auto& [dtype, totals] : dtypes_) {
      Json json = {{"dtype", dtype}};
      json.update(totals_json(totals));
      dtypes.push_back(std::move(json));
    }
    screen["dtypes"] = std::move(dtypes);
    screen["names"] = std::move(names_);
  }

 private:
  Json names_ = Json::array();
  TensorTotals totals_;
  std::map<std::string, TensorTotals> dtypes_;
  std::set<TensorIdentity> seen_;
};

void read_safetensors(Json& screen, const ModelLook& look, TensorList& list) {
  const auto file = SafetensorsFile::from_bytes(look.file->bytes(), look.file, look.info.path.string());
  for (const auto& entry : file.entries()) {
    PickledTensor tensor;
    tensor.dtype = entry.dtype;
    tensor.sizes = entry.sizes;
    tensor.elements = static_cast<std::uint64_t>(checked_numel(entry.sizes));
    tensor.bytes = entry.end - entry.begin;
    tensor.identity = {&entry, 0, entry.dtype, {}, {}};
    list.add(entry.name, tensor);
  }
  if (!file.metadata().empty()) screen["metadata"] = file.metadata();
}

}  // namespace

void fill_tensor_file(Json& screen, const ModelLook& look) {
  TensorList list;
  if (look.info.kind == ModelKind::kSafetensors) {
    read_safetensors(screen, look, list);
  } else {
    try {
      const auto value = read_torch_pickle(*look.zip, look.info.root + "data.pkl", look.info.root + "data/",
                                           {.script_classes = false, .tensors_without_data = true, .sizes_only = true});
      for_each_tensor(value, "", [&](const std::string& name, const PickledTensor& tensor) { list.add(name, tensor); });
    } catch (const Error& error) {
      if (error.code != ErrorCode::kUnsafePickle && error.code != ErrorCode::kUnsupportedKind) throw;
      screen["tree_error"] = error.message;
    }
  }
  list.fill(screen);
}

void print_tensor_file(Output& out, const Json& screen, bool everything) {
  const auto& names = screen["names"];
  const auto shown = everything ? names.size() : std::min(names.size(), kMaxRows);
  out.line();
  if (shown > 0) {
    Table table({{"tensor", 48, false}, {"dtype", 0, false}, {"shape", 24, false}});
    for (std::size_t i = 0; i < shown; ++i) {
      table.add({names[i]["name"].get<std::string>(), names[i]["dtype"].get<std::string>(),
                 format_sizes(names[i]["shape"].get<std::vector<std::int64_t>>())});
    }
    table.print(out, "  ");
    if (names.size() > shown) out.line("  … " + std::to_string(names.size() - shown) + " more (--all)");
    out.line();
  }
  if (screen.contains("tree_error")) out.line("tensors     not read: " + screen["tree_error"].get<std::string>());
  out.line("tensors     " + totals_text(screen["tensors"]));
  if (screen["dtypes"].size() > 1) {
    std::vector<std::string> items;
    for (const auto& row : screen["dtypes"]) {
      items.push_back(row["dtype"].get<std::string>() + " ×" + std::to_string(row["tensors"].get<std::uint64_t>()));
    }
    print_items(out, "dtypes", items);
  }
  if (screen.contains("metadata")) {
    std::vector<std::string> items;
    for (const auto& [key, value] : screen["metadata"].items()) {
      items.push_back(key + "=" + elide(value.get<std::string>(), 60));
    }
    if (items.size() > kMaxRows && !everything) {
      items.resize(kMaxRows);
      items.push_back("and more (--all)");
    }
    print_items(out, "metadata", items);
  }
}

}  // namespace tl::cli
