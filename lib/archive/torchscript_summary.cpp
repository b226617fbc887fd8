#include "archive/torchscript_summary.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "archive/tensor_walk.h"
#include "archive/unpickler.h"
#include "archive/zip_directory.h"
#include "core/error.h"

namespace tl {
namespace {

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// Walks the objects of data.pkl as LibTorch's module tree is walked: tensors of a module first, then its submodules.
class TreeWalk {
 public:
  TreeWalk(const ScriptClasses& classes, TorchScriptSummary& summary) : classes_(classes), summary_(summary) {}

  void walk(const PickleObject& object, const std::string& path, std::size_t parent, std::size_t depth) {
    if (!seen_.insert(&object).second) return;  // one module under two names
    const std::size_t row = summary_.modules.size();
    charge(path);
    summary_.modules.push_back({path, demangled_class(object.class_name), parent, depth, {}, {}, {}, false});
    const auto found = classes_.find(object.class_name);
    const ScriptClass* declared = found == classes_.end() ? nullptr : &found->second;
    const PickleDict* state = object.state.dict();
    if ((declared != nullptr && declared->method("__setstate__") != nullptr) || state == nullptr) {
      summary_.modules[row].restored = !object.state.is_none();
      return tensors(object.state, path, row, Sort::kConstant);
    }
    for (const auto& [key, value] : state->items) {
      if (const std::string* name = key.string()) attribute(*name, value, declared, path, row);
    }
    for (const auto& [key, value] : state->items) {
      const std::string* name = key.string();
      if (name != nullptr && is_module(value)) walk(*value.object(), path_below(path, *name), row, depth + 1);
    }
  }

  void constants(const PickleValue& value) { tensors(value, "CONSTANTS", 0, Sort::kConstant); }

  void finish() {
    for (auto& [identity, names] : names_of_) {
      if (names.size() > 1) summary_.tied.push_back(std::move(names));
    }
    std::ranges::sort(summary_.tied);
    if (!summary_.modules.empty())
      summary_.mode = training_ && eval_ ? "mixed" : training_ ? "train" : eval_ ? "eval" : "baked";
    const auto most = std::ranges::max_element(bytes_of_, {}, [](const auto& entry) { return entry.second; });
    if (most != bytes_of_.end()) summary_.dtype = short_name(most->first);
  }

 private:
  enum class Sort { kParameter, kBuffer, kConstant };

  /// Shared containers can spell long names again and again at no cost to the file.
  void charge(const std::string& name) {
    constexpr std::size_t kMaxNameBytes = std::size_t{64} << 20;
    name_bytes_ += name.size();
    if (name_bytes_ > kMaxNameBytes) {
      throw Error(ErrorCode::kFileLimits, "data.pkl: the names of its modules and tensors take more than " +
                                              std::to_string(kMaxNameBytes) + " bytes");
    }
  }

  /// Of the classes that the sources declare, only modules are part of the tree; one without a source is one too if it
  /// looks like it.
  bool is_module(const PickleValue& value) const {
    const PickleObject* object = value.object();
    if (object == nullptr) return false;
    const auto found = classes_.find(object->class_name);
    if (found != classes_.end()) return found->second.base == "Module";
    const PickleDict* state = object->state.dict();
    return state != nullptr && state->find("training") != nullptr;
  }

  void attribute(const std::string& name, const PickleValue& value, const ScriptClass* declared,
                 const std::string& path, std::size_t row) {
    if (name == "training") {
      if (const bool* flag = value.boolean()) (*flag ? training_ : eval_) = true;
      return;
    }
    if (is_module(value)) return;
    Sort sort = Sort::kConstant;
    if (declared != nullptr && contains(declared->parameters, name)) sort = Sort::kParameter;
    if (declared != nullptr && contains(declared->buffers, name)) sort = Sort::kBuffer;
    tensors(value, path_below(path, name), row, sort);
  }

  void tensors(const PickleValue& value, const std::string& name, std::size_t row, Sort sort) {
    for_each_tensor(value, name, [&](const std::string& role, const PickledTensor& tensor) {
      const auto [known, fresh] = names_of_.try_emplace(tensor.identity);
      if (sort != Sort::kConstant) {
        charge(role);
        known->second.push_back(role);
      }
      if (!fresh) return;
      const TensorTotals one{1, tensor.elements, tensor.bytes};
      if (sort != Sort::kBuffer && !tensor.sizes.empty()) bytes_of_[tensor.dtype] += tensor.bytes;
      TensorTotals& all = sort == Sort::kParameter ? summary_.parameters
                          : sort == Sort::kBuffer  ? summary_.buffers
                                                   : summary_.constants;
      all += one;
      if (summary_.modules.empty()) return;
      ScriptModule& module = summary_.modules[row];
      (sort == Sort::kParameter ? module.parameters : sort == Sort::kBuffer ? module.buffers : module.constants) += one;
    });
  }

  const ScriptClasses& classes_;
  TorchScriptSummary& summary_;
  std::set<const PickleObject*> seen_;
  std::map<TensorIdentity, std::vector<std::string>> names_of_;
  std::map<DType, std::uint64_t> bytes_of_;
  std::size_t name_bytes_ = 0;
  bool training_ = false;
  bool eval_ = false;
};

constexpr UnpickleOptions kLook = {.script_classes = true, .tensors_without_data = true, .sizes_only = true};

/// Runs `read`; what the file holds beyond this reader is said in `problem`, what is wrong with it is thrown.
template <typename Read>
void tolerant(std::string& problem, Read&& read) {
  try {
    read();
  } catch (const Error& error) {
    if (error.code != ErrorCode::kUnsafePickle && error.code != ErrorCode::kUnsupportedKind) throw;
    problem = error.message;
  }
}

void read_inputs(const ZipDirectory& zip, const std::string& root, const ScriptClass* declared,
                 TorchScriptSummary& summary) {
  const PickleValue value = read_torch_pickle(zip, root + "traced_inputs.pkl", root + "traced_inputs/", kLook);
  if (value.dict() == nullptr) return;
  for (const auto& [key, arguments] : value.dict()->items) {
    if (key.string() == nullptr || arguments.sequence() == nullptr) continue;
    const ScriptMethod* method = declared != nullptr ? declared->method(*key.string()) : nullptr;
    const auto& items = arguments.sequence()->items;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::string name =
          method != nullptr && i < method->parameters.size() ? method->parameters[i].name : std::to_string(i);
      if (items[i].integer() != nullptr) {
        summary.inputs.push_back({*key.string(), name, DType::kNone, {}, std::to_string(*items[i].integer())});
      }
      for_each_tensor(items[i], name, [&](const std::string& role, const PickledTensor& tensor) {
        summary.inputs.push_back({*key.string(), role, tensor.dtype, tensor.sizes, {}});
      });
    }
  }
}

}  // namespace

TensorTotals& TensorTotals::operator+=(const TensorTotals& other) {
  tensors += other.tensors;
  elements += other.elements;
  bytes += other.bytes;
  return *this;
}

TorchScriptSummary summarise_torchscript(const ZipDirectory& zip, ScriptClasses* declared_classes) {
  TorchScriptSummary summary;
  ScriptClasses classes;
  summary.scan = scan_torchscript(zip, &classes);
  const std::string root = archive_root(zip);
  summary.traced = zip.find(root + "traced_inputs.pkl") != nullptr;
  TreeWalk walk(classes, summary);
  const ScriptClass* declared = nullptr;
  tolerant(summary.tree_error, [&] {
    const PickleValue tree = read_torch_pickle(zip, root + "data.pkl", root + "data/", kLook);
    if (tree.object() == nullptr) return;
    walk.walk(*tree.object(), "", 0, 0);
    const auto found = classes.find(tree.object()->class_name);
    if (found != classes.end()) declared = &found->second;
  });
  if (declared != nullptr) summary.methods = declared->methods;
  if (const ZipEntry* entry = zip.find(root + "constants.pkl"); entry != nullptr && entry->size > 0) {
    std::string ignored;
    tolerant(ignored, [&] { walk.constants(read_torch_pickle(zip, entry->name, root + "constants/", kLook)); });
  }
  walk.finish();
  if (summary.traced) {
    if (!summary.modules.empty()) summary.mode = "baked";
    std::string ignored;
    tolerant(ignored, [&] { read_inputs(zip, root, declared, summary); });
  }
  if (declared_classes != nullptr) *declared_classes = std::move(classes);
  return summary;
}

}  // namespace tl
