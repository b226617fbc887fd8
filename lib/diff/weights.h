#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "diff/align.h"
#include "diff/report.h"
#include "diff/side.h"
#include "tensor/weight_source.h"

namespace tl {

/// A parameter as a recording tells of it.
struct ParamFacts {
  std::string address;
  std::string name;         ///< the address under the subject's names
  std::string_view digest;  ///< empty if unknown
  DType dtype = DType::kNone;
  std::vector<std::int64_t> sizes;
};

/// The digest of the elements in row-major order, as params.digest holds it.
std::string packed_digest(const HostTensor& tensor);

/// Parameters of a side, without buffers; `rename` gives them their names.
std::vector<ParamFacts> params_of(const Side& side, const Renamer& rename);

/// Where values of parameters may be had; null: nowhere but in a dump that holds them.
struct WeightSources {
  const WeightSource* reference = nullptr;
  const WeightSource* subject = nullptr;
};

/// At most so many parameters are looked at, and as many bytes of them.
inline constexpr std::size_t kMostWeights = 64;
inline constexpr std::size_t kMostWeightBytes = std::size_t{1} << 30;

/// How parameters differ whose digests, shapes or types do, and what quantised weights stand for: by name, by the
/// module that holds a packed one, by the operation that reads a dequantised one. A value counts only if it has the
/// digest that its side recorded. Sources are not asked where nothing differs.
std::vector<WeightDifference> explain_weights(const Side& reference, const Side& subject, const Alignment& alignment,
                                              const Renamer& rename, const WeightSources& sources);

}  // namespace tl
