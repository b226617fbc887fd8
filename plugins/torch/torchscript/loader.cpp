#include "torchscript/loader.h"

#include <ATen/core/class_type.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/frontend/error_report.h>
#include <torch/csrc/jit/runtime/operator.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/csrc/jit/serialization/import_read.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <set>

#include "archive/torchscript_scan.h"
#include "archive/zip_directory.h"
#include "bridge/tensor_bridge.h"
#include "core/error.h"
#include "core/mapped_file.h"

namespace tl::lt {
namespace {

std::string base_name(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

// --- refusals before LibTorch sees the file
// ----------------------------------------------------------------------------

std::string joined(const std::vector<ScriptUse>& uses) {
  std::string text;
  for (const auto& use : uses) {
    if (!text.empty()) text += ", ";
    text += use.name + " (" + use.file + ":" + std::to_string(use.line) + ")";
  }
  return text;
}

void refuse_unsafe(const TorchScriptScan& scan, const ModelRequest& request) {
  auto uses = unsafe_uses(scan);
  std::erase_if(uses, [&](const ScriptUse& use) {
    return std::ranges::find(request.allowed_ops, use.name) != request.allowed_ops.end();
  });
  if (uses.empty()) return;
  throw Error(ErrorCode::kUnsafeOperator,
              base_name(request.path) + ": uses operators with effects outside the process: " + joined(uses),
              "pass --allow-op " + uses.front().name + " to run it all the same");
}

void refuse_missing(const TorchScriptScan& scan, const ModelRequest& request) {
  const auto known = known_operator_names();
  std::vector<ScriptUse> missing;
  for (const auto& use : scan.operators) {
    if (use.name.starts_with("prim::") || use.name.starts_with("^")) continue;  // ours, and refused as unsafe
    if (!std::ranges::binary_search(known, use.name)) missing.push_back(use);
  }
  // Names that are Python-side spellings of prim operators are no operators of aten.
  std::erase_if(missing, [&](const ScriptUse& use) {
    return use.name.starts_with("aten::") && std::ranges::binary_search(known, "prim::" + use.name.substr(6));
  });
  std::erase_if(missing, [](const ScriptUse& use) { return use.name.starts_with("aten::"); });
  if (!missing.empty()) {
    throw Error(ErrorCode::kMissingOperators,
                base_name(request.path) + ": no loaded library registers " + joined(missing),
                "pass --load-library with the shared library that registers " +
                    missing.front().name.substr(0, missing.front().name.find("::")) + "::*");
  }
  std::vector<ScriptUse> classes;
  for (const auto& use : scan.classes) {
    if (!torch::getCustomClass(use.name)) classes.push_back(use);
  }
  if (!classes.empty()) {
    throw Error(ErrorCode::kMissingClasses,
                base_name(request.path) + ": no loaded library registers " + joined(classes),
                "pass --load-library with the shared library that registers the class");
  }
}

[[noreturn]] void refuse_load(const std::string& path, const std::string& message) {
  const auto first_line = message.substr(0, message.find('\n'));
  const auto has = [&](const char* text) { return message.find(text) != std::string::npos; };
  const auto file = base_name(path);
  if (has("Unknown builtin op: ")) {
    const auto begin = message.find("Unknown builtin op: ") + std::strlen("Unknown builtin op: ");
    const auto end = message.find_first_of(".\n ", begin);
    throw Error(ErrorCode::kMissingOperators,
                file + ": no loaded library registers " + message.substr(begin, end - begin),
                "pass --load-library with the shared library that registers it");
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

// --- what the file holds
// -----------------------------------------------------------------------------------------------

/// Walks the module tree in registration order and fills modules, params and buffers.
class ModuleWalk {
 public:
  explicit ModuleWalk(LoadedScript& script) : script_(script) {}

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
      walk(value.toObject(), path(address, type->getAttributeName(slot)), row);
    }
  }

 private:
  static std::string path(const std::string& address, const std::string& name) {
    return address.empty() ? name : address + "." + name;
  }

  void attribute(const c10::intrusive_ptr<c10::ivalue::Object>& object, std::size_t slot, const std::string& address,
                 std::int32_t module) {
    const auto type = object->type();
    const auto& value = object->getSlot(slot);
    if (!may_hold_tensor(*type->getAttribute(slot))) return;
    auto& info = script_.modules.attributes[{object.get(), slot}];
    const auto name = path(address, type->getAttributeName(slot));
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
    const auto row = static_cast<std::uint32_t>(params.address.size());
    params.address.push_back(strings.intern(name));
    params.all_addresses.push_back(strings.intern(name));
    params.module.push_back(module);
    params.kind.push_back(static_cast<std::uint8_t>(kind));
    params.dtype.push_back(static_cast<std::uint8_t>(dtype_of(tensor)));
    params.shape.push_back(script_.tables.shapes.intern({tensor.sizes().data(), tensor.sizes().size()}));
    params.bytes.push_back(tensor.numel() * static_cast<std::int64_t>(tensor.itemsize()));
    params.trainable.push_back(tensor.requires_grad() ? 1 : 0);
    params_.emplace_back(tensor, row);
    script_.modules.known_tensors.insert_or_assign(tensor.unsafeGetTensorImpl(), Prov::param(row));
    return row;
  }

  std::int32_t buffer(const at::Tensor& tensor, const std::string& name, std::int32_t module) {
    auto& buffers = script_.tables.buffers;
    const auto row = static_cast<std::uint32_t>(buffers.address.size());
    buffers.address.push_back(script_.tables.strings.intern(name));
    buffers.module.push_back(module);
    buffers.dtype.push_back(static_cast<std::uint8_t>(dtype_of(tensor)));
    buffers.shape.push_back(script_.tables.shapes.intern({tensor.sizes().data(), tensor.sizes().size()}));
    buffers.bytes.push_back(tensor.numel() * static_cast<std::int64_t>(tensor.itemsize()));
    buffers.num_versions.push_back(0);
    buffers.last_op.push_back(-1);
    script_.modules.buffers.push_back(tensor);
    script_.modules.known_tensors.insert_or_assign(tensor.unsafeGetTensorImpl(), Prov::buffer(row));
    if (tensor.unsafeGetTensorImpl()->has_storage()) {
      script_.modules.buffers_of_storage[tensor.storage().unsafeGetStorageImpl()].push_back(row);
    }
    return static_cast<std::int32_t>(row);
  }

  LoadedScript& script_;
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

std::string main_dtype(const StaticTables& tables) {
  std::map<std::uint8_t, std::int64_t> bytes;
  for (std::size_t row = 0; row < tables.params.dtype.size(); ++row)
    bytes[tables.params.dtype[row]] += tables.params.bytes[row];
  if (bytes.empty()) return {};
  const auto most = std::ranges::max_element(bytes, {}, [](const auto& entry) { return entry.second; });
  return std::string(short_name(static_cast<DType>(most->first)));
}

/// Dtypes and ranks of the example inputs of a trace; the sizes are examples only.
void read_traced_inputs(const ModelRequest& request, Signature& signature) {
  try {
    caffe2::serialize::PyTorchStreamReader reader(request.path);
    const auto value = torch::jit::readArchiveAndTensors("traced_inputs", "", "traced_inputs/", std::nullopt,
                                                         std::nullopt, c10::Device(c10::kCPU), reader);
    if (!value.isGenericDict()) return;
    const auto entry = value.toGenericDict().find(request.method);
    if (entry == value.toGenericDict().end() || !entry->value().isTuple()) return;
    const auto& elements = entry->value().toTupleRef().elements();
    for (std::size_t i = 0; i < elements.size() && i < signature.arguments.size(); ++i) {
      if (!elements[i].isTensor()) continue;
      const auto& tensor = elements[i].toTensor();
      signature.arguments[i].expected.dtype = dtype_of(tensor);
      signature.arguments[i].expected.sizes = std::vector<std::int64_t>(static_cast<std::size_t>(tensor.dim()), -1);
    }
  } catch (const std::exception&) {
    // What a file says of its example inputs is a help, not a condition: without it the operator that raised speaks.
  }
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

std::vector<std::string> known_operator_names() {
  std::set<std::string> names;
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) names.insert(name.name);
  for (const auto& op : torch::jit::getAllOperators()) names.insert(op->schema().name());
  return {names.begin(), names.end()};
}

std::unique_ptr<LoadedScript> load_script(const ModelRequest& request, CrashSlate* slate) {
  const auto phase = [&](const char* text) {
    if (slate) std::snprintf(slate->phase, sizeof slate->phase, "%s", text);
  };
  phase("reading the archive");
  bool traced = false;
  {
    const auto file = MappedFile::open(request.path);
    const ZipDirectory zip(file->bytes(), base_name(request.path));
    const auto scan = scan_torchscript(zip);
    refuse_unsafe(scan, request);
    refuse_missing(scan, request);
    traced = std::ranges::any_of(zip.entries(),
                                 [](const auto& entry) { return entry.name.ends_with("/traced_inputs.pkl"); });
  }
  phase("loading the model");
  auto script = std::make_unique<LoadedScript>();
  try {
    script->module = torch::jit::load(request.path, c10::Device(request.device));
  } catch (const c10::Error& error) {
    refuse_load(request.path, error.what_without_backtrace());
  } catch (const torch::jit::ErrorReport& error) {
    refuse_load(request.path, error.what());
  } catch (const std::exception& error) {
    refuse_load(request.path, error.what());
  }
  if (request.mode != ModelRequest::Mode::kAsSaved) {
    if (traced) {
      throw Error(ErrorCode::kModeNotAllowed, base_name(request.path) + ": is a trace, whose mode is baked in",
                  "leave --train and --eval away, or export the model in the mode you want");
    }
    script->module.train(request.mode == ModelRequest::Mode::kTrain);
  }
  phase("lowering the program");
  ModuleWalk(*script).walk(script->module._ivalue(), "", -1);
  Lowering lowering(script->program, script->tables);
  lower_all(*script, request, lowering);
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
  if (traced) read_traced_inputs(request, info.signature);
  script->shared_strings = std::make_shared<const StringPool>(script->tables.strings);
  return script;
}

}  // namespace tl::lt
