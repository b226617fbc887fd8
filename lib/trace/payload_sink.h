#pragma once

#include <cstdint>

namespace tl {

struct PayloadFacts;
class TensorRef;

/// Takes payloads out of memory while the model runs: to a disk, into a count.
class PayloadSink {
 public:
  virtual ~PayloadSink() = default;
  /// Called once a payload, in order of `payload`, its number in the capture's payload source; perhaps from a thread of
  /// the engine's, never from two at once. `tensor` is valid during the call. An Error that it throws ends the run.
  virtual void write(std::uint32_t payload, const PayloadFacts& facts, const TensorRef& tensor) = 0;
};

}  // namespace tl
