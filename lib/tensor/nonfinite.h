#pragma once

#include <cstdint>

#include "tensor/host_tensor.h"

namespace tl {

/// True if some element is NaN or an infinity; one pass that looks at exponents only. Integers never are.
bool holds_nonfinite(const HostTensor& tensor);

/// The non-finite elements of a tensor. A complex element counts by its absolute value.
struct NonFinite {
  std::int64_t nan = 0;
  std::int64_t posinf = 0;
  std::int64_t neginf = 0;
  std::int64_t first = -1;  ///< row-major index of the first NaN or +inf, else of the first -inf; -1 if all are finite

  bool only_neginf() const { return neginf > 0 && nan == 0 && posinf == 0; }
};
NonFinite find_nonfinite(const HostTensor& tensor);

}  // namespace tl
