#include "trace/saved_value.h"

#include <string>

#include "core/error.h"
#include "trace/trace.h"

namespace tl {

std::string_view evidence_name(const Trace& trace, OpId op) {
  constexpr std::string_view kNames[] = {"shape", "statistics", "sampled", "full"};
  const bool statistics = trace.statistics.find(op.index()).has_value();
  return kNames[static_cast<std::size_t>(evidence_of(trace, op, statistics))];
}

TensorRefPtr saved_value(const Trace& trace, OpId op) {
  const auto payload = trace.ops.payload[op.index()];
  if (payload >= 0 && trace.payload_source != nullptr) {
    if (auto tensor = trace.payload_source->tensor(PayloadId{static_cast<std::uint32_t>(payload)})) return tensor;
  }
  const auto label = op_label(trace, op);
  const bool uninitialised = (trace.ops.flags[op.index()] & kOpUninitialised) != 0;
  const bool sampled = evidence_of(trace, op) == Evidence::kSampled;
  throw Error(ErrorCode::kActivationNotSaved,
              "the value of " + label + " was not saved" +
                  (uninitialised ? ": it is uninitialised memory"
                   : sampled     ? ": the recording holds a sample of it"
                                 : " (--save " + trace.run.save + ")"),
              uninitialised ? "" : "torchlens trace again with --save all, or --save 'label(\"" + label + "\")'");
}

}  // namespace tl
