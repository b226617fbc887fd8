#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tl {

/// How the floating-point operations of a call follow from its shapes and arguments. What each counts stands in
/// docs/cost.md; lib/cost holds the functions.
enum class FlopFormula : std::uint8_t {
  kUnknown,                ///< no formula: the count is not known
  kZero,                   ///< moves, names or makes elements, computes none
  kGather,                 ///< zero, and reads of its first argument no more than it yields: embedding, index
  kOverwrite,              ///< zero, and does not read its first argument: copy_, fill_
  kPerOutput,              ///< so many for each element of the first output
  kPerInput,               ///< so many for each element of the first tensor argument
  kPerArgument,            ///< one for each element of the argument at a position
  kLinear,                 ///< input, weight, bias
  kConvolution,            ///< input, weight, bias; transposed where the argument of that name is true
  kTransposedConvolution,  ///< input, weight, bias
  kMatmul,                 ///< two matrices, vectors or batches of them
  kAddMatmul,              ///< a tensor and two matrices or batches of them
  kAttention,              ///< query, key, value
  kPool,                   ///< windows of kernel_size
  kSort,                   ///< along dim
  kEinsum,                 ///< an equation over two operands
  kLstm,                   ///< input, hidden state, weights; cells too
  kGru,
  kRnnTanh,
  kRnnRelu,
};

/// The formula of an operator and its number: operations an element; of kPerArgument the position; of kPool the spatial
/// rank; of kLinear the operations an element that are fused behind it.
struct FlopRule {
  FlopFormula formula = FlopFormula::kUnknown;
  int factor = 0;
};

/// Where a rule comes from.
enum class FlopSource : std::uint8_t {
  kTorchLens,  ///< Python TorchLens 2.36.1 counts it so
  kComposed,   ///< the sum of what TorchLens counts for its parts
};

/// Operators that share a rule. A name is `aten::add`, or `aten::max.other` where an overload is another operation.
struct FlopGroup {
  FlopRule rule;
  FlopSource source = FlopSource::kTorchLens;
  std::string_view names;  ///< qualified, separated by blanks; names without namespace are aten's
  std::string_view note = {};
};

/// The rule of an operator, by name and overload, then by name; an in-place form (`aten::relu_`) has that of its
/// out-of-place one where it has none of its own.
FlopRule flop_rule(std::string_view op_name, std::string_view overload);

/// Every group, in the order of docs/cost.md.
std::span<const FlopGroup> flop_groups();

}  // namespace tl
