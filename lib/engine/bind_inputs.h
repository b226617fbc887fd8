#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/given_inputs.h"
#include "engine/stated_inputs.h"
#include "trace/run_info.h"

namespace tl {

/// The arguments of a run, as RunRequest takes them.
struct BoundInputs {
  std::vector<InputValue> arguments;  ///< one an argument of the signature, in order
  std::vector<bool> given;            ///< false: its default is taken
};

/// Binds what was given to the arguments of `signature`, by the rules of docs/inputs.md: by name and nested path; by
/// number where all names of a file end in a number, counted over the leaves of (args, kwargs); one leftover tensor to
/// the one argument that still needs one. Throws Error: kInputMismatch, one message with all misfits and both sides;
/// kInputMissing when nothing at all was given, with the options that would be complete. Tensors must have the element
/// types and ranks that `stated` and the signature state.
BoundInputs bind_inputs(const Signature& signature, std::span<const GivenSet> given,
                        std::span<const StatedInput> stated = {});

/// The leaves of the bound arguments for the manifest: role (`input.x`, `input.batch.mask`), source, dtype, sizes,
/// range.
std::vector<IoRecord> input_records(const Signature& signature, const BoundInputs& bound);

/// The options that give every required argument a value, random tensors for tensors: `--random x:f32[SIZES] --input
/// n=INT`. Element types, sizes and keys are those of `stated` where it says something of the argument.
std::string example_options(const Signature& signature, std::span<const StatedInput> stated = {});

}  // namespace tl
