#include "executor/batched_view.h"

#include <ATen/functorch/BatchedTensorImpl.h>

#include <cstdint>
#include <vector>

namespace tl::lt {

std::pair<at::Tensor, std::string> batched_view(const at::Tensor& tensor) {
  at::Tensor value = tensor;
  std::vector<std::int64_t> dims;  // innermost level first
  while (const auto* batched = at::functorch::maybeGetBatchedImpl(value)) {
    const auto at = batched->bdim();
    // Seen from the next level out, a dimension at or behind the new one lies one further back.
    for (auto& dim : dims) dim += dim >= at ? 1 : 0;
    dims.push_back(at);
    value = batched->value();
  }
  std::string text = "vmap:";
  for (auto i = dims.size(); i-- > 0;) text += std::to_string(dims[i]) + (i > 0 ? "," : "");
  return {value, text};
}

const c10::TensorImpl* unwrapped_impl(const at::Tensor& tensor) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  while (impl->key_set().has(c10::DispatchKey::FuncTorchBatched)) {
    impl = static_cast<const at::functorch::BatchedTensorImpl*>(impl)->value().unsafeGetTensorImpl();
  }
  return impl;
}

}  // namespace tl::lt
