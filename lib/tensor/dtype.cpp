#include "tensor/dtype.h"

#include <algorithm>
#include <array>

namespace tl {
namespace {

using enum DType;

constexpr std::array kRows = {
    DTypeInfo{kU8, "u8", "uint8", "U8", 1},
    DTypeInfo{kI8, "i8", "int8", "I8", 1},
    DTypeInfo{kI16, "i16", "int16", "I16", 2},
    DTypeInfo{kI32, "i32", "int32", "I32", 4},
    DTypeInfo{kI64, "i64", "int64", "I64", 8},
    DTypeInfo{kF16, "f16", "float16", "F16", 2},
    DTypeInfo{kF32, "f32", "float32", "F32", 4},
    DTypeInfo{kF64, "f64", "float64", "F64", 8},
    DTypeInfo{kC32, "c32", "complex32", "", 4},
    DTypeInfo{kC64, "c64", "complex64", "C64", 8},
    DTypeInfo{kC128, "c128", "complex128", "", 16},
    DTypeInfo{kBool, "bool", "bool", "BOOL", 1},
    DTypeInfo{kQI8, "qi8", "qint8", "", 1},
    DTypeInfo{kQU8, "qu8", "quint8", "", 1},
    DTypeInfo{kQI32, "qi32", "qint32", "", 4},
    DTypeInfo{kBF16, "bf16", "bfloat16", "BF16", 2},
    DTypeInfo{kQU4x2, "qu4x2", "quint4x2", "", 1},
    DTypeInfo{kQU2x4, "qu2x4", "quint2x4", "", 1},
    DTypeInfo{kBits1x8, "bits1x8", "bits1x8", "", 1},
    DTypeInfo{kBits2x4, "bits2x4", "bits2x4", "", 1},
    DTypeInfo{kBits4x2, "bits4x2", "bits4x2", "", 1},
    DTypeInfo{kBits8, "bits8", "bits8", "", 1},
    DTypeInfo{kBits16, "bits16", "bits16", "", 2},
    DTypeInfo{kF8E5M2, "f8_e5m2", "float8_e5m2", "F8_E5M2", 1},
    DTypeInfo{kF8E4M3, "f8_e4m3", "float8_e4m3fn", "F8_E4M3", 1},
    DTypeInfo{kF8E5M2FNUZ, "f8_e5m2fnuz", "float8_e5m2fnuz", "F8_E5M2FNUZ", 1},
    DTypeInfo{kF8E4M3FNUZ, "f8_e4m3fnuz", "float8_e4m3fnuz", "F8_E4M3FNUZ", 1},
    DTypeInfo{kU16, "u16", "uint16", "U16", 2},
    DTypeInfo{kU32, "u32", "uint32", "U32", 4},
    DTypeInfo{kU64, "u64", "uint64", "U64", 8},
    DTypeInfo{kF8E8M0, "f8_e8m0", "float8_e8m0fnu", "F8_E8M0", 1},
    DTypeInfo{kF4x2, "f4x2", "float4_e2m1fn_x2", "", 1},
};

constexpr DTypeInfo kNoneRow{kNone, "none", "none", "", 0};

struct Alias {
  std::string_view name;
  DType dtype;
};

constexpr std::array kAliases = {
    Alias{"half", kF16}, Alias{"float", kF32}, Alias{"double", kF64},
    Alias{"long", kI64}, Alias{"int", kI32},   Alias{"short", kI16},
};

}  // namespace

const DTypeInfo& dtype_info(DType dtype) {
  static constexpr auto kByNumber = [] {
    std::array<std::uint8_t, 256> row{};
    row.fill(kRows.size());
    for (std::size_t i = 0; i < kRows.size(); ++i) row[static_cast<std::uint8_t>(kRows[i].dtype)] = i;
    return row;
  }();
  const std::size_t row = kByNumber[static_cast<std::uint8_t>(dtype)];
  return row < kRows.size() ? kRows[row] : kNoneRow;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  constexpr std::string_view kPrefix = "torch.";
  const bool qualified = name.starts_with(kPrefix);
  if (qualified) name.remove_prefix(kPrefix.size());
  if (name.empty()) return std::nullopt;
  for (const DTypeInfo& row : kRows) {
    if (row.torch_name == name) return row.dtype;
    if (!qualified && (row.short_name == name || row.safetensors_name == name)) return row.dtype;
  }
  const auto* alias = std::ranges::find(kAliases, name, &Alias::name);
  if (alias != kAliases.end()) return alias->dtype;
  return std::nullopt;
}

bool is_floating(DType dtype) {
  switch (dtype) {
    case kF16:
    case kF32:
    case kF64:
    case kBF16:
    case kF8E5M2:
    case kF8E4M3:
    case kF8E5M2FNUZ:
    case kF8E4M3FNUZ:
    case kF8E8M0:
    case kF4x2:
      return true;
    default:
      return false;
  }
}

bool is_complex(DType dtype) { return dtype == kC32 || dtype == kC64 || dtype == kC128; }

bool is_quantised(DType dtype) {
  return dtype == kQI8 || dtype == kQU8 || dtype == kQI32 || dtype == kQU4x2 || dtype == kQU2x4;
}

}  // namespace tl
