#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>

namespace tl::lt {

/// True for tensors inside vmap: wrappers that hide a batch dimension.
inline bool is_batched(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::FuncTorchBatched);
}

/// The tensor that holds the values, with every batch dimension in sight, and where those are: `vmap:0`, `vmap:1,0`
/// (outermost level first).
std::pair<at::Tensor, std::string> batched_view(const at::Tensor& tensor);

/// The implementation that owns the memory, inside all wrappers of vmap.
const c10::TensorImpl* unwrapped_impl(const at::Tensor& tensor);

/// The storage of a tensor, inside all wrappers of vmap; null where it has none (sparse, opaque).
inline c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  const auto* impl = is_batched(tensor) ? unwrapped_impl(tensor) : tensor.unsafeGetTensorImpl();
  return impl->has_storage() ? impl->unsafe_storage().unsafeGetStorageImpl() : nullptr;
}

}  // namespace tl::lt
