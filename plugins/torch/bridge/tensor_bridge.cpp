#include "bridge/tensor_bridge.h"

#include <ATen/ATen.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <cstdio>
#include <cstring>

#include "core/error.h"

namespace tl::lt {
namespace {

TensorPart part(std::string suffix, const at::Tensor& tensor) {
  return {std::move(suffix), to_host_tensor(tensor.device().is_cpu() ? tensor : tensor.cpu())};
}

class AtTensorRef final : public TensorRef {
 public:
  explicit AtTensorRef(at::Tensor tensor) : tensor_(std::move(tensor)) {}

  TensorKind kind() const override {
    if (tensor_.is_quantized()) return TensorKind::kQuantised;
    if (tensor_.is_sparse() || at::sparse_csr::is_sparse_compressed(tensor_)) return TensorKind::kSparse;
    if (tensor_.layout() == at::kStrided && tensor_.unsafeGetTensorImpl()->has_storage()) return TensorKind::kStrided;
    return TensorKind::kOpaque;
  }

  std::vector<TensorPart> to_host() const override {
    const at::NoGradGuard no_grad;
    switch (kind()) {
      case TensorKind::kStrided:
        return {part("", tensor_.resolve_conj().resolve_neg())};
      case TensorKind::kQuantised:
        return quantised_parts();
      case TensorKind::kSparse:
        return sparse_parts();
      case TensorKind::kOpaque:
        return {};
    }
    return {};
  }

 private:
  std::vector<TensorPart> quantised_parts() const {
    std::vector<TensorPart> parts = {part("", at::int_repr(tensor_))};
    const auto scheme = tensor_.qscheme();
    if (scheme == at::kPerTensorAffine || scheme == at::kPerTensorSymmetric) {
      parts.push_back(part(".scale", at::scalar_tensor(tensor_.q_scale(), at::kDouble)));
      parts.push_back(part(".zero_point", at::scalar_tensor(tensor_.q_zero_point(), at::kLong)));
    } else {
      parts.push_back(part(".scale", tensor_.q_per_channel_scales()));
      parts.push_back(part(".zero_point", tensor_.q_per_channel_zero_points()));
      parts.push_back(part(".axis", at::scalar_tensor(tensor_.q_per_channel_axis(), at::kLong)));
    }
    return parts;
  }

  std::vector<TensorPart> sparse_parts() const {
    if (tensor_.is_sparse()) return {part(".indices", tensor_._indices()), part(".values", tensor_._values())};
    const bool by_row = tensor_.layout() == at::kSparseCsr || tensor_.layout() == at::kSparseBsr;
    return {part(by_row ? ".crow_indices" : ".ccol_indices", by_row ? tensor_.crow_indices() : tensor_.ccol_indices()),
            part(by_row ? ".col_indices" : ".row_indices", by_row ? tensor_.col_indices() : tensor_.row_indices()),
            part(".values", tensor_.values())};
  }

  at::Tensor tensor_;
};

void append_double(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "nan";
    return;
  }
  if (std::isinf(value)) {
    out += value < 0 ? "-inf" : "inf";
    return;
  }
  char text[40];
  for (int digits = 1; digits <= 17; ++digits) {  // shortest text that reads back as the same number
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  out += text;
  if (std::strpbrk(text, ".e") == nullptr) out += ".0";
}

/// A tensor without dims whose element can be read here and now, and shown as a number.
bool is_number(const at::Tensor& tensor) {
  return tensor.defined() && tensor.dim() == 0 && tensor.layout() == at::kStrided && tensor.device().is_cpu() &&
         !tensor.is_quantized() && tensor.scalar_type() != at::kUInt64;
}

/// `numbers`: tensors without dims as their element, not as their type.
void append_text(std::string& out, const c10::IValue& value, std::size_t max_length, bool numbers) {
  if (out.size() > max_length) return;
  if (value.isNone())
    out += "None";
  else if (value.isBool())
    out += value.toBool() ? "True" : "False";
  else if (value.isInt())
    out += std::to_string(value.toInt());
  else if (value.isDouble())
    append_double(out, value.toDouble());
  else if (value.isString())
    out += '"' + value.toStringRef() + '"';
  else if (value.isDevice())
    out += value.toDevice().str();
  else if (value.isComplexDouble()) {
    const auto number = value.toComplexDouble();
    append_double(out, number.real());
    out += number.imag() < 0 ? "-" : "+";
    append_double(out, std::fabs(number.imag()));
    out += "j";
  } else if (value.isTensor()) {
    const auto& tensor = value.toTensor();
    if (!tensor.defined()) {
      out += "undefined";
      return;
    }
    if (numbers && is_number(tensor)) return append_text(out, c10::IValue(tensor.detach().item()), max_length, true);
    out += std::string(short_name(dtype_of(tensor))) + "[";
    for (std::int64_t i = 0; i < tensor.dim(); ++i) out += (i ? "," : "") + std::to_string(tensor.size(i));
    out += "]";
  } else if (value.isList() || value.isTuple()) {
    const bool list = value.isList();
    const auto held = list ? value.toListRef().vec() : value.toTupleRef().elements().vec();
    out += list ? "[" : "(";
    for (std::size_t i = 0; i < held.size() && out.size() <= max_length; ++i) {
      if (i) out += ", ";
      append_text(out, held[i], max_length, numbers);
    }
    out += list ? "]" : ")";
  } else {
    out += "<" + value.tagKind() + ">";
  }
}

[[noreturn]] void misfit(const std::string& name, const c10::Type& type, const std::string& got) {
  throw Error(ErrorCode::kInputMismatch, "argument '" + name + "' takes " + type.annotation_str() + ", got " + got);
}

std::string kind_name(const InputValue& value) {
  constexpr const char* kNames[] = {"None", "bool", "int", "float", "str", "Tensor", "list", "tuple", "dict"};
  return kNames[value.data.index()];
}

const std::vector<InputValue>* sequence_of(const InputValue& value) {
  if (const auto* list = std::get_if<InputValue::List>(&value.data)) return list;
  if (const auto* tuple = std::get_if<InputValue::Tuple>(&value.data)) return &tuple->elements;
  return nullptr;
}

/// A 0-d tensor stands for a number where it does so exactly.
c10::IValue scalar_from_tensor(const HostTensor& tensor, const c10::Type& type, const std::string& name) {
  const auto value = from_host_tensor(tensor);
  if (value.numel() != 1) misfit(name, type, "a tensor of " + std::to_string(value.numel()) + " elements");
  const auto number = value.reshape({}).item();
  switch (type.kind()) {
    case c10::TypeKind::IntType:
      if (number.isIntegral(false)) return number.toLong();
      if (number.isFloatingPoint() && std::nearbyint(number.toDouble()) == number.toDouble() &&
          std::fabs(number.toDouble()) < 9007199254740992.0) {
        return static_cast<std::int64_t>(number.toDouble());
      }
      break;
    case c10::TypeKind::FloatType:
      if (number.isFloatingPoint()) return number.toDouble();
      if (number.isIntegral(false) && std::llabs(number.toLong()) <= (1LL << 53))
        return static_cast<double>(number.toLong());
      break;
    case c10::TypeKind::BoolType:
      if (number.isBoolean()) return number.toBool();
      if (number.isIntegral(false) && (number.toLong() == 0 || number.toLong() == 1)) return number.toLong() == 1;
      break;
    default:
      return c10::IValue(number);
  }
  misfit(name, type, "a 0-d tensor of " + std::string(short_name(tensor.dtype)) + " whose value does not fit exactly");
}

c10::IValue list_to_ivalue(const std::vector<InputValue>& elements, const c10::ListType& type,
                           const std::string& name) {
  const auto element_type = type.getElementType();
  c10::impl::GenericList list(element_type);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    list.push_back(to_ivalue(elements[i], element_type, name + "." + std::to_string(i)));
  }
  return list;
}

c10::IValue tuple_to_ivalue(const InputValue& value, const c10::TupleTypePtr& pointer, const std::string& name) {
  const auto& type = *pointer;
  const auto element_types = type.elements();
  std::vector<InputValue> by_field;
  const auto* elements = sequence_of(value);
  if (const auto* dict = std::get_if<InputValue::Dict>(&value.data); dict && type.schema()) {
    for (const auto& field : type.schema()->arguments()) {
      for (const auto& [key, entry] : *dict) {
        const auto* text = std::get_if<std::string>(&key.data);
        if (text && *text == field.name()) by_field.push_back(entry);
      }
    }
    elements = &by_field;
  }
  if (!elements || elements->size() != element_types.size()) {
    misfit(name, type, elements ? "a sequence of " + std::to_string(elements->size()) : kind_name(value));
  }
  std::vector<c10::IValue> values;
  for (std::size_t i = 0; i < element_types.size(); ++i) {
    values.push_back(to_ivalue((*elements)[i], element_types[i], name + "." + std::to_string(i)));
  }
  if (type.schema()) {
    return c10::ivalue::Tuple::createNamed(std::move(values), pointer);
  }
  return c10::ivalue::Tuple::create(std::move(values));
}

c10::IValue dict_to_ivalue(const InputValue& value, const c10::DictType& type, const std::string& name) {
  const auto* entries = std::get_if<InputValue::Dict>(&value.data);
  if (!entries) misfit(name, type, kind_name(value));
  c10::impl::GenericDict dict(type.getKeyType(), type.getValueType());
  for (const auto& [key, entry] : *entries) {
    const auto* text = std::get_if<std::string>(&key.data);
    dict.insert_or_assign(to_ivalue(key, type.getKeyType(), name + " (key)"),
                          to_ivalue(entry, type.getValueType(), name + "." + (text ? *text : std::string("?"))));
  }
  return dict;
}

/// Lists of host scalars are one leaf; lists that hold tensors or containers are walked.
bool may_hold_leaves(const c10::IValue& value) {
  switch (value.toList().elementType()->kind()) {
    case c10::TypeKind::IntType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::StringType:
    case c10::TypeKind::ComplexType:
      return false;
    default:
      return true;
  }
}

/// What an untyped position (Any) takes: containers as they come.
c10::IValue any_to_ivalue(const InputValue& value, const std::string& name) {
  if (const auto* tensor = std::get_if<HostTensor>(&value.data)) return from_host_tensor(*tensor);
  if (const auto* flag = std::get_if<bool>(&value.data)) return *flag;
  if (const auto* number = std::get_if<std::int64_t>(&value.data)) return *number;
  if (const auto* real = std::get_if<double>(&value.data)) return *real;
  if (const auto* text = std::get_if<std::string>(&value.data)) return *text;
  if (const auto* elements = sequence_of(value)) {
    std::vector<c10::IValue> values;
    for (const auto& element : *elements) values.push_back(any_to_ivalue(element, name));
    if (std::holds_alternative<InputValue::Tuple>(value.data)) return c10::ivalue::Tuple::create(std::move(values));
    c10::impl::GenericList list(c10::AnyType::get());
    for (auto& element : values) list.push_back(std::move(element));
    return list;
  }
  return c10::IValue();
}

}  // namespace

DType dtype_of(const at::Tensor& tensor) { return static_cast<DType>(tensor.scalar_type()); }

DeviceKind device_kind_of(const at::Tensor& tensor) {
  if (tensor.device().is_cpu()) return DeviceKind::kCpu;
  if (tensor.device().is_cuda()) return DeviceKind::kCuda;
  return tensor.device().is_meta() ? DeviceKind::kMeta : DeviceKind::kOther;
}

TensorRefPtr make_tensor_ref(at::Tensor tensor) { return std::make_shared<AtTensorRef>(std::move(tensor)); }

HostTensor to_host_tensor(const at::Tensor& tensor) {
  HostTensor host;
  host.dtype = dtype_of(tensor);
  host.sizes = tensor.sizes().vec();
  host.strides = tensor.strides().vec();
  host.offset = tensor.storage_offset();
  const auto& storage = tensor.storage();
  host.storage = {static_cast<const std::byte*>(storage.data()), storage.nbytes()};
  host.owner = std::make_shared<at::Tensor>(tensor);
  return host;
}

at::Tensor from_host_tensor(const HostTensor& tensor) {
  TL_CHECK(fits_storage(tensor, tensor.storage.size()), "an input lies outside its storage");
  const auto type = static_cast<c10::ScalarType>(tensor.dtype);
  if (tensor.numel() == 0) return at::empty(tensor.sizes, at::TensorOptions().dtype(type));
  const auto view = at::from_blob(const_cast<std::byte*>(tensor.storage.data()) +
                                      static_cast<std::size_t>(tensor.offset) * item_bytes(tensor.dtype),
                                  tensor.sizes, tensor.strides, at::TensorOptions().dtype(type));
  return view.clone(at::MemoryFormat::Preserve);
}

TypeNode type_node(const c10::Type& type) {
  TypeNode node;
  node.text = type.annotation_str();
  using Kind = TypeNode::Kind;
  switch (type.kind()) {
    case c10::TypeKind::TensorType:
      node.kind = Kind::kTensor;
      break;
    case c10::TypeKind::IntType:
      node.kind = Kind::kInt;
      break;
    case c10::TypeKind::FloatType:
      node.kind = Kind::kFloat;
      break;
    case c10::TypeKind::BoolType:
      node.kind = Kind::kBool;
      break;
    case c10::TypeKind::StringType:
      node.kind = Kind::kString;
      break;
    case c10::TypeKind::ComplexType:
      node.kind = Kind::kComplex;
      break;
    case c10::TypeKind::NumberType:
      node.kind = Kind::kNumber;
      break;
    case c10::TypeKind::DeviceObjType:
      node.kind = Kind::kDevice;
      break;
    case c10::TypeKind::NoneType:
      node.kind = Kind::kNone;
      break;
    case c10::TypeKind::OptionalType:
      node.kind = Kind::kOptional;
      break;
    case c10::TypeKind::ListType:
      node.kind = Kind::kList;
      break;
    case c10::TypeKind::DictType:
      node.kind = Kind::kDict;
      break;
    case c10::TypeKind::TupleType: {
      const auto& schema = type.expectRef<c10::TupleType>().schema();
      node.kind = schema ? Kind::kNamedTuple : Kind::kTuple;
      if (schema) {
        for (const auto& field : schema->arguments()) node.field_names.push_back(field.name());
      }
      break;
    }
    default:
      node.kind = Kind::kOther;
      break;
  }
  if (node.kind == Kind::kOptional) {
    node.children.push_back(type_node(*type.expectRef<c10::OptionalType>().getElementType()));
  } else if (node.kind != Kind::kOther) {
    for (const auto& child : type.containedTypes()) node.children.push_back(type_node(*child));
  }
  return node;
}

c10::IValue to_ivalue(const InputValue& value, const c10::TypePtr& type, const std::string& name) {
  const bool none = std::holds_alternative<InputValue::None>(value.data);
  switch (type->kind()) {
    case c10::TypeKind::OptionalType:
      if (none) return c10::IValue();
      return to_ivalue(value, type->expectRef<c10::OptionalType>().getElementType(), name);
    case c10::TypeKind::NoneType:
      if (none) return c10::IValue();
      break;
    case c10::TypeKind::TensorType:
      if (const auto* tensor = std::get_if<HostTensor>(&value.data)) return from_host_tensor(*tensor);
      break;
    case c10::TypeKind::IntType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::NumberType:
      if (const auto* tensor = std::get_if<HostTensor>(&value.data)) return scalar_from_tensor(*tensor, *type, name);
      if (const auto* flag = std::get_if<bool>(&value.data);
          flag && (type->kind() == c10::TypeKind::BoolType || type->kind() == c10::TypeKind::NumberType)) {
        return *flag;
      }
      if (const auto* number = std::get_if<std::int64_t>(&value.data);
          number && type->kind() != c10::TypeKind::BoolType) {
        if (type->kind() == c10::TypeKind::FloatType) return static_cast<double>(*number);
        return *number;
      }
      if (const auto* real = std::get_if<double>(&value.data);
          real && (type->kind() == c10::TypeKind::FloatType || type->kind() == c10::TypeKind::NumberType)) {
        return *real;
      }
      break;
    case c10::TypeKind::StringType:
      if (const auto* text = std::get_if<std::string>(&value.data)) return *text;
      break;
    case c10::TypeKind::DeviceObjType:
      if (const auto* text = std::get_if<std::string>(&value.data)) return c10::Device(*text);
      break;
    case c10::TypeKind::ListType:
      if (const auto* elements = sequence_of(value)) {
        return list_to_ivalue(*elements, type->expectRef<c10::ListType>(), name);
      }
      break;
    case c10::TypeKind::TupleType:
      return tuple_to_ivalue(value, type->expect<c10::TupleType>(), name);
    case c10::TypeKind::DictType:
      return dict_to_ivalue(value, type->expectRef<c10::DictType>(), name);
    case c10::TypeKind::AnyType:
      return any_to_ivalue(value, name);
    case c10::TypeKind::UnionType:
      for (const auto& member : type->containedTypes()) {
        try {
          return to_ivalue(value, member, name);
        } catch (const Error&) {  // the next member may take it; the last word is the misfit below
          continue;
        }
      }
      break;
    default:
      break;
  }
  misfit(name, *type, kind_name(value));
}

std::string text_of(const c10::IValue& value, std::size_t max_length) {
  std::string out;
  append_text(out, value, max_length, false);
  if (out.size() > max_length) out = out.substr(0, max_length) + "…";
  return out;
}

std::string literal_of(const c10::IValue& value) {
  constexpr std::size_t kMaxLength = 200;
  std::string out;
  append_text(out, value, kMaxLength, true);
  if (out.size() > kMaxLength) out = out.substr(0, kMaxLength) + "…";
  return out;
}

void for_each_leaf(const c10::IValue& value, const std::string& base,
                   const std::function<void(const std::string&, const c10::IValue&)>& visit) {
  if (value.isTuple()) {
    const auto& tuple = value.toTupleRef();
    const auto type = value.type()->cast<c10::TupleType>();
    const auto* schema = type && type->schema() ? type->schema().get() : nullptr;
    for (std::size_t i = 0; i < tuple.elements().size(); ++i) {
      const auto step = schema ? schema->arguments()[i].name() : std::to_string(i);
      for_each_leaf(tuple.elements()[i], base + "." + step, visit);
    }
  } else if (value.isList() && may_hold_leaves(value)) {
    std::size_t i = 0;
    for (const auto& element : value.toListRef()) for_each_leaf(element, base + "." + std::to_string(i++), visit);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {
      const auto key = entry.key().isString() ? entry.key().toStringRef() : text_of(entry.key());
      for_each_leaf(entry.value(), base + "." + key, visit);
    }
  } else {
    visit(base, value);
  }
}

std::string demangle(const std::string& qualified_name) {
  std::string out;
  std::size_t begin = 0;
  while (begin <= qualified_name.size()) {
    const auto dot = qualified_name.find('.', begin);
    const auto atom = qualified_name.substr(begin, dot == std::string::npos ? dot : dot - begin);
    const bool skipped = atom == "__torch__" || atom.rfind("___torch_mangle_", 0) == 0;
    if (!skipped) out += (out.empty() ? "" : ".") + atom;
    if (dot == std::string::npos) break;
    begin = dot + 1;
  }
  return out;
}

}  // namespace tl::lt
