#include "program/operator_facts.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "executor/provenance.h"
#include "ops/op_semantics.h"

namespace tl::lt {

bool is_host_type(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::IntType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::StringType:
    case c10::TypeKind::NumberType:
    case c10::TypeKind::ComplexType:
    case c10::TypeKind::DeviceObjType:
      return true;
    case c10::TypeKind::OptionalType:
    case c10::TypeKind::ListType:
      return std::ranges::all_of(type.containedTypes(), [](const auto& child) { return is_host_type(*child); });
    default:
      return false;
  }
}

Emit emit_for(const c10::Type& type, bool container) {
  if (container) return is_host_type(type) ? Emit::kHost : Emit::kContainer;
  if (type.kind() == c10::TypeKind::ListType && may_hold_tensor(type)) return Emit::kTensorList;
  if (may_hold_tensor(type)) return Emit::kTensor;
  return is_host_type(type) ? Emit::kHost : Emit::kContainer;
}

namespace {

/// The out-of-place form of a pointwise in-place operator with the same arguments, if the dispatcher has one.
std::optional<c10::OperatorHandle> functional_form(const c10::FunctionSchema& schema) {
  const auto& name = schema.name();
  // Comparisons yield bools out of place; what draws random numbers must not run twice.
  static constexpr std::string_view kOtherResult[] = {
      "aten::eq_", "aten::ne_",          "aten::lt_",         "aten::le_",          "aten::gt_",
      "aten::ge_", "aten::logical_and_", "aten::logical_or_", "aten::logical_xor_", "aten::logical_not_"};
  if (std::ranges::find(kOtherResult, name) != std::end(kOtherResult)) return {};
  if (name.empty() || name.back() != '_' || schema.returns().size() != 1 || schema.arguments().empty()) return {};
  const auto found = c10::Dispatcher::singleton().findSchema({name.substr(0, name.size() - 1), schema.overload_name()});
  if (!found || !found->hasTag(at::Tag::pointwise) || found->hasTag(at::Tag::nondeterministic_seeded)) return {};
  const auto& other = found->schema();
  if (other.arguments().size() != schema.arguments().size() || other.returns().size() != 1 || other.hasAnyAliasInfo()) {
    return {};
  }
  for (std::size_t i = 0; i < other.arguments().size(); ++i) {
    if (*other.arguments()[i].type() != *schema.arguments()[i].type()) return {};
  }
  return found;
}

}  // namespace

void set_operator_facts(Instruction& instruction, const c10::FunctionSchema& schema) {
  const auto& name = schema.name();
  const auto& semantics = op_semantics(name);
  instruction.hidden_writes = semantics.hidden_writes;
  instruction.hidden_writes_if = semantics.hidden_writes_if;
  instruction.uninitialised = semantics.uninitialised;
  const auto space = std::string_view(name).substr(0, name.find("::"));
  instruction.foreign = space != "aten" && space != "prim" && space != "quantized" && space != "quantized_decomposed";
  if (!schema.is_vararg()) {
    for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
      const auto* alias = schema.arguments()[i].alias_info();
      if (alias && alias->isWrite()) instruction.announced_writes.push_back(static_cast<std::uint16_t>(i));
    }
  }
  instruction.writes = !instruction.announced_writes.empty() || instruction.hidden_writes != 0;
  if (instruction.announced_writes.size() == 1 && instruction.announced_writes[0] == 0 &&
      instruction.hidden_writes == 0 && instruction.dispatched && !instruction.foreign) {
    instruction.functional = functional_form(schema);
  }
}

void append_instruction(StaticTables& tables, Instruction& instruction, const InstructionText& text,
                        const c10::FunctionSchema* schema) {
  auto& table = tables.instructions;
  instruction.row = static_cast<std::uint32_t>(table.op_name.size());
  table.op_name.push_back(tables.strings.intern(text.op_name));
  table.overload.push_back(tables.strings.intern(text.overload));
  table.func_name.push_back(tables.strings.intern(text.func_name));
  table.layer_type.push_back(tables.strings.intern(layer_type_of(text.func_name)));
  table.call_site.push_back(instruction.call_site);
  table.arg_template.push_back(tables.strings.intern(text.arguments));
  table.value_names.push_back(tables.strings.intern(text.value_names));
  std::uint32_t flags = 0;
  if (!instruction.announced_writes.empty()) flags |= kInstrMutates;
  if (schema && schema->hasAnyAliasInfo() && instruction.announced_writes.empty()) flags |= kInstrView;
  if (instruction.random) flags |= kInstrRandom;
  if (instruction.dispatched) flags |= kInstrDispatched;
  if (instruction.container) flags |= kInstrContainer;
  if (instruction.uninitialised) flags |= kInstrUninitialised;
  if (instruction.hidden_writes != 0) flags |= kInstrHiddenWrites;
  table.flags.push_back(flags);
  instruction.where = text.op_name + " at " + place_of(tables, instruction.call_site);
}

}  // namespace tl::lt
