#include "archive/exported_json.h"

#include <algorithm>
#include <limits>

#include "archive/entry_name.h"
#include "archive/limits.h"
#include "archive/sympy_text.h"

namespace tl {
namespace {

[[noreturn]] void wrong_type(const ExportedPlace& place, std::string_view what, JsonRef value,
                             std::string_view wanted) {
  place.damaged(std::string(what) + " is " + std::string(kind_name(value)) + ", not " + std::string(wanted));
}

}  // namespace

void ExportedPlace::fail(ErrorCode code, const std::string& what) const {
  std::string message = where + ": ";
  if (!graph.empty()) message += "graph " + quoted_name(graph) + ": ";
  if (node >= 0) {
    message += "node " + std::to_string(node);
    if (!node_name.empty()) message += ' ' + quoted_name(node_name);
    message += ": ";
  }
  if (!part.empty()) message += std::string(part) + (part_name.empty() ? "" : ' ' + quoted_name(part_name)) + ": ";
  throw Error(code, message + what);
}

JsonRef required(const ExportedPlace& place, JsonRef object, std::string_view key) {
  const JsonRef value = expect_object(place, object, key).find(key);
  if (!value) place.damaged("has no " + quoted_name(key));
  return value;
}

JsonRef optional_member(const ExportedPlace& place, JsonRef object, std::string_view key) {
  const JsonRef value = expect_object(place, object, key).find(key);
  return value && !value.is_null() ? value : JsonRef();
}

JsonRef expect_object(const ExportedPlace& place, JsonRef value, std::string_view what) {
  if (!value || !value.is_object()) wrong_type(place, what, value, "an object");
  return value;
}

JsonRef expect_array(const ExportedPlace& place, JsonRef value, std::string_view what) {
  if (!value || !value.is_array()) wrong_type(place, what, value, "a list");
  return value;
}

std::string_view expect_string(const ExportedPlace& place, JsonRef value, std::string_view what) {
  if (!value || !value.is_string()) wrong_type(place, what, value, "a string");
  return value.string();
}

std::int64_t expect_integer(const ExportedPlace& place, JsonRef value, std::string_view what) {
  if (!value || !value.is_integer()) wrong_type(place, what, value, "an integer of 64 bits");
  return value.integer();
}

bool expect_bool(const ExportedPlace& place, JsonRef value, std::string_view what) {
  if (!value || !value.is_bool()) wrong_type(place, what, value, "a bool");
  return value.boolean();
}

double expect_float(const ExportedPlace& place, JsonRef value, std::string_view what) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (value && value.is_real()) return value.real();
  if (value && value.is_integer()) return static_cast<double>(value.integer());
  if (value && value.is_string()) {
    if (value.string() == "Infinity") return kInfinity;
    if (value.string() == "-Infinity") return -kInfinity;
    if (value.string() == "NaN") return std::numeric_limits<double>::quiet_NaN();
  }
  wrong_type(place, what, value, "a number");
}

void expect_module_path(const ExportedPlace& place, std::string_view path) {
  const auto parts = static_cast<std::size_t>(std::ranges::count(path, '.')) + 1;
  if (parts <= limits::kModulePathParts) return;
  place.fail(ErrorCode::kFileLimits, "the path of a module has " + std::to_string(parts) + " names, the limit is " +
                                         std::to_string(limits::kModulePathParts));
}

JsonMember expect_union(const ExportedPlace& place, JsonRef value, std::string_view what) {
  expect_object(place, value, what);
  JsonMember found{};
  std::size_t count = 0;
  for (const JsonMember member : value.members()) {
    if (member.value.is_null()) continue;
    found = member;
    ++count;
  }
  if (count != 1) place.damaged(std::string(what) + " has " + std::to_string(count) + " kinds instead of one");
  return found;
}

DType exported_dtype(const ExportedPlace& place, JsonRef value) {
  const std::int64_t number = expect_integer(place, value, "dtype");
  switch (number) {
    case 1:
      return DType::kU8;
    case 2:
      return DType::kI8;
    case 3:
      return DType::kI16;
    case 4:
      return DType::kI32;
    case 5:
      return DType::kI64;
    case 6:
      return DType::kF16;
    case 7:
      return DType::kF32;
    case 8:
      return DType::kF64;
    case 9:
      return DType::kC32;
    case 10:
      return DType::kC64;
    case 11:
      return DType::kC128;
    case 12:
      return DType::kBool;
    case 13:
      return DType::kBF16;
    case 28:
      return DType::kU16;
    case 29:
      return DType::kF8E4M3;
    case 30:
      return DType::kF8E5M2;
    case 31:
      return DType::kF8E4M3FNUZ;
    case 32:
      return DType::kF8E5M2FNUZ;
    case 33:
      return DType::kF8E8M0;
    case 34:
      return DType::kU32;
    case 35:
      return DType::kU64;
    default:
      place.fail(ErrorCode::kUnsupportedProgram, "unknown dtype number " + std::to_string(number));
  }
}

ExportedLayout exported_layout(const ExportedPlace& place, JsonRef value) {
  const std::int64_t number = expect_integer(place, value, "layout");
  if (number < 1 || number > 7) {
    place.fail(ErrorCode::kUnsupportedProgram, "unknown layout number " + std::to_string(number));
  }
  return static_cast<ExportedLayout>(number);
}

ExportedMemoryFormat exported_memory_format(const ExportedPlace& place, JsonRef value) {
  const std::int64_t number = expect_integer(place, value, "memory format");
  if (number < 1 || number > 4) {
    place.fail(ErrorCode::kUnsupportedProgram, "unknown memory format number " + std::to_string(number));
  }
  return static_cast<ExportedMemoryFormat>(number);
}

ExportedDevice exported_device(const ExportedPlace& place, JsonRef value) {
  ExportedDevice device;
  device.type = expect_string(place, required(place, value, "type"), "device type");
  if (const JsonRef index = optional_member(place, value, "index")) {
    device.index = expect_integer(place, index, "device index");
  }
  return device;
}

ExportedSymInt exported_sym_int(const ExportedPlace& place, JsonRef value) {
  const JsonMember kind = expect_union(place, value, "size");
  ExportedSymInt result;
  if (kind.key == "as_int") {
    result.value = expect_integer(place, kind.value, "size");
  } else if (kind.key == "as_expr") {
    result.expression = sympy_text(expect_string(place, required(place, kind.value, "expr_str"), "expression"));
    if (result.expression.empty()) place.damaged("a size with an empty expression");
    if (const JsonRef hint = optional_member(place, kind.value, "hint")) {
      const JsonMember known = expect_union(place, hint, "hint");
      if (known.key == "as_int") result.value = expect_integer(place, known.value, "hint");
    }
  } else {
    place.fail(ErrorCode::kUnsupportedProgram, "a size of kind " + quoted_name(kind.key));
  }
  return result;
}

ExportedTensorMeta exported_tensor_meta(const ExportedPlace& place, JsonRef value) {
  ExportedTensorMeta meta;
  meta.dtype = exported_dtype(place, required(place, value, "dtype"));
  const auto take = [&](std::string_view key, std::vector<ExportedSymInt>& numbers) {
    const JsonRef list = expect_array(place, required(place, value, key), key);
    if (list.size() > limits::kTensorRank) {
      place.fail(ErrorCode::kFileLimits, "a tensor of " + std::to_string(list.size()) + " dimensions, the limit is " +
                                             std::to_string(limits::kTensorRank));
    }
    numbers.reserve(list.size());
    for (const JsonRef item : list.items()) numbers.push_back(exported_sym_int(place, item));
  };
  take("sizes", meta.sizes);
  take("strides", meta.strides);
  for (const ExportedSymInt& size : meta.sizes) {
    if (size.value && *size.value < 0) place.damaged("a tensor with the size " + std::to_string(*size.value));
  }
  meta.offset = exported_sym_int(place, required(place, value, "storage_offset"));
  meta.requires_grad = expect_bool(place, required(place, value, "requires_grad"), "requires_grad");
  meta.device = exported_device(place, required(place, value, "device"));
  meta.layout = exported_layout(place, required(place, value, "layout"));
  if (meta.layout == ExportedLayout::kStrided && meta.sizes.size() != meta.strides.size()) {
    place.damaged("a tensor with " + std::to_string(meta.sizes.size()) + " sizes and " +
                  std::to_string(meta.strides.size()) + " strides");
  }
  return meta;
}

}  // namespace tl
