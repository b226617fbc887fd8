#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>

#include "archive/contents_parts.h"
#include "archive/tensor_walk.h"
#include "archive/torchscript_summary.h"
#include "archive/unpickler.h"
#include "core/error.h"

namespace tl {
namespace {

using Kind = ModelTensor::Kind;

std::string real_text(double value) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

/// A number, string, None or short list of these as text; empty for anything else.
std::string literal_of(const PickleValue& value) {
  constexpr std::size_t kMostItems = 64;
  if (value.is_none()) return "None";
  if (const auto* flag = value.boolean()) return *flag ? "True" : "False";
  if (const auto* integer = value.integer()) return std::to_string(*integer);
  if (const auto* real = value.real()) return real_text(*real);
  if (const auto* text = value.string()) return "\"" + *text + "\"";
  const auto* sequence = value.sequence();
  if (sequence == nullptr || sequence->items.empty() || sequence->items.size() > kMostItems) return {};
  std::string list;
  for (const auto& item : sequence->items) {
    const auto text = item.sequence() == nullptr ? literal_of(item) : std::string();
    if (text.empty()) return {};
    list += (list.empty() ? "[" : ", ") + text;
  }
  return list + "]";
}

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// Walks the objects of data.pkl as summarise_torchscript does, with their values.
class ContentsWalk {
 public:
  ContentsWalk(const ScriptClasses& classes, ModelContents& contents, TensorDigests& digests)
      : classes_(classes), contents_(contents), digests_(digests) {}

  void walk(const PickleObject& object, const std::string& path) {
    if (!seen_.insert(&object).second) return;  // one module under two names
    const auto row = contents_.modules.size();
    contents_.modules.push_back({path, demangled_class(object.class_name), {}});
    paths_[object.class_name].push_back(path);
    const auto* declared = declaration(object.class_name);
    const auto* state = object.state.dict();
    if (state == nullptr || (declared != nullptr && declared->method("__setstate__") != nullptr)) {
      return add_tensors(object.state, path, Kind::kConstant, contents_, digests_);
    }
    for (const auto& [key, value] : state->items) {
      if (const auto* name = key.string()) attribute(*name, value, declared, path, row);
    }
    for (const auto& [key, value] : state->items) {
      const auto* name = key.string();
      if (name != nullptr && is_module(value)) walk(*value.object(), path_below(path, *name));
    }
  }

  const std::map<std::string, std::vector<std::string>>& paths_of_classes() const { return paths_; }

 private:
  const ScriptClass* declaration(const std::string& class_name) const {
    const auto found = classes_.find(class_name);
    return found == classes_.end() ? nullptr : &found->second;
  }

  bool is_module(const PickleValue& value) const {
    const auto* object = value.object();
    if (object == nullptr) return false;
    if (const auto* declared = declaration(object->class_name)) return declared->base == "Module";
    const auto* state = object->state.dict();
    return state != nullptr && state->find("training") != nullptr;
  }

  void attribute(const std::string& name, const PickleValue& value, const ScriptClass* declared,
                 const std::string& path, std::size_t row) {
    if (name == "training" && value.boolean() != nullptr) {
      contents_.modules[row].training = *value.boolean();
      return;
    }
    if (is_module(value)) return;
    if (auto literal = literal_of(value); !literal.empty()) {
      contents_.attributes.emplace_back(path_below(path, name), std::move(literal));
      return;
    }
    auto kind = Kind::kConstant;
    if (declared != nullptr && contains(declared->parameters, name)) kind = Kind::kParameter;
    if (declared != nullptr && contains(declared->buffers, name)) kind = Kind::kBuffer;
    add_tensors(value, path_below(path, name), kind, contents_, digests_);
  }

  const ScriptClasses& classes_;
  ModelContents& contents_;
  TensorDigests& digests_;
  std::set<const PickleObject*> seen_;
  std::map<std::string, std::vector<std::string>> paths_;  // by qualified class
};

constexpr UnpickleOptions kRead = {.script_classes = true, .tensors_without_data = true, .sizes_only = false};

/// Reads a pickle; what it holds beyond this reader becomes a note, what is wrong with it is thrown.
template <typename Take>
void read_pickle(const ZipDirectory& zip, const std::string& pickle, const std::string& storages,
                 ModelContents& contents, Take&& take) {
  try {
    take(read_torch_pickle(zip, pickle, storages, kRead));
  } catch (const Error& error) {
    if (error.code != ErrorCode::kUnsafePickle && error.code != ErrorCode::kUnsupportedKind) throw;
    contents.notes.push_back("not read: " + error.message);
  }
}

/// Inputs that are tensors are told apart by element type where a trace tells it; it does not bind callers to sizes.
void add_inputs(const TorchScriptSummary& summary, ModelContents& contents) {
  const auto forward = std::ranges::find(summary.methods, "forward", &ScriptMethod::name);
  if (forward == summary.methods.end()) return;
  contents.has_inputs = true;
  for (const auto& parameter : forward->parameters) {
    ModelInput input;
    input.name = parameter.name;
    input.type = parameter.type;
    input.optional = parameter.has_default || parameter.type.starts_with("Optional[");
    for (const auto& stored : summary.inputs) {
      if (stored.method == "forward" && stored.name == parameter.name) input.dtype = stored.dtype;
    }
    contents.inputs.push_back(std::move(input));
  }
}

void add_code(const ZipDirectory& zip, const std::map<std::string, std::vector<std::string>>& paths,
              ModelContents& contents) {
  const auto root = archive_root(zip);
  for (const auto& entry : zip.entries()) {
    if (!entry.name.starts_with(root + "code/") || !entry.name.ends_with(".py")) continue;
    std::vector<std::string> names;
    const auto source = zip.read_text(entry);
    auto units = script_units(source, std::string_view(entry.name).substr(root.size()), names);
    for (std::size_t i = 0; i < units.size(); ++i) {
      if (const auto found = paths.find(names[i]); found != paths.end()) units[i].paths = found->second;
      contents.code.push_back(std::move(units[i]));
    }
  }
  std::ranges::stable_sort(contents.code, {}, &ScriptUnit::name);
}

}  // namespace

ModelContents torchscript_contents(const ZipDirectory& zip, unsigned threads) {
  ModelContents contents;
  TensorDigests digests(&zip);
  ScriptClasses classes;
  const auto summary = summarise_torchscript(zip, &classes);
  contents.kind = summary.traced ? "TorchScript trace" : "TorchScript script";
  contents.operator_form = summary.traced ? OperatorForm::kTraceSource : OperatorForm::kScriptSource;
  contents.operators = operator_counts(summary.scan);
  contents.mode = summary.mode == "baked" ? "" : summary.mode;
  contents.dtype = summary.dtype;
  contents.all_modules = true;
  const auto root = archive_root(zip);
  ContentsWalk walk(classes, contents, digests);
  read_pickle(zip, root + "data.pkl", root + "data/", contents, [&](const PickleValue& tree) {
    if (tree.object() != nullptr) walk.walk(*tree.object(), "");
  });
  if (const auto* entry = zip.find(root + "constants.pkl"); entry != nullptr && entry->size > 0) {
    read_pickle(zip, entry->name, root + "constants/", contents, [&](const PickleValue& value) {
      const auto* items = value.sequence();
      for (std::size_t i = 0; items != nullptr && i < items->items.size(); ++i) {
        add_tensors(items->items[i], "CONSTANTS.c" + std::to_string(i), Kind::kConstant, contents, digests);
      }
    });
  }
  add_inputs(summary, contents);
  add_code(zip, walk.paths_of_classes(), contents);
  if (!contents.modules.empty()) contents.model_class = contents.modules[0].class_name;
  digests.take(contents.tensors, threads);
  contents.details = joined_details({contents.kind, summary.mode, contents.dtype});
  if (summary.traced) {
    for (auto& module : contents.modules) module.training.reset();  // what ran is baked into the code
  }
  return contents;
}

}  // namespace tl
