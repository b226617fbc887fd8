#include "trace/statistics_recorder.h"

#include <utility>

#include "tensor/statistics.h"

namespace tl {

void StatisticsRecorder::on_value(std::uint32_t event, const HostTensor& value) {
  const bool exact = value.dtype == DType::kI64 || value.dtype == DType::kU64;
  table_.append(event, compute_stats(value, table_.taken), exact);
}

StatisticsTable StatisticsRecorder::take() {
  StatisticsTable empty;
  empty.taken = table_.taken;
  return std::exchange(table_, std::move(empty));
}

}  // namespace tl
