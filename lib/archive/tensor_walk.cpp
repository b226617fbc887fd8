#include "archive/tensor_walk.h"

namespace tl {
namespace {

TensorIdentity identity_of(const HostTensor& tensor) {
  return {tensor.owner.get(), tensor.offset, tensor.dtype, tensor.sizes, tensor.strides};
}

PickledTensor look_at(const HostTensor& tensor) {
  return {tensor.dtype, tensor.sizes, static_cast<std::uint64_t>(tensor.numel()), tensor.nbytes(), identity_of(tensor)};
}

PickledTensor look_at(const PickleSparseTensor& tensor) {
  std::uint64_t elements = 1;
  for (const std::int64_t size : tensor.sizes) elements *= static_cast<std::uint64_t>(size);
  return {tensor.values.dtype, tensor.sizes, elements,
          tensor.values.nbytes() + tensor.indices.nbytes() + tensor.compressed.nbytes(), identity_of(tensor.values)};
}

PickledTensor look_at(const PickleQuantisedTensor& tensor) {
  PickledTensor looked = look_at(tensor.int_repr);
  looked.dtype = tensor.dtype;
  return looked;
}

std::string step(const PickleValue& key) {
  if (key.string() != nullptr) return *key.string();
  if (key.integer() != nullptr) return std::to_string(*key.integer());
  return std::string(type_name(key));
}

}  // namespace

std::string path_below(const std::string& path, const std::string& name) {
  constexpr std::size_t kMaxPathBytes = 1'024;
  if (path.empty()) return name.substr(0, kMaxPathBytes);
  return path.size() + name.size() < kMaxPathBytes ? path + '.' + name : path;
}

void for_each_tensor(const PickleValue& value, const std::string& path,
                     const std::function<void(const std::string& path, const PickledTensor& tensor)>& visit) {
  if (value.tensor() != nullptr) return visit(path, look_at(*value.tensor()));
  if (value.sparse_tensor() != nullptr) return visit(path, look_at(*value.sparse_tensor()));
  if (value.quantised_tensor() != nullptr) return visit(path, look_at(*value.quantised_tensor()));
  if (const PickleSequence* sequence = value.sequence()) {
    for (std::size_t i = 0; i < sequence->items.size(); ++i) {
      for_each_tensor(sequence->items[i], path_below(path, std::to_string(i)), visit);
    }
  } else if (const PickleDict* dict = value.dict()) {
    for (const auto& [key, item] : dict->items) for_each_tensor(item, path_below(path, step(key)), visit);
  } else if (const PickleObject* object = value.object()) {
    for (std::size_t i = 0; i < object->args.size(); ++i) {
      for_each_tensor(object->args[i], path_below(path, std::to_string(i)), visit);
    }
    for_each_tensor(object->state, path, visit);
  }
}

}  // namespace tl
