// Before: Layers stand by first pass. After: type_num counts the Layers of a type, total_num those that are operations,
// both in that order; inputs, outputs and buffers have no total_num. Labels are derived from the two numbers and never
// stored: relu_1_2, relu_1_2:3, input_1. After group-loops, before everything that names an Op.
#include <cstdint>
#include <vector>

#include "postprocess/step.h"

namespace tl {

void assign_labels(StepContext& context) {
  auto& trace = context.trace;
  auto& layers = trace.layers;
  std::vector<std::int32_t> of_type(trace.strings.size() + 1, 0);  // the last is for operations without a layer type
  std::int32_t total = 0;
  for (std::size_t layer = 0; layer < layers.layer_type.size(); ++layer) {
    const auto type = layers.layer_type[layer];
    layers.type_num.mut(layer) = ++of_type[type < 0 ? of_type.size() - 1 : static_cast<std::size_t>(type)];
    const bool operation = trace.ops.kind[static_cast<std::size_t>(layers.first_op[layer])] == 0;
    layers.total_num.mut(layer) = operation ? ++total : 0;
  }
}

}  // namespace tl
