#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "archive/pickle_value.h"
#include "tensor/dtype.h"

namespace tl {

/// Tells apart what are different elements of storages; equal for two views of the same elements.
using TensorIdentity =
    std::tuple<const void*, std::int64_t, DType, std::vector<std::int64_t>, std::vector<std::int64_t>>;

/// One tensor of a pickle, of any layout, as far as looking at it needs.
struct PickledTensor {
  DType dtype = DType::kNone;
  std::vector<std::int64_t> sizes;  ///< of the dense tensor
  std::uint64_t elements = 0;       ///< of the dense tensor
  std::uint64_t bytes = 0;          ///< of what the file holds of it: for a sparse one indices and values
  TensorIdentity identity;
};

/// `path.name`, or `name` at the root; where that grows beyond any name that a model has, its end is left out.
std::string path_below(const std::string& path, const std::string& name);

/// Calls `visit` for every tensor below `value` with its path: dict keys and positions joined by dots. `value` is what
/// an unpickler with UnpickleOptions::sizes_only gave, so its nesting is bounded.
void for_each_tensor(const PickleValue& value, const std::string& path,
                     const std::function<void(const std::string& path, const PickledTensor& tensor)>& visit);

}  // namespace tl
