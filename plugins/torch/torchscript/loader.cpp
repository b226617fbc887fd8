#include "torchscript/loader.h"

#include <ATen/core/class_type.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "archive/operator_library.h"
#include "archive/torchscript_check.h"
#include "archive/torchscript_refusal.h"
#include "archive/torchscript_scan.h"
#include "archive/zip_directory.h"
#include "bridge/tensor_bridge.h"
#include "core/error.h"
#include "core/mapped_file.h"
#include "torchscript/record_reader.h"
#include "torchscript/registry_names.h"

namespace tl::lt {
namespace {

std::string base_name(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

// --- refusals before LibTorch sees the file
// ----------------------------------------------------------------------------

void refuse(std::optional<Error> refusal) {
  if (refusal) throw *std::move(refusal);
}

void refuse_missing(const TorchScriptScan& scan, const std::string& file_name) {
  const auto known = known_operator_names();
  const auto knows = [&](const std::string& name) { return std::ranges::binary_search(known, name); };
  refuse(missing_refusal(missing_names(scan, knows, is_known_class), file_name));
}

[[noreturn]] void refuse_load(const std::string& path, const std::string& message) {
  const auto begin_of_text = std::min(message.find_first_not_of(" \n"), message.size());
  const auto first_line = message.substr(begin_of_text, message.find('\n', begin_of_text) - begin_of_text);
  const auto has = [&](const char* text) { return message.find(text) != std::string::npos; };
  const auto file = base_name(path);
  if (has("Unknown builtin op: ")) {
    const auto begin = message.find("Unknown builtin op: ") + std::strlen("Unknown builtin op: ");
    const auto end = message.find_first_of(".\n ", begin);
    const auto name = message.substr(begin, end - begin);
    throw Error(ErrorCode::kMissingOperators, file + ": no loaded library registers " + name, load_library_hint(name));
  }
  if (has("Unknown type name '__torch__.torch.classes")) {
    throw Error(ErrorCode::kMissingClasses, file + ": " + first_line,
                "pass --load-library with the shared library that registers the class");
  }
  if (has("CRC") || has("PytorchStreamReader") || has("unexpected end") || has("central directory")) {
    throw Error(ErrorCode::kFileDamaged, file + ": LibTorch cannot read it: " + first_line);
  }
  throw Error(
      ErrorCode::kUnsupportedProgram, file + ": LibTorch cannot load it: " + first_line,
      "load it with torch.jit.load in Python to see the whole error, and save it again without the transformation "
      "(optimize_for_inference output never loads)");
}

/// A file whose structure was checked and which nothing speaks against, but for the checksums of its weights: those are
/// verified while LibTorch reads them, on another thread, since that takes a quarter of the time of reading. The same
/// pass takes the digests of the weights.
class CheckedFile {
 public:
  explicit CheckedFile(const ModelRequest& request)
      : path_(request.path), bytes_(MappedFile::open(path_)), zip_(bytes_->bytes(), base_name(path_)) {
    check_torchscript_structure(zip_);
    const auto scan = scan_torchscript(zip_);
    has_setstate_ = scan.has_setstate;
    refuse(unsafe_refusal(scan, request.allowed_ops, base_name(path_)));
    refuse_missing(scan, base_name(path_));
  }

  bool is_trace() const {
    return std::ranges::any_of(zip_.entries(),
                               [](const auto& entry) { return entry.name.ends_with("/traced_inputs.pkl"); });
  }

  /// LibTorch's module; a wrong checksum is what is reported, whatever LibTorch made of the bytes.
  torch::jit::Module load(c10::Device device) {
    // The loading thread and this one keep two cores busy; more help only beside more of them.
    auto checksums = std::async(std::launch::async,
                                [this] { zip_.verify_and_digest(std::thread::hardware_concurrency() > 2 ? 2 : 1); });
    std::optional<std::string> failure;
    torch::jit::Module module;
    try {
      reader_ = std::make_shared<RecordReader>(path_, bytes_->bytes().size(), zip_);
      module = torch::jit::load(reader_, device);
    } catch (const Error&) {
      throw;
    } catch (const c10::Error& error) {
      failure = error.what_without_backtrace();
    } catch (const std::exception& error) {
      failure = error.what();
    }
    checksums.get();
    if (failure) refuse_load(path_, *failure);
    return module;
  }

  /// Digest of what a tensor of the loaded module holds, if it is what the file holds; empty otherwise.
  std::string digest_of(const at::Tensor& tensor) const {
    if (has_setstate_) return {};  // code of the file ran and may have written to it
    const auto* entry = reader_->entry_of(tensor);
    return entry == nullptr ? std::string() : std::string(zip_.digest(*entry));
  }

 private:
  std::string path_;
  std::shared_ptr<const MappedFile> bytes_;
  ZipDirectory zip_;
  bool has_setstate_ = false;
  std::shared_ptr<RecordReader> reader_;
};

// --- what the file holds
// -----------------------------------------------------------------------------------------------

/// Walks the module tree in registration order and fills modules, params and buffers.
class ModuleWalk {
 public:
  ModuleWalk(LoadedScript& script, const CheckedFile& file) : script_(script), file_(file) {}

  void walk(const c10::intrusive_ptr<c10::ivalue::Object>& object, const std::string& address, std::int32_t parent) {
    auto& tables = script_.tables;
    auto& modules = tables.modules;
    const auto [found, fresh] = script_.modules.module_of_object.emplace(object.get(), modules.address.size());
    if (!fresh) {  // the same object under another name
      auto& all = modules.all_addresses.mut(found->second);
      all = tables.strings.intern(std::string(tables.strings[all]) + "," + address);
      return;
    }
    const auto type = object->type();
    const auto qualified = demangle(type->name() ? type->name()->qualifiedName() : "");
    const auto dot = qualified.rfind('.');
    const auto row = static_cast<std::int32_t>(found->second);
    const auto shown = tables.strings.intern(address.empty() ? "self" : address);
    modules.address.push_back(shown);
    modules.all_addresses.push_back(shown);
    modules.class_name.push_back(
        tables.strings.intern(dot == std::string::npos ? qualified : qualified.substr(dot + 1)));
    modules.qualified_class.push_back(tables.strings.intern(qualified));
    modules.parent.push_back(parent);
    modules.num_calls.push_back(0);
    const auto training = type->findAttributeSlot("training");
    const bool known = training && object->getSlot(*training).isBool();
    modules.training.push_back(known ? (object->getSlot(*training).toBool() ? 1 : 0) : 2);
    for (std::size_t slot = 0; slot < type->numAttributes(); ++slot) attribute(object, slot, address, row);
    for (std::size_t slot = 0; slot < type->numAttributes(); ++slot) {
      const auto& value = object->getSlot(slot);
      if (!type->getAttribute(slot)->is_module() || !value.isObject()) continue;
      walk(value.toObject(), path_below(address, type->getAttributeName(slot)), row);
    }
  }

 private:
  void attribute(const c10::intrusive_ptr<c10::ivalue::Object>& object, std::size_t slot, const std::string& address,
                 std::int32_t module) {
    const auto type = object->type();
    const auto& value = object->getSlot(slot);
    if (!may_hold_tensor(*type->getAttribute(slot))) return;
    auto& info = script_.modules.attributes[{object.get(), slot}];
    const auto name = path_below(address, type->getAttributeName(slot));
    if (value.isTensor() && value.toTensor().defined()) {
      const auto& tensor = value.toTensor();
      if (type->is_buffer(slot))
        info.buffer = buffer(tensor, name, module);
      else
        info.prov = Prov::param(
            param(tensor, name, module, type->is_parameter(slot) ? ParamKind::kParameter : ParamKind::kConstant));
      return;
    }
    nested(value, name, module);
  }

  /// Tensors inside lists, tuples and dicts of an attribute.
  void nested(const c10::IValue& value, const std::string& name, std::int32_t module) {
    for_each_leaf(value, name, [&](const std::string& role, const c10::IValue& leaf) {
      if (leaf.isTensor() && leaf.toTensor().defined()) param(leaf.toTensor(), role, module, ParamKind::kConstant);
    });
  }

  std::uint32_t param(const at::Tensor& tensor, const std::string& name, std::int32_t module, ParamKind kind) {
    auto& params = script_.tables.params;
    auto& strings = script_.tables.strings;
    if (tensor.unsafeGetTensorImpl()->has_storage()) {
      script_.modules.state_of_storage.emplace(tensor.storage().unsafeGetStorageImpl(), name);
    }
    // One parameter under several names is one tensor: same bytes seen the same way.
    const auto* storage =
        tensor.unsafeGetTensorImpl()->has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
    for (const auto& [known, row] : params_) {
      const bool same =
          known.is_same(tensor) ||
          (storage != nullptr && known.has_storage() && known.storage().unsafeGetStorageImpl() == storage &&
           known.storage_offset() == tensor.storage_offset() && known.sizes() == tensor.sizes() &&
           known.strides() == tensor.strides());
      if (!same) continue;
      auto& all = params.all_addresses.mut(row);
      all = strings.intern(std::string(strings[all]) + "," + name);
      if (kind == ParamKind::kParameter) params.kind.mut(row) = static_cast<std::uint8_t>(kind);
      script_.modules.known_tensors.insert_or_assign(tensor.unsafeGetTensorImpl(), Prov::param(row));
      return row;
    }
    const auto row = append_param(script_.tables, tensor, name, module, kind, file_.digest_of(tensor));
    params_.emplace_back(tensor, row);
    script_.modules.known_tensors.insert_or_assign(tensor.unsafeGetTensorImpl(), Prov::param(row));
    return row;
  }

  std::int32_t buffer(const at::Tensor& tensor, const std::string& name, std::int32_t module) {
    const auto row = append_buffer_row(script_.tables, tensor, name, module);
    script_.modules.buffers.push_back(tensor);
    script_.modules.known_tensors.insert_or_assign(tensor.unsafeGetTensorImpl(), Prov::buffer(row));
    if (tensor.unsafeGetTensorImpl()->has_storage()) {
      script_.modules.buffers_of_storage[tensor.storage().unsafeGetStorageImpl()].push_back(row);
    }
    return static_cast<std::int32_t>(row);
  }

  LoadedScript& script_;
  const CheckedFile& file_;
  std::vector<std::pair<at::Tensor, std::uint32_t>> params_;
};

std::string mode_of(const StaticTables& tables, bool traced) {
  if (traced) return "baked";
  bool training = false, eval = false;
  for (const auto flag : tables.modules.training) {
    training |= flag == 1;
    eval |= flag == 0;
  }
  if (training && eval) return "mixed";
  return training ? "train" : (eval ? "eval" : "baked");
}

Signature signature_of(const torch::jit::Function& function) {
  Signature signature;
  signature.method = function.name();
  const auto& schema = function.getSchema();
  std::string text = function.name() + "(";
  for (std::size_t i = 1; i < schema.arguments().size(); ++i) {
    const auto& argument = schema.arguments()[i];
    SignatureArgument out;
    out.name = argument.name();
    out.type = type_node(*argument.type());
    out.keyword_only = argument.kwarg_only();
    if (i > 1) text += ", ";
    text += argument.type()->annotation_str() + " " + argument.name();
    if (argument.default_value()) {
      out.has_default = true;
      out.default_text = text_of(*argument.default_value());
      text += "=" + out.default_text;
    }
    signature.arguments.push_back(std::move(out));
  }
  text += ")";
  if (!schema.returns().empty()) text += " -> " + schema.returns()[0].type()->annotation_str();
  signature.text = text;
  return signature;
}

void lower_all(LoadedScript& script, const ModelRequest& request, Lowering& lowering) {
  const auto type = script.module.type();
  const auto* entry = type->findMethod(request.method);
  if (entry == nullptr) {
    std::string names;
    for (const auto* method : type->methods()) names += (names.empty() ? "" : ", ") + method->name();
    throw Error(ErrorCode::kMethodNotFound, base_name(request.path) + ": no method '" + request.method + "'; it has " +
                                                (names.empty() ? "none" : names));
  }
  script.program.entry = lowering.lower(*entry);
  for (auto* hook : type->getForwardPreHooks()) {
    if (request.method == "forward") script.program.pre_hooks.push_back(lowering.lower(*hook));
  }
  for (auto* hook : type->getForwardHooks()) {
    if (request.method == "forward") script.program.hooks.push_back(lowering.lower(*hook));
  }
  // Interface calls find their method by the class of the object at run time: lower what they may reach.
  auto methods = std::make_shared<std::map<std::pair<const void*, std::string>, Function*>>();
  std::set<std::string> wanted;
  std::function<void(const Block&)> collect = [&](const Block& block) {
    for (const auto& instruction : block.instructions) {
      if (instruction.kind == InstructionKind::kCallInterface) wanted.insert(instruction.name);
      if (instruction.kind == InstructionKind::kEnter) wanted.insert({"__enter__", "__exit__"});
      for (const auto& nested : instruction.blocks) collect(nested);
    }
  };
  const auto unit = script.module._ivalue()->compilation_unit();
  for (std::size_t seen = 0; seen < script.program.functions.size();) {
    for (; seen < script.program.functions.size(); ++seen) collect(script.program.functions[seen]->body);
    for (auto* function : unit->get_functions()) {
      if (!function->isGraphFunction() || !wanted.contains(function->name())) continue;
      const auto owner = unit->get_class(function->qualname().prefix());
      if (owner)
        methods->emplace(std::pair<const void*, std::string>{owner.get(), function->name()}, lowering.lower(*function));
    }
  }
  script.program.find_method = [methods](const c10::ClassTypePtr& class_type, const std::string& name) -> Function* {
    const auto found = methods->find({class_type.get(), name});
    return found == methods->end() ? nullptr : found->second;
  };
}

}  // namespace

std::unique_ptr<LoadedScript> load_script(const ModelRequest& request, CrashSlate* slate) {
  const auto phase = [&](const char* text) {
    if (slate) std::snprintf(slate->phase, sizeof slate->phase, "%s", text);
  };
  phase("reading the archive");
  CheckedFile file(request);
  const bool traced = file.is_trace();
  phase("loading the model");
  auto script = std::make_unique<LoadedScript>();
  script->module = file.load(c10::Device(request.device));
  if (request.mode != ModelRequest::Mode::kAsSaved) {
    if (traced) {
      throw Error(ErrorCode::kModeNotAllowed, base_name(request.path) + ": is a trace, whose mode is baked in",
                  "leave --train and --eval away, or export the model in the mode you want");
    }
    script->module.train(request.mode == ModelRequest::Mode::kTrain);
  }
  phase("lowering the program");
  ModuleWalk(*script, file).walk(script->module._ivalue(), "", -1);
  Lowering lowering(script->program, script->tables, c10::Device(request.device));
  try {
    lower_all(*script, request, lowering);
  } catch (const c10::Error& error) {  // what the file says of its sources is read now
    refuse_load(request.path, error.what_without_backtrace());
  } catch (const torch::jit::ErrorReport& error) {
    refuse_load(request.path, error.what());
  }
  for (const auto& [tensor, row] : lowering.constants()) {
    script->modules.known_tensors.insert_or_assign(tensor.unsafeGetTensorImpl(), Prov::param(row));
  }
  auto& info = script->info;
  info.kind = traced ? "torchscript trace" : "torchscript script";
  info.class_name = std::string(script->tables.strings[script->tables.modules.qualified_class[0]]);
  info.mode = mode_of(script->tables, traced);
  info.dtype = main_dtype(script->tables);
  info.signature = signature_of(*script->module.type()->findMethod(request.method));
  for (const auto* method : script->module.type()->methods()) info.methods.push_back(method->name());
  script->shared_strings = std::make_shared<const StringPool>(script->tables.strings);
  return script;
}

}  // namespace tl::lt
