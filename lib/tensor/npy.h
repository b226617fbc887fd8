#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "tensor/host_tensor.h"

namespace tl {

/// The array of a NumPy `.npy` file (format versions 1 to 3) whose bytes `owner` keeps alive; `shown_name` stands for
/// the file in messages. A view of `bytes`, possibly unaligned for the dtype, with the strides that `fortran_order`
/// asks for; big-endian arrays are copied and swapped. Throws Error: kFileDamaged for no npy file, headers that say
/// something else than descr, fortran_order and shape, and counts that disagree with the bytes present; kFileLimits for
/// rank and header size; kUnsupportedKind for structured, object, string, date, extended-precision and void arrays
/// (among them bfloat16, which NumPy stores as V2).
HostTensor read_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, std::string_view shown_name);

}  // namespace tl
