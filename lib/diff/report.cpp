#include "diff/report.h"

namespace tl {

const char* to_string(MatchBasis basis) {
  constexpr const char* kNames[] = {"names", "map", "weights", "modules", "order", "values", "roles"};
  return kNames[static_cast<std::size_t>(basis)];
}

const char* to_string(SiteClass site_class) {
  constexpr const char* kNames[] = {"agrees", "source", "inherited", "undetermined", "drift", "not compared"};
  return kNames[static_cast<std::size_t>(site_class)];
}

const char* to_string(Evidence evidence) {
  constexpr const char* kNames[] = {"shape", "statistics", "sampled", "full"};
  return kNames[static_cast<std::size_t>(evidence)];
}

const char* to_string(ChangeKind kind) {
  constexpr const char* kNames[] = {"inserted",  "removed",   "fused",     "split",
                                    "rewritten", "reordered", "quantised", "exchanged"};
  return kNames[static_cast<std::size_t>(kind)];
}

const char* to_string(WeightRelation relation) {
  constexpr const char* kNames[] = {"other",  "reordered", "transposed", "reshaped",  "same elements",
                                    "scaled", "rounded",   "filled",     "quantised", "converted"};
  return kNames[static_cast<std::size_t>(relation)];
}

}  // namespace tl
