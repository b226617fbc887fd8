#include "executor/provenance.h"

#include <ATen/core/jit_type.h>

#include <utility>

namespace tl::lt {

Prov ContainerTree::make(std::vector<Prov> items) {
  nodes_.emplace_back().items = std::move(items);
  return Prov::container(static_cast<std::uint32_t>(nodes_.size() - 1));
}

Prov ContainerTree::make_dict() {
  nodes_.emplace_back().by_key = std::make_unique<ContainerNode::ByKey>();
  return Prov::container(static_cast<std::uint32_t>(nodes_.size() - 1));
}

Prov ContainerTree::make_by_identity(const c10::IValue& value, const Known& known, Prov fallback) {
  if (value.isTensor()) {
    const auto found = known.find(value.toTensor().unsafeGetTensorImpl());
    return found == known.end() ? fallback : found->second;
  }
  if (value.isTuple()) {
    std::vector<Prov> items;
    for (const auto& element : value.toTupleRef().elements())
      items.push_back(make_by_identity(element, known, fallback));
    return make(std::move(items));
  }
  if (value.isList()) {
    if (!may_hold_tensor(*value.toList().elementType())) return Prov{};
    std::vector<Prov> items;
    for (const auto& element : value.toListRef()) items.push_back(make_by_identity(element, known, fallback));
    return make(std::move(items));
  }
  if (value.isGenericDict()) {
    const auto dict = value.toGenericDict();
    if (!may_hold_tensor(*dict.valueType())) return Prov{};
    const auto prov = make_dict();
    for (const auto& entry : dict) {
      const auto item = make_by_identity(entry.value(), known, fallback);
      at(prov).by_key->insert_or_assign(entry.key(), item);
    }
    return prov;
  }
  return Prov{};
}

void ContainerTree::collect(const c10::IValue& value, Prov prov, Known& known) {
  if (value.isTensor()) {
    if (!prov.none()) known.insert_or_assign(value.toTensor().unsafeGetTensorImpl(), prov);
    return;
  }
  if (!prov.is(Prov::Tag::kContainer)) return;
  if (value.isTuple()) {
    const auto& elements = value.toTupleRef().elements();
    for (std::size_t i = 0; i < elements.size(); ++i)
      collect(elements[i], item(prov, static_cast<std::int64_t>(i)), known);
  } else if (value.isList()) {
    const auto elements = value.toListRef();
    for (std::size_t i = 0; i < elements.size(); ++i)
      collect(elements[i], item(prov, static_cast<std::int64_t>(i)), known);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) collect(entry.value(), item_by_key(prov, entry.key()), known);
  }
}

Prov ContainerTree::item(Prov prov, std::int64_t index) {
  if (!prov.is(Prov::Tag::kContainer)) return Prov{};
  const auto& items = at(prov).items;
  if (index < 0) index += static_cast<std::int64_t>(items.size());
  if (index < 0 || index >= static_cast<std::int64_t>(items.size())) return Prov{};
  return items[static_cast<std::size_t>(index)];
}

Prov ContainerTree::item_by_key(Prov prov, const c10::IValue& key) {
  if (!prov.is(Prov::Tag::kContainer) || !at(prov).by_key) return Prov{};
  const auto& by_key = *at(prov).by_key;
  const auto found = by_key.find(key);
  return found == by_key.end() ? Prov{} : found->second;
}

bool may_hold_tensor(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::TensorType:
    case c10::TypeKind::AnyType:
    case c10::TypeKind::AnyListType:
    case c10::TypeKind::AnyTupleType:
    case c10::TypeKind::VarType:
      return true;
    case c10::TypeKind::OptionalType:
    case c10::TypeKind::ListType:
    case c10::TypeKind::TupleType:
    case c10::TypeKind::DictType:
    case c10::TypeKind::FutureType:
    case c10::TypeKind::UnionType:
      for (const auto& contained : type.containedTypes()) {
        if (may_hold_tensor(*contained)) return true;
      }
      return false;
    default:
      return false;
  }
}

}  // namespace tl::lt
