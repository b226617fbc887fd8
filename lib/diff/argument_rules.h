#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "diff/arguments.h"
#include "trace/trace.h"

namespace tl {

/// One side of a matched pair of Ops: what was called with which arguments.
struct OpCall {
  const Trace& trace;
  OpId op;
  std::vector<OpArgument> arguments = arguments_of(trace, op);

  DType dtype() const { return static_cast<DType>(trace.ops.dtype[op.index()]); }
  std::span<const std::int64_t> sizes() const { return trace.shapes[trace.ops.shape[op.index()]]; }
  std::string_view operator_name() const;
  /// The argument of that name, null where the operator has none.
  const OpArgument* find(std::string_view name) const;
  /// Sizes of the first tensor given for the argument of that name, or for the first argument where the name is empty;
  /// empty where none was given, and for a tensor without dims.
  std::span<const std::int64_t> tensor_sizes(std::string_view name) const;
};

/// What an argument comes to in a call.
struct ArgumentMeaning {
  std::string value;  ///< to compare: defaults resolved, dims and bounds counted from the front, element types by name
  std::string shown;  ///< for people: the text as written, with the default it stands for
};

/// None is the default of the operator where its formula is known: the scale of attention 1/sqrt(E), the stride of
/// pooling its kernel_size, divisor_override the size of a kernel without padding, correction 1, dtype that of the
/// output, dim all of them. Dims are counted by the rank of the first tensor (of the output for unsqueeze and stack),
/// bounds of slices and indices of select by the extent of their dim.
ArgumentMeaning meaning_of(const OpArgument& argument, const OpCall& call);

/// True if the values of an argument cannot make a difference, or are not known: how a value is computed or kept, sizes
/// where the outputs have equal sizes, probabilities and momentum in evaluation.
bool is_immaterial(const OpArgument& ours, const OpArgument& theirs, const OpCall& reference, const OpCall& subject);

/// None was given, and no host value can stand for what the operator needs there.
bool is_none(const OpArgument& argument);

}  // namespace tl
