#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tensor/host_tensor.h"

namespace tl {

/// A value handed to a model: a tensor, a host scalar, or a container of such. Sparse and quantised tensors are not
/// inputs.
struct InputValue {
  struct None {};
  using List = std::vector<InputValue>;
  struct Tuple {
    std::vector<InputValue> elements;
  };
  using Dict = std::vector<std::pair<InputValue, InputValue>>;  ///< insertion order
  std::variant<None, bool, std::int64_t, double, std::string, HostTensor, List, Tuple, Dict> data;
  std::string source;  ///< where it came from, for messages and the manifest: x.safetensors:x, random, 3
};

}  // namespace tl
