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
  std::string number;      ///< the literal in a tensor without dims that the program holds; else empty
  bool is_tensor = false;  ///< a tensor was given
};

/// The arguments of an Op: the template of its instruction with the run-time values of this execution put in.
std::vector<OpArgument> arguments_of(const Trace& trace, OpId op);

/// True if two literals mean the same value: integers exactly, real numbers to 2^-23 relative (rounded to single
/// precision or not), a list of one number repeated against the number, True against 1.
bool same_literal(std::string_view a, std::string_view b);

/// The elements of a list literal; a scalar is a list of one.
std::vector<std::string_view> list_elements(std::string_view text);

/// What a matched pair of Ops does not share and what may change its value: constants and run-time scalars under the
/// same name, tensors that only one of them was given, parameters of different content, element types, shapes, the
/// operator. Values are compared by what they mean (argument_rules.h): a default that one side writes out, a dim that
/// counts from the other end and what chooses how, not what, is computed are no differences.
std::vector<ArgumentDifference> argument_differences(const Trace& reference, OpId reference_op, const Trace& subject,
                                                     OpId subject_op);

/// True if the Op drew random numbers: its operator may, and was not told a probability of 0 or that nothing trains.
bool draws_random(const Trace& trace, OpId op);

}  // namespace tl
