#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "tensor/statistic_set.h"
#include "tlspec/manifest.h"
#include "trace_options.h"

namespace tl::cli {

/// Which values `trace` keeps.
enum class SaveKind : std::uint8_t {
  kAuto,      ///< all while the budget holds, then samples and module outputs
  kAll,       ///< all
  kNone,      ///< none
  kSample,    ///< elements at fixed positions of all
  kSelector,  ///< what a selector takes
};

/// What --save, --save-budget and --stream ask for, checked against each other and the level.
struct SavePlan {
  static constexpr std::int64_t kSamples = 64;  ///< positions, where --save does not say how many

  SaveKind kind = SaveKind::kAuto;
  std::int64_t samples = kSamples;
  std::string text = "auto";     ///< as stored in the recording: auto, sample=64, the selector
  std::size_t budget_bytes = 0;  ///< --save-budget; 0: half of the memory that is free when the run begins
  bool stream = false;
  std::optional<StatisticSet> statistics;  ///< --stats
};

/// Throws Error: kUsage for what cannot be read or contradicts itself, kLevelConflict for a level without payloads.
SavePlan plan_save(const TraceOptions& options, Level level);

/// Throws Error for a --stop-after that cannot be read, kStopNotLive for one that only the finished recording could
/// tell.
void check_stop_after(const std::string& text);

}  // namespace tl::cli
