#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tensor/tensor_ref.h"
#include "trace/tables.h"

namespace tl {

/// A payload as it goes into a safetensors file: how, and the parts under their suffixes. Elements that the format has
/// no name for are relabelled (qint8 as I8, bits as U8) or split into pairs (complex128 as F64 with a trailing axis of
/// 2).
struct StoredPayload {
  PayloadEncoding encoding = PayloadEncoding::kOpaque;
  std::vector<TensorPart> parts;  ///< empty for kOpaque
};

/// What the row of a payload says of its value.
struct PayloadShape {
  DType dtype = DType::kNone;
  std::span<const std::int64_t> sizes;
  std::span<const std::int64_t> strides;  ///< in elements, used by windows only
  std::int64_t offset = 0;                ///< in elements, used by windows only
};

/// Suffixes of the parts that a payload may have, in the order they are written.
std::span<const std::string_view> part_suffixes();

/// The parts to write. An expanded or otherwise overlapping tensor gives the block of storage it covers (kWindow);
/// others give their elements, of which a strided layout is still to be packed. Shares the tensor's storage.
StoredPayload encode_payload(const TensorRef& tensor);

/// The parts as the engine gave them. Throws Error(kFileDamaged), with a message that begins with the reason, if the
/// stored parts do not fit `encoding` and `shape`. Shares the storage of `parts`.
std::vector<TensorPart> decode_payload(PayloadEncoding encoding, const PayloadShape& shape,
                                       std::vector<TensorPart> parts);

/// How a tensor with that encoding presents itself.
TensorKind kind_of(PayloadEncoding encoding);

}  // namespace tl
