#include "executor/executor.h"

#include <ATen/ATen.h>
#include <ATen/core/class_type.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue_inl.h>

#include <algorithm>

#include "bridge/tensor_bridge.h"
#include "core/error.h"

// Containers: operations that move values in and out of lists, tuples and dicts, and the provenance that moves with
// them.
namespace tl::lt {

void Executor::run_container(Instruction& instruction, Frame& frame) {
  std::vector<c10::IValue> args;
  std::vector<Prov> provs;
  for (const auto slot : instruction.inputs) {
    args.push_back(frame.values[slot]);
    provs.push_back(frame.prov[slot]);
  }
  recorder_.count_execution(instruction);
  recorder_.note_container_writes(instruction, provs);
  ContainerTree::Known known;
  const bool by_identity = instruction.container_rule == ContainerRule::kByIdentity;
  if (by_identity) {
    for (std::size_t i = 0; i < args.size(); ++i) recorder_.containers().collect(args[i], provs[i], known);
  }
  // Before the call: pop and delete remove what they name.
  const auto moved = by_identity ? Prov{} : move_provenance(instruction, args, provs);
  const auto base = stack_.size();
  stack_.insert(stack_.end(), args.begin(), args.end());
  if (instruction.vararg) stack_.emplace_back(static_cast<std::int64_t>(args.size()));
  instruction.operation(stack_);
  const auto count = instruction.outputs.size();
  const auto outputs = stack_.size() - count;
  if (by_identity) refresh_containers(instruction, args, provs, known);
  for (std::size_t i = 0; i < count; ++i) {
    auto prov = moved;
    if (by_identity) {
      const auto alias = std::ranges::find_if(args, [&](const auto& arg) { return arg.is(stack_[outputs + i]); });
      prov = alias != args.end() && !stack_[outputs + i].isTensor()
                 ? provs[static_cast<std::size_t>(alias - args.begin())]
                 : recorder_.containers().make_by_identity(stack_[outputs + i], known, Prov{});
    }
    if (instruction.emits[i] == Emit::kHost)
      prov = recorder_.record_host_of(instruction, stack_[outputs + i], provs.data());
    set(frame, instruction, i, std::move(stack_[outputs + i]), prov);
  }
  stack_.resize(base);
  for (std::size_t i = 0; i < instruction.inputs.size(); ++i) {
    if (instruction.input_dies[i]) frame.values[instruction.inputs[i]] = c10::IValue();
  }
}

void Executor::refresh_containers(const Instruction& instruction, const std::vector<c10::IValue>& args,
                                  const std::vector<Prov>& provs, const ContainerTree::Known& known) {
  auto& tree = recorder_.containers();
  for (const auto position : instruction.announced_writes) {
    if (position >= args.size() || !provs[position].is(Prov::Tag::kContainer)) continue;
    const auto rebuilt = tree.make_by_identity(args[position], known, Prov{});
    if (!rebuilt.is(Prov::Tag::kContainer)) continue;
    auto& node = tree.at(provs[position]);
    node.items = std::move(tree.at(rebuilt).items);
    node.by_key = std::move(tree.at(rebuilt).by_key);
  }
}

namespace {

std::int64_t wrapped(std::int64_t index, std::size_t size) {
  return index < 0 ? index + static_cast<std::int64_t>(size) : index;
}

std::vector<Prov> sliced(const std::vector<Prov>& items, const std::vector<c10::IValue>& args) {
  const auto size = static_cast<std::int64_t>(items.size());
  const auto step = args[3].toInt();
  auto begin = args[1].isNone() ? (step > 0 ? 0 : size - 1) : wrapped(args[1].toInt(), items.size());
  auto end = args[2].isNone() ? (step > 0 ? size : -1) : wrapped(args[2].toInt(), items.size());
  std::vector<Prov> result;
  if (step > 0) {
    begin = std::clamp<std::int64_t>(begin, 0, size);
    end = std::clamp<std::int64_t>(end, 0, size);
    for (auto i = begin; i < end; i += step) result.push_back(items[static_cast<std::size_t>(i)]);
  } else if (step < 0) {
    begin = std::min(begin, size - 1);
    for (auto i = begin; i > end && i >= 0; i += step) result.push_back(items[static_cast<std::size_t>(i)]);
  }
  return result;
}

}  // namespace

Prov Executor::move_provenance(const Instruction& instruction, const std::vector<c10::IValue>& args,
                               const std::vector<Prov>& provs) {
  auto& tree = recorder_.containers();
  const auto rule = instruction.container_rule;
  const auto self = provs.empty() ? Prov{} : provs[0];
  if (rule == ContainerRule::kPass) return self;
  if (!self.is(Prov::Tag::kContainer)) {
    return rule == ContainerRule::kConcat && provs[1].is(Prov::Tag::kContainer) ? tree.make(tree.at(provs[1]).items)
                                                                                : Prov{};
  }
  auto& items = tree.at(self).items;
  switch (rule) {
    case ContainerRule::kAppend:
      items.push_back(provs[1]);
      return self;
    case ContainerRule::kGetItem:
      return tree.item(self, args[1].toInt());
    case ContainerRule::kSetItem: {
      const auto at = wrapped(args[1].toInt(), items.size());
      if (at >= 0 && at < static_cast<std::int64_t>(items.size())) items[static_cast<std::size_t>(at)] = provs[2];
      return self;
    }
    case ContainerRule::kPop:
    case ContainerRule::kDelete: {
      const auto at = wrapped(args.size() > 1 ? args[1].toInt() : -1, items.size());
      if (at < 0 || at >= static_cast<std::int64_t>(items.size())) return Prov{};
      const auto removed = items[static_cast<std::size_t>(at)];
      items.erase(items.begin() + at);
      return removed;
    }
    case ContainerRule::kInsert: {
      const auto at =
          std::clamp<std::int64_t>(wrapped(args[1].toInt(), items.size()), 0, static_cast<std::int64_t>(items.size()));
      items.insert(items.begin() + at, provs[2]);
      return self;
    }
    case ContainerRule::kExtend:
      if (provs[1].is(Prov::Tag::kContainer)) {
        const auto more = tree.at(provs[1]).items;
        items.insert(items.end(), more.begin(), more.end());
      }
      return self;
    case ContainerRule::kClear:
      items.clear();
      if (tree.at(self).by_key) tree.at(self).by_key->clear();
      return self;
    case ContainerRule::kReverse:
      std::ranges::reverse(items);
      return self;
    case ContainerRule::kCopy:
      return tree.make(items);
    case ContainerRule::kSlice:
      return tree.make(sliced(items, args));
    case ContainerRule::kConcat: {
      auto joined = items;
      if (provs[1].is(Prov::Tag::kContainer)) {
        const auto& more = tree.at(provs[1]).items;
        joined.insert(joined.end(), more.begin(), more.end());
      }
      return tree.make(std::move(joined));
    }
    case ContainerRule::kRepeat: {
      const auto times = args[1].isInt() ? args[1].toInt() : 0;
      std::vector<Prov> repeated;
      for (std::int64_t i = 0; i < times; ++i) repeated.insert(repeated.end(), items.begin(), items.end());
      return tree.make(std::move(repeated));
    }
    default:
      return tree.at(self).by_key ? move_dict_provenance(rule, args, provs) : Prov{};
  }
}

Prov Executor::move_dict_provenance(ContainerRule rule, const std::vector<c10::IValue>& args,
                                    const std::vector<Prov>& provs) {
  auto& tree = recorder_.containers();
  const auto self = provs[0];
  const auto known = [&](const c10::IValue& key) { return tree.at(self).by_key->contains(key); };
  switch (rule) {
    case ContainerRule::kDictGet:
      return known(args[1]) || provs.size() < 3 ? tree.item_by_key(self, args[1]) : provs[2];
    case ContainerRule::kDictSet:
      tree.at(self).by_key->insert_or_assign(args[1], provs[2]);
      return self;
    case ContainerRule::kDictSetDefault:
      tree.at(self).by_key->emplace(args[1], provs[2]);
      return tree.item_by_key(self, args[1]);
    case ContainerRule::kDictPop: {
      const auto found = known(args[1]) || provs.size() < 3 ? tree.item_by_key(self, args[1]) : provs[2];
      tree.at(self).by_key->erase(args[1]);
      return found;
    }
    case ContainerRule::kDictUpdate:
      if (provs[1].is(Prov::Tag::kContainer) && tree.at(provs[1]).by_key) {
        for (const auto& [key, prov] : *tree.at(provs[1]).by_key) tree.at(self).by_key->insert_or_assign(key, prov);
      }
      return self;
    case ContainerRule::kDictCopy: {
      const auto copy = tree.make_dict();
      *tree.at(copy).by_key = *tree.at(self).by_key;
      return copy;
    }
    case ContainerRule::kDictValues:
    case ContainerRule::kDictItems: {
      std::vector<Prov> result;
      for (const auto& entry : args[0].toGenericDict()) {  // the dict's own order
        const auto item = tree.item_by_key(self, entry.key());
        result.push_back(rule == ContainerRule::kDictValues ? item : tree.make({Prov{}, item}));
      }
      return tree.make(std::move(result));
    }
    default:
      return Prov{};
  }
}

void Executor::run_construct(Instruction& instruction, Frame& frame) {
  const auto count = instruction.inputs.size();
  std::vector<c10::IValue> values;
  std::vector<Prov> provs;
  values.reserve(count);
  provs.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    provs.push_back(frame.prov[instruction.inputs[i]]);
    values.push_back(take(frame, instruction, i));
  }
  auto& tree = recorder_.containers();
  if (instruction.kind == InstructionKind::kTupleConstruct) {
    const auto type = instruction.type->cast<c10::TupleType>();
    auto tuple = type && type->schema() ? c10::ivalue::Tuple::createNamed(std::move(values), type)
                                        : c10::ivalue::Tuple::create(std::move(values));
    set(frame, instruction, 0, std::move(tuple), instruction.holds_tensors ? tree.make(std::move(provs)) : Prov{});
    return;
  }
  if (instruction.kind == InstructionKind::kDictConstruct) {
    const auto& type = instruction.type->expectRef<c10::DictType>();
    c10::impl::GenericDict dict(type.getKeyType(), type.getValueType());
    const auto prov = instruction.holds_tensors ? tree.make_dict() : Prov{};
    for (std::size_t i = 0; i + 1 < count; i += 2) {
      if (instruction.holds_tensors) tree.at(prov).by_key->insert_or_assign(values[i], provs[i + 1]);
      dict.insert_or_assign(values[i], values[i + 1]);
    }
    set(frame, instruction, 0, std::move(dict), prov);
    return;
  }
  const auto element = instruction.type->expectRef<c10::ListType>().getElementType();
  c10::impl::GenericList list(element);
  list.reserve(count);
  for (auto& value : values) list.push_back(std::move(value));
  c10::IValue built(std::move(list));
  Prov prov;
  if (instruction.holds_tensors)
    prov = tree.make(std::move(provs));
  else if (instruction.host_list)
    prov = recorder_.record_host_list(instruction, built, provs.data());
  set(frame, instruction, 0, std::move(built), prov);
}

void Executor::run_unpack(Instruction& instruction, Frame& frame) {
  const auto prov = frame.prov[instruction.inputs[0]];
  auto& tree = recorder_.containers();
  const auto value = take(frame, instruction, 0);
  switch (instruction.kind) {
    case InstructionKind::kListUnpack: {
      const auto elements = value.toListRef();
      if (elements.size() != instruction.outputs.size()) {
        throw UserError("Expected " + std::to_string(instruction.outputs.size()) + " elements in a list but found " +
                            std::to_string(elements.size()),
                        "RuntimeError");
      }
      for (std::size_t i = 0; i < elements.size(); ++i) {
        const auto item = prov.is(Prov::Tag::kFlow) ? prov : tree.item(prov, static_cast<std::int64_t>(i));
        set(frame, instruction, i, elements[i], item);
      }
      return;
    }
    case InstructionKind::kTupleUnpack: {
      const auto& elements = value.toTupleRef().elements();
      for (std::size_t i = 0; i < instruction.outputs.size(); ++i) {
        set(frame, instruction, i, elements[i], tree.item(prov, static_cast<std::int64_t>(i)));
      }
      return;
    }
    case InstructionKind::kTupleIndex: {
      const auto& elements = value.toTupleRef().elements();
      const auto index = wrapped(frame.values[instruction.inputs[1]].toInt(), elements.size());
      if (index < 0 || index >= static_cast<std::int64_t>(elements.size())) {
        throw UserError("Tuple index out of range", "IndexError");
      }
      set(frame, instruction, 0, elements[static_cast<std::size_t>(index)], tree.item(prov, index));
      return;
    }
    case InstructionKind::kTupleSlice: {
      const auto& elements = value.toTupleRef().elements();
      std::vector<c10::IValue> part;
      std::vector<Prov> items;
      for (auto i = instruction.ints[0]; i < instruction.ints[1]; ++i) {
        part.push_back(elements[static_cast<std::size_t>(i)]);
        items.push_back(tree.item(prov, i));
      }
      set(frame, instruction, 0, c10::ivalue::Tuple::create(std::move(part)), tree.make(std::move(items)));
      return;
    }
    default:
      break;
  }
  // A module container indexed at run time: its submodules are its attributes, named by position or key.
  const auto object = value.toObject();
  const auto& index = frame.values[instruction.inputs[1]];
  const auto type = object->type();
  std::vector<std::string> children;
  for (std::size_t i = 0; i < type->numAttributes(); ++i) {
    if (type->getAttribute(i)->is_module()) children.push_back(type->getAttributeName(i));
  }
  const auto name = index.isString() ? index.toStringRef() : [&] {
    const auto at = wrapped(index.toInt(), children.size());
    if (at < 0 || at >= static_cast<std::int64_t>(children.size())) throw UserError("index out of range", "IndexError");
    return children[static_cast<std::size_t>(at)];
  }();
  set(frame, instruction, 0, object->getAttr(name), Prov{});
}

}  // namespace tl::lt
