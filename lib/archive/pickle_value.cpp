#include "archive/pickle_value.h"

#include <array>

namespace tl {

const PickleValue* PickleDict::find(std::string_view key) const {
  for (const auto& [name, value] : items) {
    if (const std::string* text = name.string(); text && *text == key) return &value;
  }
  return nullptr;
}

std::string_view type_name(const PickleValue& value) {
  if (const PickleSequence* sequence = value.sequence()) return sequence->is_tuple ? "tuple" : "list";
  static constexpr std::array<std::string_view, std::variant_size_v<PickleValue::Variant>> kNames = {
      "None",  "bool",   "int",     "int",    "float",         "complex",          "str",
      "bytes", "dtype",  "device",  "Tensor", "sparse Tensor", "quantised Tensor", "sequence",
      "dict",  "object", "storage", "name"};
  return kNames[value.data.index()];
}

}  // namespace tl
