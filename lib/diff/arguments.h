#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "diff/report.h"
#include "trace/trace.h"

namespace tl {

/// One argument of an executed operation.
struct OpArgument {
  std::string name;        ///< of the schema; empty where it states none
  std::string text;        ///< a literal as in arg_template; `tensor`, `none`; `?` for a value that is not known
  bool is_tensor = false;  ///< a tensor was given
};

/// The arguments of an Op: the template of its instruction with the run-time values of this execution put in.
std::vector<OpArgument> arguments_of(const Trace& trace, OpId op);

/// True if two literals mean the same value: numbers to 1e-6 relative (single precision rounded or not), a list of one
/// number repeated against the number, True against 1.
bool same_literal(std::string_view a, std::string_view b);

/// What a matched pair of Ops does not share and what may change its value: constants and run-time scalars under the
/// same name, tensors that only one of them was given, parameters of different content, element types, shapes, the
/// operator. Arguments that choose how, not what, is computed (cudnn_enabled, memory_format …) are left out, as are
/// sizes where the outputs have equal shapes, and dims that count from the other end.
std::vector<ArgumentDifference> argument_differences(const Trace& reference, OpId reference_op, const Trace& subject,
                                                     OpId subject_op);

}  // namespace tl
