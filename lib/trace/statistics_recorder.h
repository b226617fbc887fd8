#pragma once

#include "trace/statistics_table.h"
#include "trace/value_observer.h"

namespace tl {

/// Takes statistics of every value while the model runs. Whoever runs the model hands `table` to the Capture
/// afterwards.
class StatisticsRecorder final : public ValueObserver {
 public:
  explicit StatisticsRecorder(StatisticSet wanted) { table_.taken = wanted; }
  void on_value(std::uint32_t event, const HostTensor& value) override;
  /// What was taken, counted by event. Leaves nothing.
  StatisticsTable take();

 private:
  StatisticsTable table_;
};

}  // namespace tl
