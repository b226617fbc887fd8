#include "engine/pickle_input.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace tl {
namespace {

/// Values of a file that is read as inputs: each takes some 200 bytes, shared ones are counted where they stand.
constexpr std::size_t kMaxValues = 1'000'000;

class Converter {
 public:
  explicit Converter(const std::string& file) : file_(file) {}

  InputValue convert(const PickleValue& value, const std::string& path) {
    const auto source = file_ + (path.empty() ? "" : ":" + path);
    if (++values_ > kMaxValues) {
      throw Error(ErrorCode::kFileLimits,
                  file_ + ": more than " + std::to_string(kMaxValues) + " values; give long lists as tensors");
    }
    if (value.is_none()) return {InputValue::None{}, source};
    if (const auto* boolean = value.boolean()) return {*boolean, source};
    if (const auto* integer = value.integer()) return {*integer, source};
    if (const auto* real = value.real()) return {*real, source};
    if (const auto* text = value.string()) return {*text, source};
    if (const auto* device = std::get_if<PickleDevice>(&value.data)) return {device->name, source};
    if (const auto* tensor = value.tensor()) return {*tensor, source};
    if (const auto* sequence = value.sequence()) return convert_sequence(*sequence, path, source);
    if (const auto* dict = value.dict()) return convert_dict(*dict, path, source);
    if (const auto* object = value.object()) return convert_object(*object, path, source);
    if (const auto* big = std::get_if<PickleBigInt>(&value.data)) {
      throw Error(ErrorCode::kInputMismatch, source + ": the integer " + elide(big->digits, 40) + " is outside int64");
    }
    throw Error(ErrorCode::kInputMismatch,
                source + ": a value of type " + std::string(type_name(value)) + " cannot be an input",
                "inputs are tensors, numbers, strings, None, and lists, tuples and dicts of them");
  }

 private:
  static std::string below(const std::string& path, const std::string& name) {
    return path.empty() ? name : path + "." + name;
  }

  InputValue convert_sequence(const PickleSequence& sequence, const std::string& path, const std::string& source) {
    InputValue::List elements;
    for (std::size_t i = 0; i < sequence.items.size(); ++i) {
      elements.push_back(convert(sequence.items[i], below(path, std::to_string(i))));
    }
    if (sequence.is_tuple) return {InputValue::Tuple{std::move(elements)}, source};
    return {std::move(elements), source};
  }

  InputValue convert_dict(const PickleDict& dict, const std::string& path, const std::string& source) {
    InputValue::Dict items;
    for (const auto& [key, element] : dict.items) {
      auto new_key = convert(key, below(path, "(key)"));
      const auto* text = std::get_if<std::string>(&new_key.data);
      const auto name = below(path, text != nullptr ? *text : describe(new_key));
      items.emplace_back(std::move(new_key), convert(element, name));
    }
    return {std::move(items), source};
  }

  /// A named tuple is its fields in order; a dataclass those that are not None, by name, as torch.export flattens it.
  InputValue convert_object(const PickleObject& object, const std::string& path, const std::string& source) {
    const auto* fields = object.state.dict();
    if (!fields) {
      InputValue::List elements;
      for (std::size_t i = 0; i < object.args.size(); ++i) {
        elements.push_back(convert(object.args[i], below(path, std::to_string(i))));
      }
      return {InputValue::Tuple{std::move(elements)}, source};
    }
    PickleDict present;
    for (const auto& field : fields->items) {
      if (!field.second.is_none()) present.items.push_back(field);
    }
    return convert_dict(present, path, source);
  }

  const std::string& file_;
  std::size_t values_ = 0;
};

bool has_string_keys(const InputValue::Dict& dict) {
  return std::ranges::all_of(dict,
                             [](const auto& item) { return std::holds_alternative<std::string>(item.first.data); });
}

void add_named(GivenSet& set, const InputValue::Dict& dict) {
  for (const auto& [key, value] : dict) set.entries.push_back({std::get<std::string>(key.data), value});
}

/// (args, kwargs) as people store them to call model(*args, **kwargs).
bool add_call(GivenSet& set, const InputValue::Tuple& tuple) {
  if (tuple.elements.size() != 2) return false;
  const auto* args = std::get_if<InputValue::Tuple>(&tuple.elements[0].data);
  const auto* kwargs = std::get_if<InputValue::Dict>(&tuple.elements[1].data);
  if (args == nullptr || kwargs == nullptr || !has_string_keys(*kwargs)) return false;
  set.positional = args->elements;
  add_named(set, *kwargs);
  set.names_are_meant = true;
  return true;
}

}  // namespace

GivenSet given_from_value(InputValue value) {
  GivenSet set;
  if (const auto* tuple = std::get_if<InputValue::Tuple>(&value.data)) {
    if (add_call(set, *tuple)) return set;
    set.positional = tuple->elements;
  } else if (const auto* list = std::get_if<InputValue::List>(&value.data)) {
    set.positional = *list;
  } else if (const auto* dict = std::get_if<InputValue::Dict>(&value.data); dict != nullptr && has_string_keys(*dict)) {
    add_named(set, *dict);
  } else if (dict == nullptr) {
    set.entries.push_back({"", std::move(value)});
    return set;
  }
  set.whole = std::move(value);
  return set;
}

GivenSet given_from_pickle(const PickleValue& value, const std::string& shown_name) {
  return given_from_value(Converter(shown_name).convert(value, {}));
}

}  // namespace tl
