#include "exported/constants.h"

#include <ATen/ATen.h>
#include <ATen/ScalarOps.h>
#include <ATen/core/ivalue_inl.h>
#include <ATen/core/jit_type.h>

#include <algorithm>

namespace tl::lt {
namespace {

c10::Layout layout_of(ExportedLayout layout) {
  switch (layout) {
    case ExportedLayout::kSparseCoo:
      return c10::kSparse;
    case ExportedLayout::kSparseCsr:
      return c10::kSparseCsr;
    case ExportedLayout::kSparseCsc:
      return c10::kSparseCsc;
    case ExportedLayout::kSparseBsr:
      return c10::kSparseBsr;
    case ExportedLayout::kSparseBsc:
      return c10::kSparseBsc;
    case ExportedLayout::kMkldnn:
      return c10::kMkldnn;
    case ExportedLayout::kStrided:
      return c10::kStrided;
  }
  return c10::kStrided;
}

c10::MemoryFormat memory_format_of(ExportedMemoryFormat format) {
  switch (format) {
    case ExportedMemoryFormat::kContiguous:
      return c10::MemoryFormat::Contiguous;
    case ExportedMemoryFormat::kChannelsLast:
      return c10::MemoryFormat::ChannelsLast;
    case ExportedMemoryFormat::kChannelsLast3d:
      return c10::MemoryFormat::ChannelsLast3d;
    case ExportedMemoryFormat::kPreserve:
      return c10::MemoryFormat::Preserve;
  }
  return c10::MemoryFormat::Contiguous;
}

/// A bool, number or complex as it stands; none for anything else.
c10::IValue number_of(const ExportedArgument& argument) {
  if (const auto* value = std::get_if<bool>(&argument.data)) return *value;
  if (const auto* value = std::get_if<std::int64_t>(&argument.data)) return *value;
  if (const auto* value = std::get_if<double>(&argument.data)) return *value;
  if (const auto* value = std::get_if<std::complex<double>>(&argument.data))
    return c10::complex<double>(value->real(), value->imag());
  return {};
}

/// Types that the JIT writes as int: sizes, dtypes, layouts, memory formats.
std::optional<c10::IValue> integer_of(const ExportedArgument& argument) {
  if (const auto* value = std::get_if<std::int64_t>(&argument.data)) return c10::IValue(*value);
  if (const auto* value = std::get_if<bool>(&argument.data)) return c10::IValue(std::int64_t{*value ? 1 : 0});
  if (const auto* value = std::get_if<ExportedDType>(&argument.data))
    return c10::IValue(static_cast<std::int64_t>(value->dtype));
  if (const auto* value = std::get_if<ExportedLayout>(&argument.data))
    return c10::IValue(static_cast<std::int64_t>(layout_of(*value)));
  if (const auto* value = std::get_if<ExportedMemoryFormat>(&argument.data))
    return c10::IValue(static_cast<std::int64_t>(memory_format_of(*value)));
  return std::nullopt;
}

std::optional<c10::IValue> list_of(const ExportedArgument& argument, const c10::ListType& type,
                                   const c10::Device& device, std::optional<std::int32_t> size) {
  const auto element = type.getElementType();
  c10::impl::GenericList list(element);
  if (const auto* items = argument.list()) {
    for (const auto& item : items->items) {
      auto value = constant_of(item, element, device);
      if (!value) return std::nullopt;
      list.push_back(std::move(*value));
    }
    return c10::IValue(std::move(list));
  }
  auto value = size ? constant_of(argument, element, device) : std::nullopt;
  if (!value) return std::nullopt;
  for (std::int32_t i = 0; i < *size; ++i) list.push_back(*value);
  return c10::IValue(std::move(list));
}

std::optional<c10::IValue> any_of(const ExportedArgument& argument, const c10::Device& device) {
  if (const auto number = number_of(argument); !number.isNone()) return number;
  if (const auto integer = integer_of(argument)) return integer;
  if (const auto* text = std::get_if<std::string>(&argument.data)) return c10::IValue(*text);
  if (std::holds_alternative<ExportedDevice>(argument.data)) return c10::IValue(device);
  return std::nullopt;
}

}  // namespace

at::Tensor wrapped_number(const c10::IValue& number) {
  auto tensor = c10::scalar_to_tensor(number.toScalar());
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

bool has_ref(const ExportedArgument& argument) {
  if (argument.ref() != nullptr) return true;
  if (const auto* list = argument.list()) return std::ranges::any_of(list->items, has_ref);
  if (const auto* dict = argument.dict()) {
    return std::ranges::any_of(dict->items, [](const auto& item) { return has_ref(item.second); });
  }
  return false;
}

std::optional<c10::IValue> constant_of(const ExportedArgument& argument, const c10::TypePtr& type,
                                       const c10::Device& device, std::optional<std::int32_t> list_size) {
  switch (type->kind()) {
    case c10::TypeKind::OptionalType:
      if (argument.is_none()) return c10::IValue();
      return constant_of(argument, type->expectRef<c10::OptionalType>().getElementType(), device, list_size);
    case c10::TypeKind::NoneType:
      return argument.is_none() ? std::optional<c10::IValue>(c10::IValue()) : std::nullopt;
    case c10::TypeKind::TensorType: {
      const auto number = number_of(argument);
      return number.isNone() ? std::nullopt : std::optional<c10::IValue>(wrapped_number(number));
    }
    case c10::TypeKind::NumberType: {
      const auto number = number_of(argument);
      return number.isNone() ? std::nullopt : std::optional<c10::IValue>(number);
    }
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
    case c10::TypeKind::ScalarTypeType:
    case c10::TypeKind::LayoutType:
    case c10::TypeKind::MemoryFormatType:
      return integer_of(argument);
    case c10::TypeKind::FloatType:
    case c10::TypeKind::SymFloatType: {
      if (const auto* value = std::get_if<std::int64_t>(&argument.data))
        return c10::IValue(static_cast<double>(*value));
      const auto* value = std::get_if<double>(&argument.data);
      return value ? std::optional<c10::IValue>(*value) : std::nullopt;
    }
    case c10::TypeKind::BoolType:
    case c10::TypeKind::SymBoolType: {
      const auto* value = std::get_if<bool>(&argument.data);
      return value ? std::optional<c10::IValue>(*value) : std::nullopt;
    }
    case c10::TypeKind::ComplexType: {
      const auto number = number_of(argument);
      if (number.isComplexDouble()) return number;
      if (number.isDouble()) return c10::IValue(c10::complex<double>(number.toDouble(), 0));
      if (number.isInt()) return c10::IValue(c10::complex<double>(static_cast<double>(number.toInt()), 0));
      return std::nullopt;
    }
    case c10::TypeKind::StringType: {
      const auto* value = std::get_if<std::string>(&argument.data);
      return value ? std::optional<c10::IValue>(*value) : std::nullopt;
    }
    case c10::TypeKind::DeviceObjType: {
      const auto* value = std::get_if<ExportedDevice>(&argument.data);
      // A graph exported on another device runs on this one; meta tensors stay without memory.
      if (value == nullptr) return std::nullopt;
      return c10::IValue(value->type == "meta" ? c10::Device(c10::kMeta) : device);
    }
    case c10::TypeKind::ListType:
      return list_of(argument, type->expectRef<c10::ListType>(), device, list_size);
    case c10::TypeKind::AnyType:
      return argument.is_none() ? std::optional<c10::IValue>(c10::IValue()) : any_of(argument, device);
    default:
      return argument.is_none() ? std::optional<c10::IValue>(c10::IValue()) : std::nullopt;
  }
}

}  // namespace tl::lt
