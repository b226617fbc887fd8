#include <ATen/ATen.h>
#include <ATen/core/ivalue_inl.h>
#include <ATen/core/jit_type.h>
#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/DynamicLayer.h>

#include "core/error.h"
#include "exported/lowering.h"

// torch._functorch.predispatch: vmap as LibTorch's own functorch runs it, level by level.
namespace tl::lt {
namespace {

at::functorch::RandomnessType randomness_of(const std::string& text) {
  if (text == "error") return at::functorch::RandomnessType::Error;
  if (text == "same") return at::functorch::RandomnessType::Same;
  if (text == "different") return at::functorch::RandomnessType::Different;
  TORCH_CHECK(false, "vmap: randomness is error, same or different, not ", text);
}

/// As torch._C._functorch._remove_batch_dim: the batch dimension of `level` moved to `out_dim`, or the tensor expanded
/// where it never was batched at that level.
at::Tensor remove_batch_dim(const at::Tensor& tensor, std::int64_t level, std::int64_t batch_size,
                            std::int64_t out_dim) {
  const auto* batched = at::functorch::maybeGetBatchedImpl(tensor);
  if (batched == nullptr || batched->level() != level) {
    auto sizes = tensor.sizes().vec();
    const auto rank = static_cast<std::int64_t>(sizes.size()) + 1;
    const auto at = out_dim < 0 ? out_dim + rank : out_dim;
    TORCH_CHECK(at >= 0 && at < rank, "vmap: out_dim ", out_dim, " is out of range");
    sizes.insert(sizes.begin() + at, batch_size);
    return tensor.unsqueeze(at).expand(sizes);
  }
  return batched->value().movedim(batched->bdim(), out_dim);
}

}  // namespace

void ExportedLowering::lower_predispatch(const ExportedNode& node, std::string_view name, const NodePlace& place,
                                         Scope& scope, Output& out) {
  Call call;
  std::vector<c10::TypePtr> types;
  std::function<void(torch::jit::Stack&)> run;
  const auto tensor = c10::TypePtr(c10::TensorType::get());
  const auto integer = c10::TypePtr(c10::IntType::get());
  if (name == "lazy_load_decompositions") {
    return;  // LibTorch's decompositions are compiled in
  } else if (name == "_vmap_increment_nesting") {
    types = {integer, c10::StringType::get()};
    call.output_types = {integer};
    run = [](torch::jit::Stack& stack) {
      const auto randomness = randomness_of(torch::jit::pop(stack).toStringRef());
      const auto size = torch::jit::pop(stack).toInt();
      stack.emplace_back(
          at::functorch::initAndPushDynamicLayer(at::functorch::TransformType::Vmap, c10::SymInt(size), randomness));
    };
  } else if (name == "_vmap_decrement_nesting") {
    call.output_types = {integer};
    run = [](torch::jit::Stack& stack) {
      stack.emplace_back(at::functorch::popDynamicLayerAndDeleteMetadata().layerId());
    };
  } else if (name == "_add_batch_dim") {
    types = {tensor, integer, integer};
    call.output_types = {tensor};
    run = [](torch::jit::Stack& stack) {
      const auto level = torch::jit::pop(stack).toInt();
      auto dim = torch::jit::pop(stack).toInt();
      const auto value = torch::jit::pop(stack).toTensor();
      if (dim < 0) dim += value.dim();
      stack.emplace_back(at::functorch::addBatchDim(value, dim, level));
    };
  } else if (name == "_remove_batch_dim") {
    types = {tensor, integer, integer, integer};
    call.output_types = {tensor};
    run = [](torch::jit::Stack& stack) {
      const auto dim = torch::jit::pop(stack).toInt();
      const auto size = torch::jit::pop(stack).toInt();
      const auto level = torch::jit::pop(stack).toInt();
      stack.emplace_back(remove_batch_dim(torch::jit::pop(stack).toTensor(), level, size, dim));
    };
  } else {
    refuse(node, "is a transform that this engine does not run", "export the model without torch.func transforms");
  }
  if (node.inputs.size() != types.size()) fail(node, "gives " + std::to_string(node.inputs.size()) + " arguments");
  for (std::size_t i = 0; i < types.size(); ++i) {
    call.inputs.push_back(
        input_of(node, "operand", node.inputs[i].argument, c10::Argument("operand", types[i]), place, scope, out));
  }
  const auto* ref = node.outputs.size() == 1 ? node.outputs[0].ref() : nullptr;
  call.outputs = {ref ? define(ref->value, scope, out) : new_slot()};
  call.text = {"functorch::" + std::string(name), "", std::string(name), "",
               ref ? scope.graph.values[ref->value].name : std::string()};
  emit(std::move(call), place, out, std::move(run));
}

}  // namespace tl::lt
