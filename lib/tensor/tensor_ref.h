#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tensor/host_tensor.h"

namespace tl {

/// How an engine's tensor is laid out in memory.
enum class TensorKind : std::uint8_t {
  kStrided = 0,    ///< storage + sizes + strides + offset
  kQuantised = 1,  ///< strided integers + quantiser parameters
  kSparse = 2,     ///< indices and values (COO or compressed)
  kOpaque = 3,     ///< a wrapper or backend tensor without storage; its bytes cannot be written
};

/// One named part of a tensor as it is written: strided tensors have one part with an empty suffix; quantised ones
/// `` (int_repr), `.scale`, `.zero_point`; sparse ones `.indices`, `.values`, or `.crow_indices`, `.col_indices`,
/// `.values`.
struct TensorPart {
  std::string suffix;
  HostTensor tensor;
};

/// A shared handle to a tensor that lives in an engine. The engine's own type stays inside.
class TensorRef {
 public:
  virtual ~TensorRef() = default;
  virtual TensorKind kind() const = 0;
  /// The parts to write, on the host, conjugation and negation resolved. Strided tensors share the engine's storage.
  virtual std::vector<TensorPart> to_host() const = 0;
};

using TensorRefPtr = std::shared_ptr<const TensorRef>;

}  // namespace tl
