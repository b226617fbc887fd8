#pragma once

#include <cstdint>

namespace tl {

struct HostTensor;

/// Sees every value while the model runs, kept or not: statistics, narration, checks.
class ValueObserver {
 public:
  virtual ~ValueObserver() = default;
  /// Called once for each event of the capture that has a strided value in host memory, right after the event was
  /// appended and before anything can write to it. `value` is a view of the engine's memory, valid during the call.
  virtual void on_value(std::uint32_t event, const HostTensor& value) = 0;
};

}  // namespace tl
