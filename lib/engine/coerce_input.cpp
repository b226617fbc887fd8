#include "engine/coerce_input.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/given_inputs.h"

namespace tl {
namespace {

using Kind = TypeNode::Kind;

/// A host scalar read out of a tensor with one element.
using Scalar = std::variant<std::monostate, bool, std::int64_t, double>;

template <typename T>
T load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

Scalar integer_element(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kI8:
      return std::int64_t{load<std::int8_t>(at)};
    case DType::kU8:
      return std::int64_t{load<std::uint8_t>(at)};
    case DType::kI16:
      return std::int64_t{load<std::int16_t>(at)};
    case DType::kU16:
      return std::int64_t{load<std::uint16_t>(at)};
    case DType::kI32:
      return std::int64_t{load<std::int32_t>(at)};
    case DType::kU32:
      return std::int64_t{load<std::uint32_t>(at)};
    case DType::kI64:
      return load<std::int64_t>(at);
    default:
      return {};
  }
}

Scalar element_of(const HostTensor& tensor) {
  const auto item = item_bytes(tensor.dtype);
  const auto begin = static_cast<std::size_t>(tensor.offset) * item;
  if (!tensor.sizes.empty() || begin + item > tensor.storage.size()) return {};
  const std::byte* at = tensor.storage.data() + begin;
  switch (tensor.dtype) {
    case DType::kBool:
      return load<std::uint8_t>(at) != 0;
    case DType::kF32:
      return double{load<float>(at)};
    case DType::kF64:
      return load<double>(at);
    default:
      return integer_element(tensor.dtype, at);
  }
}

constexpr double kTwoTo63 = 0x1.0p63;

std::optional<std::int64_t> exact_integer(double value) {
  if (!(value >= -kTwoTo63 && value < kTwoTo63) || std::trunc(value) != value) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

std::optional<double> exact_double(std::int64_t value) {
  const auto real = static_cast<double>(value);
  if (real >= kTwoTo63 || static_cast<std::int64_t>(real) != value) return std::nullopt;
  return real;
}

/// `from_tensor` loosens: a 0-d tensor has no type of its own that the user could have meant.
std::optional<InputValue> fit_scalar(const Scalar& scalar, Kind kind, bool from_tensor, const std::string& source) {
  const auto made = [&](auto value) { return InputValue{value, source}; };
  if (const auto* boolean = std::get_if<bool>(&scalar)) {
    if (kind == Kind::kBool || kind == Kind::kNumber) return made(*boolean);
    return std::nullopt;
  }
  if (const auto* integer = std::get_if<std::int64_t>(&scalar)) {
    if (kind == Kind::kInt || kind == Kind::kNumber) return made(*integer);
    if (kind == Kind::kBool && from_tensor && (*integer == 0 || *integer == 1)) return made(*integer == 1);
    if (kind == Kind::kFloat) {
      if (const auto real = exact_double(*integer)) return made(*real);
    }
    return std::nullopt;
  }
  if (const auto* real = std::get_if<double>(&scalar)) {
    if (kind == Kind::kFloat || kind == Kind::kNumber) return made(*real);
    if (kind == Kind::kInt && from_tensor) {
      if (const auto integer = exact_integer(*real)) return made(*integer);
    }
  }
  return std::nullopt;
}

class Coercer {
 public:
  explicit Coercer(std::vector<std::string>& misfits) : misfits_(misfits) {}

  std::optional<InputValue> run(const InputValue& value, const TypeNode& type, const std::string& path) {
    switch (type.kind) {
      case Kind::kOptional:
        if (std::holds_alternative<InputValue::None>(value.data)) return value;
        return run(value, type.children.at(0), path);
      case Kind::kList:
        return list(value, type, path);
      case Kind::kTuple:
      case Kind::kNamedTuple:
        return tuple(value, type, path);
      case Kind::kDict:
        return dict(value, type, path);
      default:
        return leaf(value, type, path);
    }
  }

 private:
  std::nullopt_t misfit(const InputValue& value, const TypeNode& type, const std::string& path,
                        const std::string& why = {}) {
    misfits_.push_back(path + ": " + describe(value) + " given, " + type.text + " wanted" +
                       (why.empty() ? "" : "; " + why));
    return std::nullopt;
  }

  static const InputValue::List* elements_of(const InputValue& value) {
    if (const auto* list = std::get_if<InputValue::List>(&value.data)) return list;
    if (const auto* tuple = std::get_if<InputValue::Tuple>(&value.data)) return &tuple->elements;
    return nullptr;
  }

  std::optional<InputValue> list(const InputValue& value, const TypeNode& type, const std::string& path) {
    const auto* elements = elements_of(value);
    if (elements == nullptr) return misfit(value, type, path);
    InputValue::List result;
    bool fits = true;
    for (std::size_t i = 0; i < elements->size(); ++i) {
      auto element = run((*elements)[i], type.children.at(0), path + "." + std::to_string(i));
      fits = fits && element.has_value();
      if (element) result.push_back(std::move(*element));
    }
    if (!fits) return std::nullopt;
    return InputValue{std::move(result), value.source};
  }

  std::optional<InputValue> tuple(const InputValue& value, const TypeNode& type, const std::string& path) {
    if (const auto* items = std::get_if<InputValue::Dict>(&value.data)) return fields(value, *items, type, path);
    const auto* elements = elements_of(value);
    if (elements == nullptr) return misfit(value, type, path);
    if (elements->size() != type.children.size()) {
      return misfit(value, type, path,
                    std::to_string(elements->size()) + " elements against " + std::to_string(type.children.size()));
    }
    InputValue::Tuple result;
    for (std::size_t i = 0; i < elements->size(); ++i) {
      const auto name = i < type.field_names.size() ? type.field_names[i] : std::to_string(i);
      if (auto element = run((*elements)[i], type.children[i], path + "." + name)) {
        result.elements.push_back(std::move(*element));
      }
    }
    if (result.elements.size() != elements->size()) return std::nullopt;
    return InputValue{std::move(result), value.source};
  }

  /// A dict for a type with named fields: the fields by name, in the type's order.
  std::optional<InputValue> fields(const InputValue& value, const InputValue::Dict& items, const TypeNode& type,
                                   const std::string& path) {
    InputValue::Tuple result;
    for (std::size_t i = 0; i < type.field_names.size(); ++i) {
      const auto& name = type.field_names[i];
      const auto found = std::ranges::find_if(items, [&](const auto& item) {
        const auto* text = std::get_if<std::string>(&item.first.data);
        const auto* number = std::get_if<std::int64_t>(&item.first.data);
        return (text != nullptr && *text == name) || (number != nullptr && std::to_string(*number) == name);
      });
      if (found == items.end()) return misfit(value, type, path, "no key " + name);
      if (auto element = run(found->second, type.children[i], path + "." + name)) {
        result.elements.push_back(std::move(*element));
      }
    }
    if (items.size() != type.field_names.size()) {
      return misfit(value, type, path,
                    std::to_string(items.size()) + " keys against " + std::to_string(type.field_names.size()));
    }
    if (result.elements.size() != items.size()) return std::nullopt;
    return InputValue{std::move(result), value.source};
  }

  std::optional<InputValue> dict(const InputValue& value, const TypeNode& type, const std::string& path) {
    const auto* items = std::get_if<InputValue::Dict>(&value.data);
    if (items == nullptr) return misfit(value, type, path);
    InputValue::Dict result;
    for (const auto& [key, element] : *items) {
      const auto* text = std::get_if<std::string>(&key.data);
      const auto name = path + "." + (text != nullptr ? *text : describe(key));
      auto new_key = run(key, type.children.at(0), name + " (its key)");
      auto new_value = run(element, type.children.at(1), name);
      if (new_key && new_value) result.emplace_back(std::move(*new_key), std::move(*new_value));
    }
    if (result.size() != items->size()) return std::nullopt;
    return InputValue{std::move(result), value.source};
  }

  std::optional<InputValue> leaf(const InputValue& value, const TypeNode& type, const std::string& path) {
    const bool is_text = std::holds_alternative<std::string>(value.data);
    switch (type.kind) {
      case Kind::kTensor:
        if (std::holds_alternative<HostTensor>(value.data)) return value;
        return misfit(value, type, path);
      case Kind::kString:
      case Kind::kDevice:
        if (is_text) return value;
        return misfit(value, type, path);
      case Kind::kNone:
        if (std::holds_alternative<InputValue::None>(value.data)) return value;
        return misfit(value, type, path);
      case Kind::kOther:
      case Kind::kComplex:
        return misfit(value, type, path, "values of this type cannot be given");
      default:
        return scalar(value, type, path);
    }
  }

  std::optional<InputValue> scalar(const InputValue& value, const TypeNode& type, const std::string& path) {
    Scalar number;
    const auto* tensor = std::get_if<HostTensor>(&value.data);
    if (tensor != nullptr) number = element_of(*tensor);
    if (const auto* boolean = std::get_if<bool>(&value.data)) number = *boolean;
    if (const auto* integer = std::get_if<std::int64_t>(&value.data)) number = *integer;
    if (const auto* real = std::get_if<double>(&value.data)) number = *real;
    if (auto fitted = fit_scalar(number, type.kind, tensor != nullptr, value.source)) return fitted;
    if (tensor == nullptr) return misfit(value, type, path);
    return misfit(value, type, path,
                  tensor->sizes.empty() ? "its value does not convert exactly" : "only a 0-d tensor fits");
  }

  std::vector<std::string>& misfits_;
};

std::string sizes_text(const std::vector<std::int64_t>& sizes) {
  std::string text = "[";
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    text += (i > 0 ? "," : "") + (sizes[i] < 0 ? std::string("*") : std::to_string(sizes[i]));
  }
  return text + "]";
}

bool sizes_fit(const std::vector<std::int64_t>& given, const std::vector<std::int64_t>& stated) {
  return std::ranges::equal(given, stated, [](auto a, auto b) { return b < 0 || a == b; });
}

}  // namespace

std::optional<InputValue> coerce_input(const InputValue& value, const TypeNode& type, const std::string& path,
                                       std::vector<std::string>& misfits) {
  return Coercer(misfits).run(value, type, path);
}

void check_expectation(const HostTensor& tensor, const TensorExpectation& expected, const std::string& path,
                       std::vector<std::string>& misfits) {
  const bool dtype_differs = expected.dtype && *expected.dtype != tensor.dtype;
  const bool sizes_differ = expected.sizes && !sizes_fit(tensor.sizes, *expected.sizes);
  if (!dtype_differs && !sizes_differ) return;
  const auto dtype = expected.dtype ? std::string(short_name(*expected.dtype)) : std::string();
  misfits.push_back(path + ": " + describe(InputValue{tensor, {}}) + " given, the file states " + dtype +
                    (expected.sizes ? sizes_text(*expected.sizes) : std::string(" of any size")) +
                    (dtype_differs ? " (" + std::string(dtype_info(tensor.dtype).torch_name) + " against " +
                                         std::string(dtype_info(*expected.dtype).torch_name) + ")"
                                   : std::string()));
}

}  // namespace tl
