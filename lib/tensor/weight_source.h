#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/compare.h"
#include "tensor/host_tensor.h"

namespace tl {

/// The elements of a parameter; of a quantised one the integers, and what they stand for.
struct WeightValue {
  HostTensor tensor;
  std::optional<Quantiser> quantiser = {};
};

/// Where values of parameters may be had by address: a model file, a recording made elsewhere.
class WeightSource {
 public:
  WeightSource() = default;
  WeightSource(const WeightSource&) = delete;
  WeightSource& operator=(const WeightSource&) = delete;
  virtual ~WeightSource() = default;

  /// nullopt where it has none of that address, or only its shape.
  virtual std::optional<WeightValue> find(std::string_view address) const = 0;
  /// Addresses of all quantised tensors, in the order of the source; they need not be parameters by name, as packed
  /// ones are inside an object (fc1._packed_params._packed_params.0).
  virtual std::vector<std::string> quantised() const = 0;
};

}  // namespace tl
