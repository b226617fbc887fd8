#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <functional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "tensor/tensor_ref.h"

namespace tl::lt {

/// The element type as ours; the numbers agree with c10's.
DType dtype_of(const at::Tensor& tensor);
DeviceKind device_kind_of(const at::Tensor& tensor);

/// Wraps a tensor for the torch-free side; the tensor is shared, not copied.
TensorRefPtr make_tensor_ref(at::Tensor tensor);

/// A strided CPU tensor that shares `tensor`'s storage.
HostTensor to_host_tensor(const at::Tensor& tensor);

/// Copies a host tensor into memory of LibTorch's own, which in-place operators may write to.
at::Tensor from_host_tensor(const HostTensor& tensor);

/// The type's structure, as far as binding inputs needs it.
TypeNode type_node(const c10::Type& type);

/// Converts an input to a value of `type`; containers become those of the type, numbers are not converted silently.
/// Throws tl::Error(kInputMismatch) naming `name`.
c10::IValue to_ivalue(const InputValue& value, const c10::TypePtr& type, const std::string& name);

/// Text of a host value: 3, 1e-05, True, None, "abc", [1, 2]. Long lists and strings are cut.
std::string text_of(const c10::IValue& value, std::size_t max_length = 200);

/// Text of a constant of a program: as text_of, but a tensor without dims is the number it holds (0.5, not f64[]),
/// which is how programs write numbers where an operator takes a tensor.
std::string literal_of(const c10::IValue& value);

/// Calls visit(role, leaf) for every leaf of a value by structural path: base, base.0, base.logits.
void for_each_leaf(const c10::IValue& value, const std::string& base,
                   const std::function<void(const std::string&, const c10::IValue&)>& visit);

/// Class name without `__torch__.` and mangling: __torch__.torch.nn.modules.linear.___torch_mangle_24.Linear →
/// torch.nn.modules.linear.Linear.
std::string demangle(const std::string& qualified_name);

}  // namespace tl::lt
