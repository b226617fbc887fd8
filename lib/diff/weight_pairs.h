#pragma once

#include <string>
#include <vector>

#include "archive/model_contents.h"
#include "diff/report.h"
#include "diff/side.h"

namespace tl {

/// One line of a precondition; beyond a hundred they are counted only.
void add_detail(Precondition& condition, std::string text);

/// Same where all items are, unknown where there are none.
void settle(Precondition& condition);

/// Parameters, constants and buffers of a recording; digests of buffers are in dumps only.
std::vector<ModelTensor> tensors_of(const Side& side);

struct WeightOptions {
  Renamer rename;              ///< names of the reference to the subject's; may be empty
  bool one_sided = false;      ///< both sides list all they have: what only one has is a difference
  bool constants = false;      ///< that goes for constants too, which else depend on how the code was written
  bool lacks_buffers = false;  ///< a side is a file of tensors, which leaves out buffers that are not persistent
};

struct WeightComparison {
  Precondition weights;         ///< parameters, constants, and tensors of which the file does not say what they are
  Precondition buffers;         ///< what either side calls a buffer
  std::int64_t paired = 0;      ///< by name or by content
  std::int64_t by_content = 0;  ///< of these
};

/// Compares tensors: those of one name by element type, sizes and digest; what is left by digest, each once. Where a
/// digest is missing and the types are equal, nothing is known and nothing counted.
WeightComparison compare_weights(const std::vector<ModelTensor>& reference, const std::vector<ModelTensor>& subject,
                                 const WeightOptions& options);

}  // namespace tl
