#include "archive/exported_program_reader.h"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "archive/entry_name.h"
#include "archive/exported_layout.h"
#include "archive/exported_parts.h"
#include "archive/exported_payloads.h"
#include "archive/limits.h"
#include "archive/unpickler.h"

namespace tl {
namespace {

std::string chosen_model(const ZipDirectory& zip, const ExportedLayoutNames& names, const std::string& wanted) {
  if (names.models.empty()) {
    throw Error(ErrorCode::kFileDamaged, zip.file_name() + ": the archive holds no exported program");
  }
  std::string listed;
  for (const std::string& name : names.models) listed += (listed.empty() ? "" : ", ") + quoted_name(name);
  if (wanted.empty()) {
    if (names.models.size() == 1) return names.models.front();
    throw Error(ErrorCode::kUsage,
                zip.file_name() + ": the archive holds " + std::to_string(names.models.size()) + " programs: " + listed,
                "choose one with --model NAME");
  }
  if (std::ranges::find(names.models, wanted) != names.models.end()) return wanted;
  throw Error(ErrorCode::kUsage,
              zip.file_name() + ": there is no program " + quoted_name(wanted) + "; there is " + listed,
              "choose one with --model NAME");
}

void require_little_endian(const ZipDirectory& zip, const ExportedLayoutNames& names) {
  const ZipEntry* entry = zip.find(names.root + "byteorder");
  constexpr std::uint64_t kLongestName = 16;
  if (!entry) return;
  const std::string order = entry->size <= kLongestName ? zip.read_text(*entry) : std::string();
  if (order == "little") return;
  throw Error(ErrorCode::kUnsupportedKind,
              zip.file_name() + ": its tensors are in byte order " + quoted_name(order) + ", only little is read");
}

void read_payloads(const ZipDirectory& zip, const ExportedLayoutNames& names, ExportedProgram& program) {
  const auto read = [&](const std::string& folder, const std::string& kind, const std::string& pickled) {
    if (!pickled.empty() && zip.find(pickled)) {
      read_pickled_payloads(zip, pickled, program.payloads);
    } else {
      read_configured_payloads(zip, folder, program.model_name + kind, program.payloads);
    }
  };
  read(names.weights_folder, "_weights_config.json", names.pickled_weights(program.model_name));
  read(names.constants_folder, "_constants_config.json", names.pickled_constants(program.model_name));
}

std::string_view described(ExportedInputSpec::Kind kind) {
  switch (kind) {
    case ExportedInputSpec::Kind::kParameter:
      return "parameter";
    case ExportedInputSpec::Kind::kBuffer:
      return "buffer";
    case ExportedInputSpec::Kind::kTensorConstant:
      return "constant";
    case ExportedInputSpec::Kind::kCustomObject:
      return "object";
    default:
      return {};
  }
}

void complete(ExportedPayload& payload, const ExportedInputSpec& spec, const ExportedGraph& graph) {
  payload.is_parameter = spec.kind == ExportedInputSpec::Kind::kParameter;
  const ExportedRef* ref = spec.argument.ref();
  const std::int32_t meta = ref ? graph.values[ref->value].meta : -1;
  if (meta >= 0) payload.meta.requires_grad = graph.metas[static_cast<std::size_t>(meta)].requires_grad;
}

/// Every parameter, buffer, constant and object that the program takes must be there. A pickle does not tell parameters
/// from buffers, nor what requires a gradient; the signature and the graph do.
void require_payloads(const ZipDirectory& zip, ExportedProgram& program, bool pickled) {
  std::unordered_map<std::string_view, ExportedPayload*> present;
  for (ExportedPayload& payload : program.payloads) present.emplace(payload.name, &payload);
  const std::string where = zip.file_name() + ": program " + quoted_name(program.model_name) + ": ";
  for (const ExportedInputSpec& spec : program.input_specs) {
    const std::string_view kind = described(spec.kind);
    if (kind.empty()) continue;
    const auto found = present.find(spec.target);
    if (found != present.end()) {
      if (pickled) complete(*found->second, spec, program.graph);
      continue;
    }
    throw Error(ErrorCode::kFileDamaged, where + std::string(kind) + ' ' + quoted_name(spec.target) +
                                             " is neither among the weights nor among the constants of the file");
  }
  for (const ExportedGraphValue& value : program.graph.values) {
    const bool literal =
        value.kind == ExportedGraphValue::Kind::kCustomObject && value.name.starts_with("_custom_obj_");
    if (!literal || value.producer >= 0 || present.contains(value.name)) continue;
    throw Error(ErrorCode::kFileDamaged, where + "object " + quoted_name(value.name) + " is not in the file");
  }
}

}  // namespace

std::vector<std::string> exported_program_names(const ZipDirectory& zip) { return exported_layout(zip).models; }

ExportedProgram read_exported_program(const ZipDirectory& zip, const ExportedReadOptions& options) {
  const ExportedLayoutNames names = exported_layout(zip);
  const std::string model = chosen_model(zip, names, options.model);
  require_readable_layout(zip, names);
  const ZipEntry& entry = zip.at(names.program(model));
  if (entry.size > limits::kProgramJsonBytes) {
    throw Error(ErrorCode::kFileLimits, zip.file_name() + ": " + quoted_name(entry.name) + " has " +
                                            std::to_string(entry.size) + " bytes, the limit is " +
                                            std::to_string(limits::kProgramJsonBytes));
  }
  ExportedProgram program = parse_exported_program(zip.read_text(entry), zip.file_name() + ": " + entry.name);
  program.model_name = model;
  if (!options.payloads) return program;
  require_little_endian(zip, names);
  read_payloads(zip, names, program);
  require_payloads(zip, program, zip.find(names.pickled_weights(model)) != nullptr);
  return program;
}

std::vector<std::string> input_classes(const ExportedProgram& program) {
  using Kind = PytreeSpec::Kind;
  std::set<std::string> names;
  const auto collect = [&](const auto& self, const PytreeSpec& spec) -> void {
    if (spec.kind == Kind::kNamedTuple || spec.kind == Kind::kObject) {
      names.insert(spec.type.substr(spec.type.rfind('.') + 1));
    }
    for (const auto& child : spec.children) self(self, child);
  };
  if (const auto* root = program.root_call()) collect(collect, root->in_spec);
  return {names.begin(), names.end()};
}

std::optional<PickleValue> read_sample_inputs(const ZipDirectory& zip, const std::string& model,
                                              std::vector<std::string> records) {
  const ExportedLayoutNames names = exported_layout(zip);
  const ZipEntry* entry = zip.find(names.sample_inputs(chosen_model(zip, names, model)));
  if (!entry || entry->size == 0) return std::nullopt;
  // What torch notes on example tensors (mark_dynamic); it is dropped with the other attributes of theirs.
  for (const char* name : {"set", "_DimRange"}) records.emplace_back(name);
  PickleValue value = read_nested_pickle(zip, *entry, {.records = std::move(records)});
  const PickleSequence* pair = value.sequence();
  if (value.is_none()) return std::nullopt;
  if (!pair || pair->items.size() != 2 || !pair->items[0].sequence() || !pair->items[1].dict()) {
    throw Error(ErrorCode::kFileDamaged, zip.file_name() + ": " + quoted_name(entry->name) + " holds a " +
                                             std::string(type_name(value)) +
                                             ", not the pair of arguments and keyword arguments");
  }
  return value;
}

}  // namespace tl
