#include "exported/loader.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "archive/exported_program_reader.h"
#include "archive/exported_scan.h"
#include "archive/torchscript_refusal.h"
#include "archive/zip_directory.h"
#include "core/error.h"
#include "core/mapped_file.h"
#include "engine/pickle_input.h"
#include "exported/lowering.h"
#include "torchscript/registry_names.h"

namespace tl::lt {
namespace {

void refuse_operators(const ExportedProgram& program, const ModelRequest& request, const std::string& file) {
  const auto scan = scan_exported(program);
  if (auto refusal = unsafe_refusal(scan, request.allowed_ops, file)) throw *std::move(refusal);
  const auto known = known_operator_names();
  const auto knows = [&](const std::string& name) { return std::ranges::binary_search(known, name); };
  if (auto refusal = missing_refusal(missing_names(scan, knows, is_known_class), file)) throw *std::move(refusal);
}

void name_source(InputValue& value, const std::string& source) {
  value.source = source;
  if (auto* list = std::get_if<InputValue::List>(&value.data)) {
    for (auto& element : *list) name_source(element, source);
  } else if (auto* tuple = std::get_if<InputValue::Tuple>(&value.data)) {
    for (auto& element : tuple->elements) name_source(element, source);
  } else if (auto* dict = std::get_if<InputValue::Dict>(&value.data)) {
    for (auto& item : *dict) name_source(item.second, source);
  }
}

/// The example inputs in the file as arguments of the signature; empty where there are none or they do not fit it.
std::vector<InputValue> stored_arguments(const ZipDirectory& zip, const ExportedProgram& program,
                                         const Signature& signature, std::optional<Error>& refusal) {
  std::vector<InputValue> stored;
  try {
    const auto sample = read_sample_inputs(zip, program.model_name, input_classes(program));
    if (!sample) return {};
    auto given = given_from_pickle(*sample, "stored in the file");
    for (std::size_t i = 0; i < signature.arguments.size(); ++i) {
      const auto& name = signature.arguments[i].name;
      const auto named = std::ranges::find_if(given.entries, [&](const auto& entry) { return entry.name == name; });
      if (i < given.positional.size()) {
        stored.push_back(std::move(given.positional[i]));
      } else if (named != given.entries.end()) {
        stored.push_back(std::move(named->value));
      } else {
        return {};
      }
    }
    for (auto& value : stored) name_source(value, "the file's example");
  } catch (const Error& error) {
    // A help, not a condition: it matters only to who gives no inputs.
    refusal.emplace(error.code, "the example inputs in the file cannot be read: " + error.message,
                    "give inputs by --input or --random");
    return {};
  }
  return stored;
}

/// Entries that are longer than what their tensors show: views of a larger storage have them, and damaged files.
std::vector<std::string> long_entries(const ExportedProgram& program) {
  struct Entry {
    std::size_t bytes;
    std::size_t used;
    std::string first;
  };
  std::map<std::string, Entry> entries;
  for (const auto& payload : program.payloads) {
    if (payload.is_object || !payload.refusal.empty()) continue;
    const auto& tensor = payload.tensor;
    auto last = static_cast<std::size_t>(tensor.offset);
    bool empty = false;
    for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
      empty |= tensor.sizes[i] == 0;
      last += static_cast<std::size_t>(std::max<std::int64_t>(tensor.sizes[i] - 1, 0) * tensor.strides[i]);
    }
    const auto used = empty ? 0 : (last + 1) * item_bytes(tensor.dtype);
    auto& entry = entries.try_emplace(payload.entry, Entry{tensor.storage.size(), 0, payload.name}).first->second;
    entry.used = std::max(entry.used, used);
  }
  std::vector<std::string> notes;
  for (const auto& [name, entry] : entries) {
    if (entry.bytes == entry.used) continue;
    notes.push_back(entry.first + ": its entry " + name + " has " + std::to_string(entry.bytes) +
                    " bytes, the tensors in it show " + std::to_string(entry.used));
  }
  return notes;
}

std::string root_class(const ExportedProgram& program) {
  for (const auto& stack : program.module_stacks) {
    if (!stack.empty() && stack.front().path.empty()) return stack.front().class_name;
  }
  return {};
}

}  // namespace

std::unique_ptr<LoadedExport> load_exported(const ModelRequest& request, CrashSlate* slate) {
  const auto phase = [&](const char* text) {
    if (slate) std::snprintf(slate->phase, sizeof slate->phase, "%s", text);
  };
  phase("reading the archive");
  const auto mapped = MappedFile::open(request.path);
  const auto file = mapped->path().filename().string();
  if (request.mode != ModelRequest::Mode::kAsSaved) {
    throw Error(ErrorCode::kModeNotAllowed, file + ": is an exported program, whose mode is baked in",
                "leave --train and --eval away, or export the model in the mode you want");
  }
  if (request.method != "forward") {
    throw Error(ErrorCode::kMethodNotFound, file + ": no method '" + request.method + "'; it has forward");
  }
  ZipDirectory zip(mapped->bytes(), file, mapped);
  zip.verify_and_digest(2);
  auto model = std::make_unique<LoadedExport>();
  model->source = read_exported_program(zip, {.model = request.model});
  const auto& program = model->source;
  refuse_operators(program, request, file);
  phase("lowering the program");
  const c10::Device device(request.device);
  model->interface = interface_of(program, file);
  ExportedLowering lowering(program, model->program, model->tables, file, device);
  lowering.lower();
  phase("loading the weights");
  model->maker = std::make_unique<ExportedStateMaker>(program, mapped, device);
  model->state = model->maker->make(zip, model->tables,
                                    [&](const std::string& name) { return lowering.attribution().owner_of(name); });
  model->modules = model->state.modules;
  model->notes = long_entries(program);
  auto& info = model->info;
  info.kind = "exported program";
  info.class_name = root_class(program);
  info.mode = "baked";
  info.dtype = main_dtype(model->tables);
  info.signature = model->interface.signature;
  info.methods = {"forward"};
  info.stored_arguments = stored_arguments(zip, program, info.signature, info.stored_refusal);
  model->shared_strings = std::make_shared<const StringPool>(model->tables.strings);
  return model;
}

}  // namespace tl::lt
