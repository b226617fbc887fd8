#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tl {

/// Element types of tensors. The numbers are those of c10::ScalarType (torch/headeronly/core/ScalarType.h), so that the
/// engine converts by a cast; they are also what `.tlspec` columns store.
enum class DType : std::uint8_t {
  kU8 = 0,
  kI8 = 1,
  kI16 = 2,
  kI32 = 3,
  kI64 = 4,
  kF16 = 5,
  kF32 = 6,
  kF64 = 7,
  kC32 = 8,
  kC64 = 9,
  kC128 = 10,
  kBool = 11,
  kQI8 = 12,
  kQU8 = 13,
  kQI32 = 14,
  kBF16 = 15,
  kQU4x2 = 16,
  kQU2x4 = 17,
  kBits1x8 = 18,
  kBits2x4 = 19,
  kBits4x2 = 20,
  kBits8 = 21,
  kBits16 = 22,
  kF8E5M2 = 23,
  kF8E4M3 = 24,
  kF8E5M2FNUZ = 25,
  kF8E4M3FNUZ = 26,
  kU16 = 27,
  kU32 = 28,
  kU64 = 29,
  kF8E8M0 = 44,
  kF4x2 = 45,
  kNone = 255,  ///< no tensor, or an element type that this build does not know
};

/// What is known of a DType.
struct DTypeInfo {
  DType dtype;
  std::string_view short_name;        ///< as shown: f32, i64, bool, bf16, c64, qi8 …
  std::string_view torch_name;        ///< as in Python after `torch.`: float32, int64 …
  std::string_view safetensors_name;  ///< as in a safetensors header (F32, I64 …); empty where the format has none
  std::size_t item_bytes;             ///< bytes of one element
};

/// The row of a dtype; the row of kNone (name "none", 0 bytes) for numbers no row has.
const DTypeInfo& dtype_info(DType dtype);
inline std::string_view short_name(DType dtype) { return dtype_info(dtype).short_name; }
inline std::size_t item_bytes(DType dtype) { return dtype_info(dtype).item_bytes; }

/// Looks a dtype up by any of its names: short (f32), torch (float32, torch.float32), safetensors (F32), or a common
/// alias (half, float, double, long, int, short). Case matters. nullopt if no row has the name.
std::optional<DType> dtype_from_name(std::string_view name);

bool is_floating(DType dtype);
bool is_complex(DType dtype);
bool is_quantised(DType dtype);

}  // namespace tl
